// SPDX-License-Identifier: Apache-2.0
//! The pipeline. One `tick` is one round: observe, process, measure, decide, act, set attention.

mod tenants;

use crate::event::{Event, Fingerprint};
use crate::intake::{Intake, ManagedMemory};
use crate::migrator::{Migrator, OrderContext, Requests};
use crate::page::PageTable;
use crate::policy::interface::{Policy, Wants};
use crate::policy::plan::Plan;
use crate::policy::view::{Machine, Orders, View};
use crate::port::{Attention, Observations, Telemetry, World};
use crate::qos::Limits;
use crate::qos::allowance::Allowance;
use crate::qos::controller::Controller;
use crate::qos::enforcer::Enforcer;
use crate::qos::showback::Showback;
use crate::questions::Questions;
use crate::telemetry::attention::{AttentionControl, PlannedMoves};
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// The pipeline and its state.
pub struct Engine {
    tiers: Tiers,
    /// The limits of tenants; changes take effect in the next tick.
    pub limits: Limits,
    /// Sets the limits of tenants with SLOs; without such tenants it does nothing.
    pub qos: Controller,
    showback: Showback,
    policy: Box<dyn Policy>,
    wants: Wants,
    migrator: Migrator,
    memory: ManagedMemory,
    attention_control: AttentionControl,
    fingerprint: Fingerprint,
    telemetry: Telemetry,
    seen: Observations,
    intake: Intake,
    questions: Questions,
    plan: Plan,
    enforcer: Enforcer,
    requests: Requests,
    events: Vec<Event>,
}

impl Engine {
    /// An engine for a machine that moves at most `rate`.
    pub fn new(tiers: Tiers, limits: Limits, policy: Box<dyn Policy>, rate: BytesPerSec) -> Self {
        assert!(tiers.len() <= TierId::MAX, "{} tiers, of {} at most", tiers.len(), TierId::MAX);
        Self {
            tiers,
            limits,
            qos: Controller::default(),
            showback: Showback::default(),
            wants: policy.wants(),
            policy,
            migrator: Migrator::new(rate),
            memory: ManagedMemory::default(),
            attention_control: AttentionControl::default(),
            fingerprint: Fingerprint::default(),
            telemetry: Telemetry::default(),
            seen: Observations::default(),
            intake: Intake::default(),
            questions: Questions::default(),
            plan: Plan::default(),
            enforcer: Enforcer::default(),
            requests: Requests::default(),
            events: Vec::new(),
        }
    }

    /// Runs one round. Returns its events.
    pub fn tick(&mut self, now: Nanos, world: &mut dyn World) -> &[Event] {
        self.seen.clear();
        self.plan.reset();
        self.events.clear();
        world.observe(now, &mut self.seen);
        let behind = self.limits.behind();
        self.intake.process(now, &mut self.seen, self.wants, &self.tiers, &mut self.memory, behind);
        self.telemetry = world.measure(now);
        debug_assert_eq!(self.telemetry.tiers.len(), self.tiers.len(), "every tier is measured");
        let allowance = self.serve_tenants(now, world);
        self.questions.ask(now, &self.memory.pages, world);
        let budget = self.migrator.begin(now, &self.memory.pages, &mut self.intake.turned_away);
        self.decide(now, budget, &allowance);
        self.reconfigure(world);
        self.act(now, &allowance, world);
        self.set_attention(now, budget, world);
        self.events.iter().for_each(|event| self.fingerprint.add(event));
        &self.events
    }

    /// Lets the policy plan moves within the limits of tenants.
    fn decide(&mut self, now: Nanos, budget: Bytes, allowance: &Allowance) {
        let mut view = View {
            now,
            evidence: self.intake.evidence(&self.seen, &self.questions.answers),
            memory: self.memory.for_policy(),
            machine: Machine {
                tiers: &self.tiers,
                telemetry: &self.telemetry,
                limits: &self.limits,
                allowance,
                budget,
                costs: &self.migrator.costs,
            },
            orders: Orders {
                questions: &mut self.questions.asked,
                page_out: &mut self.requests.page_out,
                split: &mut self.requests.split,
                counters: &mut self.migrator.counts.tiering,
            },
        };
        self.enforcer.demote_excess(&mut view, self.policy.as_ref(), &mut self.plan);
        self.policy.plan(&mut view, &mut self.plan);
        self.enforcer.exchange(&mut view, self.policy.as_ref(), &mut self.plan);
    }

    /// Carries out the plan, then page-outs and splits, within the budget.
    fn act(&mut self, now: Nanos, allowance: &Allowance, world: &mut dyn World) {
        let Self { memory, migrator, events, policy, .. } = self;
        let mut context = OrderContext { now, memory, policy: &**policy, world, events };
        migrator.carry_out(&self.plan, &self.telemetry, allowance, &mut context);
        migrator.carry_out_requests(&mut self.requests, &mut context);
    }

    /// Reconfigures access tracking if the policy's request has changed.
    fn reconfigure(&mut self, world: &mut dyn World) {
        let wants = self.policy.wants();
        if let Some(tracking) = wants.tracking.filter(|_| wants.tracking != self.wants.tracking) {
            world.configure_tracking(tracking);
        }
        self.wants = wants;
    }

    /// Sets how closely trackers observe. In calm periods, frees the buffers of a full scan.
    fn set_attention(&mut self, now: Nanos, budget: Bytes, world: &mut dyn World) {
        let (moves, pages) = (self.plan.rearranged(&self.events), self.memory.pages.base_pages());
        let (backlog, behind) = (self.plan.nearly_fills(budget), !self.limits.behind().is_empty());
        let fits = self.memory.fits(&self.tiers, &self.telemetry);
        let planned = PlannedMoves { moves, of_pages: pages, backlog, behind, fits };
        let control = &mut self.attention_control;
        if let Some(attention) = control.next_attention(now, self.intake.slow_hits, planned) {
            self.events.push(Event::Attend { at: now, attention });
            world.set_attention(attention);
        }
        let calm = self.attention() == Attention::Calm;
        self.memory.hotness.set_urgent(!calm);
        self.memory.hotness.set_found_again(self.attention_control.found_again.usual());
        if self.attention_control.is_phase_change() {
            self.memory.hotness.discard_samples();
        }
        if calm && self.intake.shrink(&mut self.seen) {
            self.plan = Plan::default();
        }
    }

    /// The managed pages.
    pub fn pages(&self) -> &PageTable {
        &self.memory.pages
    }

    /// The migrator, with the results of moves.
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

    /// The telemetry of the last tick.
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// How closely trackers observe at present.
    pub fn attention(&self) -> Attention {
        self.attention_control.attention()
    }

    /// The hash of all events so far.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What was observed since the last tick, and totals.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }
}
