// SPDX-License-Identifier: Apache-2.0
//! The whole journey: look, believe, decide, act. One `tick` is one trip round.

use crate::event::{Event, Fingerprint};
use crate::intake::{Belief, Intake};
use crate::migrator::{Migrator, Scene};
use crate::page::{PageIdx, PageTable};
use crate::policy::plan::Plan;
use crate::policy::view::{Evidence, Machine, Memory, Orders, View};
use crate::policy::{Policy, Wants};
use crate::port::{Attention, Observations, SpaceEvent, SpaceId, Telemetry, TenantId, World};
use crate::qos::Limits;
use crate::qos::enforcer::Enforcer;
use crate::questions::Questions;
use crate::telemetry::calm::{Calm, SlowHits};
use crate::telemetry::hotness::Hotness;
use crate::telemetry::stretches::StretchHeat;
use crate::tier::Tiers;
use crate::unit::{BytesPerSec, Nanos};

/// Samples for which there is always room, 160 KiB. Ours.
const KEPT: usize = 4096;

/// The pipeline with all it knows.
pub struct Engine {
    tiers: Tiers,
    limits: Limits,
    policy: Box<dyn Policy>,
    wants: Wants,
    migrator: Migrator,
    pages: PageTable,
    hotness: Hotness,
    stretches: StretchHeat,
    calm: Calm,
    attention: Attention,
    /// The plan used up the budget: there may be more to move.
    backlog: bool,
    fingerprint: Fingerprint,
    telemetry: Telemetry,
    seen: Observations,
    intake: Intake,
    questions: Questions,
    plan: Plan,
    enforcer: Enforcer,
    page_out: Vec<PageIdx>,
    split: Vec<PageIdx>,
    events: Vec<Event>,
}

impl Engine {
    /// An engine for a machine, that moves at most `rate`.
    pub fn new(tiers: Tiers, limits: Limits, policy: Box<dyn Policy>, rate: BytesPerSec) -> Self {
        Self {
            tiers,
            limits,
            wants: policy.wants(),
            policy,
            migrator: Migrator::new(rate),
            pages: PageTable::default(),
            hotness: Hotness::default(),
            stretches: StretchHeat::default(),
            calm: Calm::default(),
            attention: Attention::default(),
            backlog: false,
            fingerprint: Fingerprint::default(),
            telemetry: Telemetry::default(),
            seen: Observations::default(),
            intake: Intake::default(),
            questions: Questions::default(),
            plan: Plan::default(),
            enforcer: Enforcer::default(),
            page_out: Vec::new(),
            split: Vec::new(),
            events: Vec::new(),
        }
    }

    /// One trip round. Returns what happened.
    pub fn tick(&mut self, now: Nanos, world: &mut dyn World) -> &[Event] {
        self.seen.clear();
        self.plan.reset();
        self.events.clear();

        world.observe(now, &mut self.seen);
        let slow_hits = self.believe(now);
        self.telemetry = world.measure(now);
        self.questions.put(now, &self.pages, world);
        self.decide(now);
        self.rewatch(world);
        let Self { pages, migrator, events, .. } = self;
        let mut scene = Scene { now, pages, world, events };
        migrator.carry_out(&self.plan, &self.telemetry, &self.limits, &mut scene);
        migrator.page_out(self.page_out.drain(..), &mut scene);
        migrator.split(self.split.drain(..), &mut scene);
        self.attend(now, slow_hits, world);

        for event in &self.events {
            self.fingerprint.add(event);
        }
        &self.events
    }

    /// Takes in what was observed.
    fn believe(&mut self, now: Nanos) -> Option<SlowHits> {
        let Self { pages, hotness, stretches, .. } = self;
        let mut belief = Belief { pages, hotness, stretches };
        let slowest = self.tiers.slowest();
        self.intake.take_in(now, &mut self.seen, self.wants, slowest, &mut belief)
    }

    fn decide(&mut self, now: Nanos) {
        let budget = self.migrator.budget(now);
        let mut view = View {
            now,
            evidence: Evidence {
                touched: &self.intake.touched,
                hits: &self.intake.hits,
                hits_in: &self.intake.hits_in,
                watched: self.intake.watched,
                fast_unseen: self.seen.fast_unseen,
                truth: &self.seen.rates,
                stretches: &self.seen.stretches,
                answers: &self.questions.answers,
            },
            memory: Memory {
                pages: &mut self.pages,
                hotness: &self.hotness,
                stretch_heat: &self.stretches,
            },
            machine: Machine {
                tiers: &self.tiers,
                telemetry: &self.telemetry,
                limits: &self.limits,
                budget,
                move_costs: self.migrator.costs.each(),
                move_latency: self.migrator.costs.latency(),
            },
            orders: Orders {
                ask: &mut self.questions.asked,
                page_out: &mut self.page_out,
                split: &mut self.split,
                counters: &mut self.migrator.counts.tiering,
            },
        };
        let limited = !self.limits.is_empty();
        if limited {
            self.enforcer.lower(&mut view, self.policy.as_ref(), &mut self.plan);
        }
        self.policy.plan(&mut view, &mut self.plan);
        if limited {
            self.enforcer.exchange(&mut view, self.policy.as_ref(), &mut self.plan);
        }
        let planned: u64 = self.plan.iter().map(|m| m.size.bytes().0).sum();
        self.backlog = planned > budget.0 / 4 * 3;
    }

    /// Tells the world of a wish that has changed.
    fn rewatch(&mut self, world: &mut dyn World) {
        let wants = self.policy.wants();
        if wants.watch != self.wants.watch
            && let Some(watch) = wants.watch
        {
            world.watch(watch);
        }
        self.wants = wants;
    }

    fn attend(&mut self, now: Nanos, slow_hits: Option<SlowHits>, world: &mut dyn World) {
        let (moves, pages) = (self.plan.len() as u64, self.pages.base_pages());
        let mut attention = self.calm.update(now, slow_hits, moves, pages);
        if attention == Attention::Alert && self.backlog {
            attention = Attention::Moving;
        }
        self.hotness.hurry(attention != Attention::Calm);
        if self.calm.changed() {
            self.hotness.change();
        }
        if attention != self.attention {
            self.attention = attention;
            self.events.push(Event::Attend { at: now, attention });
            world.attend(attention);
        }
        if attention == Attention::Calm && self.seen.samples.capacity() > KEPT {
            self.shrink();
        }
    }

    /// Frees the memory that a scan of everything needed: the next one is far off.
    fn shrink(&mut self) {
        self.seen = Observations::default();
        self.intake.shrink();
        self.plan = Plan::default();
    }

    /// The limits of tenants.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The limits of tenants; changes take effect in the next tick.
    pub fn limits_mut(&mut self) -> &mut Limits {
        &mut self.limits
    }

    /// Gives an address space to a tenant.
    pub fn own(&mut self, space: SpaceId, tenant: TenantId) {
        self.pages.apply(SpaceEvent::Owned(space, tenant));
    }

    /// The managed pages.
    pub fn pages(&self) -> &PageTable {
        &self.pages
    }

    /// How to read their heat.
    pub fn hotness(&self) -> &Hotness {
        &self.hotness
    }

    /// What became of moves.
    pub fn migrator(&self) -> &Migrator {
        &self.migrator
    }

    /// The machine.
    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        self.policy.as_ref()
    }

    /// How its policy wants to be served.
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// What was measured in the last tick.
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// How closely trackers look now.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// The hash of all events so far.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Samples taken in, a page each, and samples that trackers lost.
    pub fn samples(&self) -> (u64, u64) {
        (self.intake.samples, self.intake.lost)
    }
}
