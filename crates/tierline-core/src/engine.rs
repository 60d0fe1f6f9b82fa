// SPDX-License-Identifier: Apache-2.0
//! The pipeline. One `tick` is one round: observe, process, measure, decide, act, set attention.

use crate::event::{Event, Fingerprint};
use crate::intake::{Intake, ManagedMemory};
use crate::migrator::{Migrator, OrderContext, Requests};
use crate::page::PageTable;
use crate::policy::interface::{Policy, Wants};
use crate::policy::plan::Plan;
use crate::policy::view::{Machine, Orders, View};
use crate::port::{
    Attention, Capability, Observations, SpaceEvent, SpaceId, Telemetry, TenantId, TenantTelemetry,
    World,
};
use crate::qos::Limits;
use crate::qos::controller::{Controller, PERIOD};
use crate::qos::enforcer::Enforcer;
use crate::qos::heat_curve::HeatCurve;
use crate::qos::heat_sample;
use crate::qos::showback::Showback;
use crate::questions::Questions;
use crate::telemetry::attention::{AttentionControl, PlannedMoves};
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// Capacity kept for samples between full scans: 160 KiB. Ours.
const SAMPLES_KEPT: usize = 4096;

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
        self.intake.process(now, &mut self.seen, self.wants, &self.tiers, &mut self.memory);
        self.telemetry = world.measure(now);
        debug_assert_eq!(self.telemetry.tiers.len(), self.tiers.len(), "every tier is measured");
        self.account(now);
        self.apply_qos(now, world);
        self.questions.ask(now, &self.memory.pages, world);
        let budget = self.migrator.budget(now);
        self.decide(now, budget);
        self.reconfigure(world);
        self.act(now, world);
        self.set_attention(now, budget, world);

        self.events.iter().for_each(|event| self.fingerprint.add(event));
        &self.events
    }

    /// Counts what tenants use.
    fn account(&mut self, now: Nanos) {
        let known = self.memory.pages.by_tenant();
        let cpu = |tenant| self.qos.cpu(tenant);
        self.showback.add(now, &self.telemetry, &self.tiers, &known, cpu);
    }

    /// Lets the QoS controller set the limits of tenants, and their CPU shares.
    fn apply_qos(&mut self, now: Nanos, world: &mut dyn World) {
        self.estimate_accesses(now);
        let orders = self.qos.tick(now, &self.telemetry, &self.tiers, &mut self.limits);
        let offered = world.capabilities().has(Capability::CpuShares);
        for order in orders.into_iter().filter(|_| offered) {
            world.limit_cpu(order.tenant, order.share);
        }
    }

    /// For applications whose bandwidth by tier the world does not measure: what the page table and the heat of pages
    /// show of their memory and accesses.
    fn estimate_accesses(&mut self, now: Nanos) {
        if !self.qos.is_due(now) {
            return;
        }
        for tenant in self.qos.tenants().collect::<Vec<_>>() {
            let at = self.telemetry.tenants.iter().position(|one| one.tenant == tenant);
            if at.is_some_and(|at| self.telemetry.tenants[at].bandwidth.len() == self.tiers.len()) {
                continue;
            }
            let (memory, count) = (self.memory.for_policy(), self.tiers.len());
            let turn = now.0 / PERIOD.0;
            let accesses = heat_sample::accesses(&memory, self.policy.as_ref(), tenant, turn);
            let used: Vec<_> =
                self.tiers.iter().map(|(id, _)| memory.pages.bytes_of(tenant, id)).collect();
            let at = at.unwrap_or_else(|| {
                let used = used.iter().copied().map(Some).collect();
                let known = TenantTelemetry { tenant, used, ..TenantTelemetry::default() };
                self.telemetry.tenants.push(known);
                self.telemetry.tenants.len() - 1
            });
            self.telemetry.tenants[at].accesses_per_sec = accesses[..count].to_vec();
        }
    }

    /// Lets the policy plan moves within the limits of tenants.
    fn decide(&mut self, now: Nanos, budget: Bytes) {
        let mut view = View {
            now,
            evidence: self.intake.evidence(&self.seen, &self.questions.answers),
            memory: self.memory.for_policy(),
            machine: Machine {
                tiers: &self.tiers,
                telemetry: &self.telemetry,
                limits: &self.limits,
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
    fn act(&mut self, now: Nanos, world: &mut dyn World) {
        let Self { memory, migrator, events, .. } = self;
        let mut context = OrderContext { now, pages: &mut memory.pages, world, events };
        migrator.carry_out(&self.plan, &self.telemetry, &self.limits, &mut context);
        migrator.carry_out_requests(&mut self.requests, &mut context);
    }

    /// Reconfigures access tracking if the policy's request has changed.
    fn reconfigure(&mut self, world: &mut dyn World) {
        let wants = self.policy.wants();
        if let Some(watch) = wants.tracking.filter(|_| wants.tracking != self.wants.tracking) {
            world.configure_tracking(watch);
        }
        self.wants = wants;
    }

    /// Sets how closely trackers observe. In calm periods, frees the buffers of a full scan.
    fn set_attention(&mut self, now: Nanos, budget: Bytes, world: &mut dyn World) {
        let bytes: Bytes = self.plan.iter().map(|m| m.size.bytes()).sum();
        let (moves, of_pages) = (self.plan.len() as u64, self.memory.pages.base_pages());
        let planned = PlannedMoves { moves, of_pages, backlog: bytes.0 > budget.0 / 4 * 3 };
        if let Some(attention) =
            self.attention_control.next_attention(now, self.intake.slow_hits, planned)
        {
            self.events.push(Event::Attend { at: now, attention });
            world.set_attention(attention);
        }
        let calm = self.attention_control.attention() == Attention::Calm;
        self.memory.hotness.set_urgent(!calm);
        if self.attention_control.is_phase_change() {
            self.memory.hotness.discard_samples();
        }
        if calm && self.seen.samples.capacity() > SAMPLES_KEPT {
            self.seen = Observations::default();
            self.intake.shrink();
            self.plan = Plan::default();
        }
    }

    /// Assigns an address space to a tenant.
    pub fn assign_tenant(&mut self, space: SpaceId, tenant: TenantId) {
        self.memory.pages.apply(SpaceEvent::Owned(space, tenant));
    }

    /// How a tenant's accesses are spread over its memory, by the heat of its pages.
    pub fn heat_curve(&mut self, tenant: TenantId) -> HeatCurve {
        heat_sample::curve(&self.memory.for_policy(), self.policy.as_ref(), tenant)
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

    /// What tenants have used.
    pub fn showback(&self) -> &Showback {
        &self.showback
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
