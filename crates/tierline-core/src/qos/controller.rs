// SPDX-License-Identifier: Apache-2.0
//! The QoS controller (Mercury): limits per tenant and tier, and CPU shares, revised every 200 ms.
//!
//! ```text
//!   telemetry of tenants and tiers
//!       │
//!   1 close    each application's period: latency, bandwidth, use; a point of its need curve
//!   2 squeeze  bandwidth: in descending priority, who misses its SLO under a loaded tier holds back BI
//!       │      applications below it, the least important first
//!   3 revise   memory: what each application needs
//!   4 allocate needs by priority, then everything that is left
//!       │
//!   limits (enforced by ledger, enforcer and migrator), CPU shares (carried out by the world)
//! ```
//!
//! The order is Mercury's (4.3.2): CPU time first, then interference, then memory. It reads no page and moves
//! none: any policy that moves pages itself can run under it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Limits;
use super::allocation::{Claim, Grant, allocate, transfers};
use super::application::{Application, Refusal, Slo};
use super::decision::{Decision, DecisionLog, TimedDecision};
use super::measured::Measured;
use super::measurement::{Finding, Measurement};
use super::need::{ApplicationProfile, Need, unloaded_ns};
use super::showback::Cpu;
use super::squeeze::{Squeeze, Tightened};
use super::state::{ApplicationState, MISSED, MachineLoad, PATIENCE, PATIENCE_UNLENT};
use super::steady_clock::SteadyClock;
use super::thresholds::{DEGRADED, Thresholds};
use crate::port::{Telemetry, TenantId};
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Time between adaptations (Mercury, 4.3.2).
pub const PERIOD: Nanos = Nanos::from_millis(200);

/// Bytes of a demand read, where only their number is measured: a cache line.
const LINE_BYTES: f64 = 64.0;

/// The controller and its applications.
#[derive(Clone, Debug)]
pub struct Controller {
    /// The machine's thresholds.
    pub thresholds: Thresholds,
    /// Whether memory that is left is lent. Otherwise each application has just what it needs, and a BI
    /// application above its target is throttled (Mercury, 5.2).
    pub lend: bool,
    applications: BTreeMap<TenantId, ApplicationState>,
    /// Tenants that left, whose CPU share must be lifted.
    left: Vec<TenantId>,
    traffic: [f64; TierId::MAX],
    seconds: f64,
    clock: SteadyClock,
    next: Nanos,
    journal: DecisionLog,
    measurement: Option<Measurement>,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            lend: true,
            applications: BTreeMap::new(),
            left: Vec::new(),
            traffic: [0.0; TierId::MAX],
            seconds: 0.0,
            clock: SteadyClock::default(),
            next: Nanos::ZERO,
            journal: DecisionLog::default(),
            measurement: None,
        }
    }
}

/// A change of an application's CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuOrder {
    /// The application.
    pub tenant: TenantId,
    /// Share of its CPU time from now on; 1 lifts the limit.
    pub share: f64,
}

/// How an application stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApplicationReport {
    /// As submitted.
    #[serde(flatten)]
    pub application: Application,
    /// The last period.
    pub measured: Measured,
    /// The relative error of its SLO, above 0 if it is missed; `None`: no SLO, no demand, or not measured.
    pub error: Option<f64>,
    /// What it needs.
    pub need: Need,
    /// What it has.
    pub grant: Grant,
    /// How far it is held back.
    pub squeeze: Squeeze,
    /// Share of its CPU time.
    pub cpu_share: f64,
}

impl Controller {
    /// Whether there are no applications.
    pub fn is_empty(&self) -> bool {
        self.applications.is_empty()
    }

    /// Admits an application; one that is known gets its new SLO, priority and weight.
    ///
    /// # Errors
    /// If its priority is taken, or its SLO impossible on these tiers. Then nothing has changed.
    pub fn admit(
        &mut self,
        now: Nanos,
        application: Application,
        profile: &ApplicationProfile,
        tiers: &Tiers,
    ) -> Result<(), Refusal> {
        let now = self.clock.at(now);
        application.check(self.applications.values().map(|state| &state.application))?;
        let need = profile.need(application.slo, tiers)?;
        let tenant = application.tenant;
        let new = || ApplicationState::new(now, application, profile.curve.clone(), need);
        let state = self.applications.entry(tenant).or_insert_with(new);
        (state.application, state.need) = (application, need);
        state.is_unmeasured |= !state.knows_bandwidth();
        if !application.is_bandwidth() {
            state.squeeze = Squeeze::default(); // it may have had a bandwidth target before
        }
        self.left.retain(|left| *left != tenant);
        self.journal.record(now, Decision::Admitted { tenant });
        Ok(())
    }

    /// Removes an application: its limits are lifted, and its CPU share in the next tick. Those that were held
    /// back for it are released.
    pub fn remove(&mut self, now: Nanos, tenant: TenantId, limits: &mut Limits) {
        let now = self.clock.at(now);
        if let Some(state) = self.applications.remove(&tenant) {
            limits.remove_all(tenant);
            if state.cpu_share < 1.0 {
                self.left.push(tenant);
            }
            self.journal.record(now, Decision::Removed { tenant });
            // Nobody is held back for an application that is gone.
            let held =
                self.applications.values_mut().filter(|held| held.squeeze.by == Some(tenant));
            held.for_each(|held| held.squeeze = Squeeze::default());
        }
    }

    /// Measures what an application needs, from a time on.
    ///
    /// # Errors
    /// [`Refusal::NoTarget`], or [`Refusal::Measuring`] if another measurement has not ended.
    pub fn measure(&mut self, from: Nanos, tenant: TenantId) -> Result<(), Refusal> {
        let state = self.applications.get(&tenant);
        if state.is_none_or(|state| state.application.slo.is_none()) {
            return Err(Refusal::NoTarget);
        }
        if let Some(other) = self.measurement.as_ref().filter(|one| one.finding.is_none()) {
            return Err(Refusal::Measuring(other.tenant));
        }
        self.measurement = Some(Measurement::new(tenant, self.clock.at(from)));
        Ok(())
    }

    /// The last measurement of an application's need.
    pub fn measurement(&self) -> Option<&Measurement> {
        self.measurement.as_ref()
    }

    /// Takes in the telemetry of a tick. When a period has ended, revises the limits; returns the changes of CPU
    /// shares.
    pub fn tick(
        &mut self,
        now: Nanos,
        telemetry: &Telemetry,
        tiers: &Tiers,
        limits: &mut Limits,
    ) -> Vec<CpuOrder> {
        let (now, length) = self.clock.tick(now);
        let mut orders: Vec<CpuOrder> =
            self.left.drain(..).map(|tenant| CpuOrder { tenant, share: 1.0 }).collect();
        if self.is_empty() {
            return orders;
        }
        self.add_tick(length, telemetry);
        if now >= self.next {
            self.next = now + PERIOD;
            self.adapt(now, telemetry, tiers, limits);
            self.cpu_shares(now, &mut orders);
        }
        orders
    }

    /// Whether a period ends in a tick at `now`.
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.is_empty() && self.clock.at(now) >= self.next
    }

    /// The tenants of all applications.
    pub fn tenants(&self) -> impl Iterator<Item = TenantId> + '_ {
        self.applications.keys().copied()
    }

    /// How each application stands, in descending priority.
    pub fn reports(&self) -> Vec<ApplicationReport> {
        self.by_priority().into_iter().filter_map(|tenant| self.report(tenant)).collect()
    }

    /// How one application stands.
    pub fn report(&self, tenant: TenantId) -> Option<ApplicationReport> {
        let state = self.applications.get(&tenant)?;
        Some(ApplicationReport {
            application: state.application,
            measured: state.measured,
            error: state.error(),
            need: state.need,
            grant: state.grant,
            squeeze: state.squeeze,
            cpu_share: state.cpu_share,
        })
    }

    /// The CPU time that a tenant may use; unlimited if it is no application.
    pub fn cpu(&self, tenant: TenantId) -> Cpu {
        let state = self.applications.get(&tenant);
        let of = |state: &ApplicationState| Cpu {
            count: state.application.cores,
            share: state.cpu_share,
        };
        state.map_or(Cpu { count: 0.0, share: 1.0 }, of)
    }

    /// The last decisions, oldest first.
    pub fn decisions(&self) -> impl Iterator<Item = &TimedDecision> {
        self.journal.entries()
    }

    fn add_tick(&mut self, length: Nanos, telemetry: &Telemetry) {
        for tenant in &telemetry.tenants {
            if let Some(state) = self.applications.get_mut(&tenant.tenant) {
                state.window.add(length, tenant);
            }
        }
        let seconds = length.as_secs_f64();
        self.seconds += seconds;
        for (traffic, tier) in self.traffic.iter_mut().zip(&telemetry.tiers) {
            #[expect(clippy::cast_precision_loss, reason = "the bandwidth of one machine")]
            let measured = tier.bandwidth.map(|rate| rate.0 as f64);
            let reads = || tier.reads_per_sec.map(|reads| reads * LINE_BYTES);
            *traffic += measured.or_else(reads).unwrap_or(0.0) * seconds;
        }
    }

    fn adapt(&mut self, now: Nanos, telemetry: &Telemetry, tiers: &Tiers, limits: &mut Limits) {
        self.applications.values_mut().for_each(|one| one.close(now));
        let machine = self.machine(telemetry, tiers);
        self.applications.values_mut().for_each(|one| one.measured.predict(&machine.tier_ns));
        self.step_measurement(now);
        let loaded = self.is_loaded(&machine, tiers);
        let relieved = self.hold_back_or_release(now, &machine, loaded);
        let fast_is_loaded = self.fast_is_loaded(&machine, tiers);
        let mut ls_misses = false;
        for tenant in self.by_priority() {
            let Some(state) = self.applications.get_mut(&tenant) else { continue };
            let is_bandwidth = state.application.is_bandwidth();
            // No more fast bandwidth for a BI application while that hurts a more important LS (4.3.1).
            let guarded = is_bandwidth && fast_is_loaded && ls_misses;
            ls_misses |= !is_bandwidth && state.misses();
            let waits = relieved.contains(&tenant) || guarded;
            let patience = if self.lend { PATIENCE } else { PATIENCE_UNLENT };
            state.revise(now, &machine, !waits, patience);
        }
        self.set_limits(now, telemetry, limits);
    }

    /// Goes on with the measurement of a need, if there is one.
    fn step_measurement(&mut self, now: Nanos) {
        let Some(measurement) = &mut self.measurement else { return };
        let tenant = measurement.tenant;
        let Some(state) = self.applications.get_mut(&tenant) else {
            self.measurement = None;
            return;
        };
        if measurement.step(now, state) {
            state.trial = measurement.trial();
            if let Some(finding) = measurement.finding {
                self.journal.record(now, Decision::Measured { tenant, finding });
                if let Finding::Need(need) = finding {
                    state.learn_need(now, need);
                }
            }
        }
    }

    /// The machine in the last period.
    fn machine(&mut self, telemetry: &Telemetry, tiers: &Tiers) -> MachineLoad {
        let mut tier_ns = unloaded_ns(tiers);
        for (ns, tier) in tier_ns.iter_mut().zip(&telemetry.tiers) {
            *ns = tier.latency.map_or(*ns, |latency| latency.as_secs_f64() * 1e9);
        }
        let seconds = std::mem::take(&mut self.seconds).max(1e-9);
        let bytes_per_sec = std::mem::take(&mut self.traffic).map(|bytes| bytes / seconds);
        let capacity = tiers.iter().map(|(_, tier)| tier.capacity).collect();
        MachineLoad { capacity, tier_ns, bytes_per_sec }
    }

    /// Whether the traffic of a tier is so high that the fastest suffers.
    fn is_loaded(&self, machine: &MachineLoad, tiers: &Tiers) -> bool {
        self.fast_is_loaded(machine, tiers)
            || self.thresholds.slow_room(machine.slow_traffic()) < 0.0
    }

    /// Whether that is the traffic of the fastest tier itself. Without a threshold: if its latency is as much above its
    /// unloaded one (ours).
    fn fast_is_loaded(&self, machine: &MachineLoad, tiers: &Tiers) -> bool {
        let unloaded = unloaded_ns(tiers)[0];
        let slower = self.thresholds.fast.is_none()
            && unloaded > 0.0
            && machine.tier_ns[0] > unloaded * (1.0 + DEGRADED);
        slower || self.thresholds.fast_is_loaded(machine.bytes_per_sec[0])
    }

    /// Holds back BI applications for more important ones that miss their SLOs, or releases them. Returns the
    /// applications for which that was or may be enough, so that they need no more memory now.
    fn hold_back_or_release(
        &mut self,
        now: Nanos,
        machine: &MachineLoad,
        loaded: bool,
    ) -> Vec<TenantId> {
        let order = self.by_priority();
        let mut relieved = Vec::new();
        // A miss keeps those held back that are less important than who misses. It may miss as it is held back itself.
        let mut releasable = &order[..];
        for (at, &claimant) in order.iter().enumerate() {
            let state = &self.applications[&claimant];
            if state.trial.is_none()
                && (loaded || state.is_disturbed())
                && let Some(miss) = state.error().filter(|&error| error > MISSED)
            {
                releasable = &order[..=at];
                if self.hold_back(now, machine, claimant, miss, &order[at + 1..]) {
                    relieved.push(claimant);
                }
                break; // one step a period; the less important profit, too
            }
        }
        self.release(now, releasable);
        relieved
    }

    /// Holds back a BI application: first what is above its target, however important, as no target needs that; then
    /// the least important that can be. False if there is none.
    fn hold_back(
        &mut self,
        now: Nanos,
        machine: &MachineLoad,
        claimant: TenantId,
        miss: f64,
        below: &[TenantId],
    ) -> bool {
        let slow_room = match self.has_other_ls(below) {
            true => self.thresholds.slow_room(machine.slow_traffic()),
            false => f64::INFINITY,
        };
        let ascending = || below.iter().rev();
        let above_target = |tenant: &&TenantId| self.applications[*tenant].has_slack();
        let first: Vec<TenantId> = ascending().filter(above_target).copied().collect();
        for tenant in first.iter().chain(ascending()) {
            let state = self.applications.get_mut(tenant);
            let Some(state) = state.filter(|state| state.can_be_held_back()) else { continue };
            let before = state.squeeze;
            let (most, measured) = (state.spare(), &state.measured);
            match state.squeeze.tighten(now, claimant, miss, measured, slow_room, most) {
                Tightened::AtFloor => {}
                Tightened::Underway => return true,
                Tightened::Stepped => {
                    self.note_cap(now, *tenant, &before);
                    return true;
                }
            }
        }
        false
    }

    /// Whether an LS application runs that is not one of these. Without one, slow traffic hurts nobody.
    fn has_other_ls(&self, except: &[TenantId]) -> bool {
        let is_ls = |state: &ApplicationState| {
            let slo = state.application.slo;
            slo.is_some_and(|slo| !matches!(slo, Slo::Bandwidth(_)))
        };
        self.applications.iter().any(|(tenant, state)| is_ls(state) && !except.contains(tenant))
    }

    /// Releases the most important application that is held back and has work, while all above it have room to
    /// spare.
    fn release(&mut self, now: Nanos, order: &[TenantId]) {
        for &tenant in order {
            let Some(state) = self.applications.get_mut(&tenant) else { continue };
            if state.squeeze.is_active() && state.measured.demand {
                let before = state.squeeze;
                if state.squeeze.loosen(now, &state.measured) {
                    self.note_cap(now, tenant, &before);
                }
                return;
            }
            if !state.has_slack() {
                return;
            }
        }
    }

    fn note_cap(&mut self, now: Nanos, tenant: TenantId, before: &Squeeze) {
        let Squeeze { fast_cap: cap, by, .. } = self.applications[&tenant].squeeze;
        if cap != before.fast_cap {
            self.journal.record(now, Decision::FastCap { tenant, cap, by });
        }
    }

    /// Divides the memory and sets the limits, if they differ enough from the present ones.
    fn set_limits(&mut self, now: Nanos, telemetry: &Telemetry, limits: &mut Limits) {
        let slowest = telemetry.tiers.len().saturating_sub(1);
        let used = |tier: usize| -> Bytes {
            self.applications.values().map(|state| state.measured.used[tier]).sum()
        };
        let room: Vec<Bytes> =
            (0..slowest).map(|tier| used(tier) + telemetry.tiers[tier].free).collect();
        let claims: Vec<Claim<'_>> =
            self.applications.values().map(ApplicationState::claim).collect();
        let grants = allocate(&room, &claims, self.lend);
        for (tier, &room) in (0..).map(TierId).zip(&room) {
            let old: Vec<(TenantId, Bytes)> = grants
                .iter()
                .filter_map(|grant| Some((grant.tenant, limits.get(grant.tenant, tier)?)))
                .collect();
            let stays = |grant: &Grant| {
                let state = &self.applications[&grant.tenant];
                let may_stay = |old: &Bytes| tier != TierId::FAST || *old <= state.most_fast();
                let old = limits.get(grant.tenant, tier).filter(may_stay);
                let memory = state.measured.memory();
                old.is_some_and(|old| grant.is_served_by(old, tier, room, memory))
            };
            let fits = old.iter().map(|limit| limit.1).sum::<Bytes>() <= room;
            if fits && grants.iter().all(stays) {
                continue;
            }
            let new: Vec<_> = grants.iter().map(|g| (g.tenant, g.limit(tier))).collect();
            for transfer in transfers(&old, &new) {
                self.journal.record(now, Decision::Memory { tier, transfer });
            }
            new.into_iter().for_each(|(tenant, limit)| limits.set(tenant, tier, Some(limit)));
        }
        for grant in grants {
            if let Some(state) = self.applications.get_mut(&grant.tenant) {
                state.grant = grant;
            }
        }
        let behind = self.applications.values().filter(|state| state.lacks_fast_memory());
        limits.set_behind(behind.map(|state| state.application.tenant));
    }

    /// Sets the CPU shares that changed.
    fn cpu_shares(&mut self, now: Nanos, orders: &mut Vec<CpuOrder>) {
        for (&tenant, state) in &mut self.applications {
            let share = state.squeeze.cpu_share.min(state.own_cpu_share(self.lend));
            if share != state.cpu_share {
                debug_assert!(
                    share >= 1.0 || state.application.is_bandwidth(),
                    "only BI applications are throttled"
                );
                state.cpu_share = share;
                orders.push(CpuOrder { tenant, share });
                let by = state.squeeze.by.filter(|_| share < 1.0);
                self.journal.record(now, Decision::Cpu { tenant, share, by });
            }
        }
    }

    fn by_priority(&self) -> Vec<TenantId> {
        let mut order: Vec<(u32, TenantId)> = self
            .applications
            .values()
            .map(|state| (state.application.priority, state.application.tenant))
            .collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        order.into_iter().map(|(_, tenant)| tenant).collect()
    }
}
