// SPDX-License-Identifier: Apache-2.0
//! Runs a scenario: the core's engine over the model's world, and what came of it.

use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::policy::Policy;
use tierline_core::qos::Limits;
use tierline_core::unit::Nanos;

use crate::error::Result;
use crate::report::{Hash, Means, Moves, Report, Row, Snapshot, due};
use crate::scenario::Scenario;
use crate::world::ModelWorld;

/// Runs a scenario with the policy it names.
///
/// # Errors
/// Where something of the scenario cannot be made.
pub fn run(scenario: &Scenario) -> Result<Report> {
    run_policy(scenario, scenario.policy_set()?)
}

/// Runs a scenario with any policy, of the list or not.
///
/// # Errors
/// Where something of the scenario cannot be made.
pub fn run_policy(scenario: &Scenario, policy: Box<dyn Policy>) -> Result<Report> {
    run_told(scenario, policy, &mut |_| {})
}

/// Likewise; `told` hears all events, tick by tick.
///
/// # Errors
/// Where something of the scenario cannot be made.
pub fn run_told(
    scenario: &Scenario,
    policy: Box<dyn Policy>,
    told: &mut dyn FnMut(&[Event]),
) -> Result<Report> {
    let wants = policy.wants();
    let mut world = scenario.world_for(&wants)?;
    let interval = scenario.interval(&wants);
    let name = policy.name();
    let limits = Limits::default();
    let mut engine = Engine::new(world.tiers().clone(), limits, policy, scenario.max_rate);
    let end = Nanos::from_secs_f64(scenario.seconds);
    let mut log = Log::new(&world, end);
    let mut now = Nanos::ZERO;
    while now <= end {
        told(engine.tick(now, &mut world));
        log.note(now, scenario.report_every, &world);
        // The thread that moves pages is the one that ticks.
        now = (now + interval).max(world.busy_until());
    }
    // Programs run on to the end, whenever the last tick was.
    world.run_until(end);
    log.note(end, Nanos(1), &world);
    Ok(log.report(scenario, name, &engine, &world))
}

/// What is written down on the way.
struct Log {
    start: Snapshot,
    last: Snapshot,
    last_at: Nanos,
    late: Option<Snapshot>,
    late_from: Nanos,
    series: Vec<Row>,
}

impl Log {
    fn new(world: &ModelWorld, end: Nanos) -> Self {
        Self {
            start: Snapshot::of(world),
            last: Snapshot::of(world),
            last_at: Nanos::ZERO,
            late: None,
            late_from: Nanos(end.0 / 4 * 3),
            series: Vec::new(),
        }
    }

    fn note(&mut self, now: Nanos, every: Nanos, world: &ModelWorld) {
        if due(now, self.last_at, every) {
            self.series.push(Row { seconds: now.as_secs_f64(), means: self.last.until(world) });
            (self.last, self.last_at) = (Snapshot::of(world), now);
        }
        if now >= self.late_from && self.late.is_none() {
            self.late = Some(Snapshot::of(world));
        }
    }

    fn report(
        self,
        scenario: &Scenario,
        policy: &str,
        engine: &Engine,
        world: &ModelWorld,
    ) -> Report {
        let mut hash = Hash::new(engine.fingerprint().0);
        self.series.iter().for_each(|row| hash.row(row));
        let counts = &engine.migrator().counts;
        let (samples, samples_lost) = (engine.intake().samples, engine.intake().lost);
        let steady = self.late.as_ref().map_or_else(Means::default, |late| late.until(world));
        Report {
            machine: scenario.machine.clone(),
            policy: policy.into(),
            tracker: world.tracker().into(),
            seed: scenario.seed,
            seconds: scenario.seconds,
            fingerprint: hash.text(),
            steady,
            overall: self.start.until(world),
            moves: Moves {
                promoted_pages: counts.promoted_pages,
                demoted_pages: counts.demoted_pages,
                ping_pong_pages: counts.ping_pong_pages,
                split_pages: counts.split,
                tiering: counts.tiering,
                paging_seconds: counts.paging.as_secs_f64(),
                mover_seconds: world.books().mover_ns * 1e-9,
                tracker_seconds: world.books().tracker_ns * 1e-9,
                samples,
                samples_lost,
            },
            series: self.series,
        }
    }
}
