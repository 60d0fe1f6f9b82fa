// SPDX-License-Identifier: Apache-2.0
//! Runs a scenario: the core's engine with the model's world. Returns a report.

use tierline_core::engine::Engine;
use tierline_core::event::Event;
use tierline_core::policy::Policy;
use tierline_core::port::TenantId;
use tierline_core::qos::Limits;
use tierline_core::unit::Nanos;

use crate::error::Result;
use crate::qos::explain;
use crate::report::{Hash, Interval, Means, Moves, QosMeans, Report, Snapshot, TenantMeans, due};
use crate::scenario::Scenario;
use crate::world::ModelWorld;

/// Runs a scenario with the policy it names.
///
/// # Errors
/// If a part of the scenario is invalid.
pub fn run(scenario: &Scenario) -> Result<Report> {
    run_policy(scenario, scenario.policy_set()?)
}

/// Runs a scenario with the given policy, which need not be in the list.
///
/// # Errors
/// If a part of the scenario is invalid.
pub fn run_policy(scenario: &Scenario, policy: Box<dyn Policy>) -> Result<Report> {
    run_with_events(scenario, policy, &mut |_| {})
}

/// The same; `on_events` receives the events of each tick.
///
/// # Errors
/// If a part of the scenario is invalid.
pub fn run_with_events(
    scenario: &Scenario,
    policy: Box<dyn Policy>,
    on_events: &mut dyn FnMut(&[Event]),
) -> Result<Report> {
    let wants = policy.wants();
    let mut world = scenario.world_for(&wants)?;
    let interval = scenario.interval(&wants);
    let name = policy.name();
    let qos = scenario.qos(policy.as_ref())?;
    let (limits, mut schedule) = (Limits::default(), scenario.limits()?);
    let mut engine = Engine::new(world.tiers().clone(), limits, policy, scenario.max_rate);
    engine.qos = qos;
    let end = Nanos::from_secs_f64(scenario.seconds);
    let mut log = Log::new(scenario, &engine, &world, end);
    let mut now = Nanos::ZERO;
    while now <= end {
        schedule.apply(now, &mut engine.limits);
        on_events(engine.tick(now, &mut world));
        log.note(now, scenario.report_every, &engine, &world);
        // The thread that moves pages also runs the engine.
        now = (now + interval).max(world.busy_until());
    }
    // Programs run until the end, whenever the last tick was.
    world.run_until(end);
    log.note(end, Nanos(1), &engine, &world);
    Ok(log.report(scenario, name, &engine, &world))
}

/// Data collected during a run.
struct Log {
    tenants: Vec<String>,
    start: Snapshot,
    last: Snapshot,
    last_at: Nanos,
    late: Option<Snapshot>,
    late_from: Nanos,
    series: Vec<Interval>,
}

impl Log {
    fn new(scenario: &Scenario, engine: &Engine, world: &ModelWorld, end: Nanos) -> Self {
        let start = Snapshot::of(world, engine.showback());
        Self {
            tenants: scenario.tenant.iter().map(|tenant| tenant.name.clone()).collect(),
            last: start.clone(),
            start,
            last_at: Nanos::ZERO,
            late: None,
            late_from: Nanos(end.0 / 4 * 3),
            series: Vec::new(),
        }
    }

    fn note(&mut self, now: Nanos, every: Nanos, engine: &Engine, world: &ModelWorld) {
        if due(now, self.last_at, every) {
            let means = self.means(&self.last, engine, world);
            self.series.push(Interval { seconds: now.as_secs_f64(), means });
            (self.last, self.last_at) = (Snapshot::of(world, engine.showback()), now);
        }
        if now >= self.late_from && self.late.is_none() {
            self.late = Some(Snapshot::of(world, engine.showback()));
        }
    }

    /// Means since a snapshot, with tenants.
    fn means(&self, since: &Snapshot, engine: &Engine, world: &ModelWorld) -> Means {
        let mut means = since.until(world);
        let ids = || (1..).map(TenantId).zip(&self.tenants);
        for (program, job) in means.programs.iter_mut().zip(world.leaders()) {
            let owner = ids().find(|(id, _)| *id == job.tenant);
            program.tenant = owner.map(|(_, name)| name.clone());
        }
        let tenant = |(id, name): (TenantId, &String)| TenantMeans {
            name: name.clone(),
            used_bytes: world.used_by(id),
            limit_bytes: world.tiers().iter().map(|(t, _)| engine.limits.get(id, t)).collect(),
            ..since.tenant(id, world, engine.showback())
        };
        means.tenants = ids().map(tenant).collect();
        for (tenant, (id, _)) in means.tenants.iter_mut().zip(ids()) {
            tenant.qos = engine.qos.report(id).map(|standing| QosMeans::of(&standing));
        }
        means
    }

    fn report(
        self,
        scenario: &Scenario,
        policy: &str,
        engine: &Engine,
        world: &ModelWorld,
    ) -> Report {
        let mut hash = Hash::new(engine.fingerprint().0);
        self.series.iter().for_each(|interval| hash.interval(interval));
        let counts = &engine.migrator().counts;
        let (samples, samples_lost) = (engine.intake().samples, engine.intake().lost);
        let means = |since| self.means(since, engine, world);
        let steady = self.late.as_ref().map_or_else(Means::default, means);
        Report {
            machine: scenario.machine.clone(),
            policy: policy.into(),
            tracker: world.tracker().into(),
            seed: scenario.seed,
            seconds: scenario.seconds,
            fingerprint: hash.text(),
            steady,
            overall: means(&self.start),
            moves: Moves {
                promoted_pages: counts.promoted_pages,
                demoted_pages: counts.demoted_pages,
                ping_pong_pages: counts.ping_pong_pages,
                split_pages: counts.split,
                tiering: counts.tiering,
                paging_seconds: counts.paging.as_secs_f64(),
                mover_seconds: world.counters().mover_ns * 1e-9,
                tracker_seconds: world.counters().tracker_ns * 1e-9,
                samples,
                samples_lost,
            },
            qos_decisions: engine
                .qos
                .decisions()
                .map(|entry| explain(entry, &self.tenants, engine.tiers()))
                .collect(),
            series: self.series,
        }
    }
}
