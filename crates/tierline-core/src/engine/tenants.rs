// SPDX-License-Identifier: Apache-2.0
//! What the engine does for tenants: it counts what they use, and lets the QoS controller set their limits.

use super::Engine;
use crate::intake::Intake;
use crate::page::UseByTenant;
use crate::port::{Capability, SpaceEvent, SpaceId, TenantId, TenantTelemetry, World};
use crate::qos::allowance::Allowance;
use crate::qos::controller::PERIOD;
use crate::qos::heat_curve::HeatCurve;
use crate::qos::heat_sample;
use crate::qos::showback::Showback;
use crate::unit::Nanos;

impl Engine {
    /// Counts what tenants use, and lets the QoS controller set their limits and CPU shares. Returns what is left of the limits.
    pub(super) fn serve_tenants(&mut self, now: Nanos, world: &mut dyn World) -> Allowance {
        let known = self.memory.pages.by_tenant();
        let cpu = |tenant| self.qos.cpu(tenant);
        self.showback.add(now, &self.telemetry, &self.tiers, &known, cpu);
        self.apply_qos(now, &known, world);
        Allowance::new(&self.limits, &known, &self.telemetry)
    }

    fn apply_qos(&mut self, now: Nanos, known: &UseByTenant, world: &mut dyn World) {
        // What DAMON reports of regions counts no pages.
        let is_scan = self.seen.window.is_some() && self.seen.observed_regions.is_empty();
        if is_scan && !self.qos.is_empty() {
            let Intake { scan_shares, hits_of, .. } = &mut self.intake;
            scan_shares.add(hits_of, &self.memory.pages);
        }
        self.estimate_accesses(now, known);
        let orders = self.qos.tick(now, &self.telemetry, &self.tiers, &mut self.limits);
        let offered = world.capabilities().has(Capability::CpuShares);
        for order in orders.into_iter().filter(|_| offered) {
            world.limit_cpu(order.tenant, order.share);
        }
    }

    /// For applications whose bandwidth by tier the world does not measure: what the page table shows of their memory,
    /// and scans, or else the heat of pages, of their accesses.
    fn estimate_accesses(&mut self, now: Nanos, known: &UseByTenant) {
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
            let from_heat = || heat_sample::accesses(&memory, self.policy.as_ref(), tenant, turn);
            let accesses = self.intake.scan_shares.of(tenant).unwrap_or_else(from_heat);
            let at = at.unwrap_or_else(|| {
                let used = known.get(&tenant).copied().unwrap_or_default();
                let used = used[..count].iter().copied().map(Some).collect();
                let known = TenantTelemetry { tenant, used, ..TenantTelemetry::default() };
                self.telemetry.tenants.push(known);
                self.telemetry.tenants.len() - 1
            });
            self.telemetry.tenants[at].accesses_per_sec = accesses[..count].to_vec();
        }
    }

    /// Assigns an address space to a tenant.
    pub fn assign_tenant(&mut self, space: SpaceId, tenant: TenantId) {
        self.memory.pages.apply(SpaceEvent::Owned(space, tenant));
    }

    /// Forgets a tenant that was removed: its limits, and what it has used. Another one may get its id.
    pub fn forget_tenant(&mut self, now: Nanos, tenant: TenantId) {
        self.qos.remove(now, tenant, &mut self.limits);
        self.limits.remove_all(tenant);
        self.showback.forget(tenant);
        self.intake.scan_shares.forget(tenant);
    }

    /// How a tenant's accesses are spread over its memory, by the heat of its pages.
    pub fn heat_curve(&mut self, tenant: TenantId) -> HeatCurve {
        heat_sample::curve(&self.memory.for_policy(), self.policy.as_ref(), tenant)
    }

    /// What tenants have used.
    pub fn showback(&self) -> &Showback {
        &self.showback
    }
}
