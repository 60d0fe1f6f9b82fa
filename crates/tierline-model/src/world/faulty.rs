// SPDX-License-Identifier: Apache-2.0
//! A world with failures like those of a real kernel: failing moves, lost samples, stalled counters, a program
//! that exits while its pages are moved, a tier filled by other programs.

use tierline_core::port::{
    Attention, Capabilities, Observations, Order, Outcome, Question, Telemetry, TenantId, Tracking,
    World,
};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use super::ModelWorld;

/// Kinds of failures, and their frequency. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share of moves that fail with EBUSY.
    pub busy: f64,
    /// Share of moves that fail with ENOMEM.
    pub no_memory: f64,
    /// Share of pages that are written to while they are copied.
    pub dirtied: f64,
    /// Share of moves of pages that another process shares just then.
    pub shared: f64,
    /// Share of samples that are lost; every other loss is reported.
    pub lost_samples: f64,
    /// Share of measurements that repeat the previous one.
    pub stalled_counters: f64,
    /// At the move with this number, the program that owns the page exits first.
    pub exit_at_move: Option<u64>,
    /// From this time on, another program occupies all free memory of a tier.
    pub full: Option<(Nanos, TierId)>,
}

/// A world with failures.
pub struct Faulty {
    /// The underlying world.
    pub world: ModelWorld,
    /// The failures, which may be changed.
    pub faults: Faults,
    rng: Rng,
    moves: u64,
    measured: Option<Telemetry>,
}

impl Faulty {
    /// A world with these failures, and a separate seed for them.
    pub fn new(world: ModelWorld, faults: Faults, seed: u64) -> Self {
        Self { world, faults, rng: Rng::new(seed), moves: 0, measured: None }
    }

    /// Moves that were tried.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    fn strikes(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.unit() < share
    }

    /// The failure of an order, if any.
    fn fault(&mut self, order: &Order) -> Option<Outcome> {
        match order {
            Order::Move(m) | Order::MoveShared(m) => {
                self.moves += 1;
                if self.faults.exit_at_move == Some(self.moves) {
                    self.world.exit(m.space);
                }
                let Faults { busy, no_memory, dirtied, shared, .. } = self.faults;
                // Who shares it is not managed, so it does not move for all, either.
                let for_all = matches!(order, Order::MoveShared(_));
                let shared = if for_all && shared > 0.0 { 1.0 } else { shared };
                let failures = [
                    (busy, Outcome::Busy),
                    (no_memory, Outcome::NoRoom),
                    (dirtied, Outcome::Dirtied),
                    (shared, Outcome::Shared),
                ];
                failures
                    .into_iter()
                    .find_map(|(share, outcome)| self.strikes(share).then_some(outcome))
            }
            Order::Split(_) => self.strikes(self.faults.busy).then_some(Outcome::Busy),
            Order::PageOut(_) => None,
        }
    }

    fn one(&mut self, now: Nanos, order: &Order, out: &mut Vec<Outcome>) -> Nanos {
        if let Some(fault) = self.fault(order) {
            out.push(fault);
            return Nanos::ZERO;
        }
        self.world.act(now, std::slice::from_ref(order), out)
    }
}

impl World for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.world.capabilities()
    }

    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        if let Some((_, tier)) = self.faults.full.take_if(|(at, _)| *at <= now) {
            self.world.fill(tier);
        }
        self.world.observe(now, out);
        let before = out.samples.len();
        let (rng, share) = (&mut self.rng, self.faults.lost_samples);
        out.samples.retain(|_| share <= 0.0 || rng.unit() >= share);
        out.lost += (before - out.samples.len()) as u64 / 2;
    }

    fn measure(&mut self, now: Nanos) -> Telemetry {
        let fresh = self.world.measure(now);
        let stalled = self.strikes(self.faults.stalled_counters);
        let mut repeated = match &self.measured {
            Some(before) if stalled => before.clone(),
            _ => fresh.clone(),
        };
        // Counters stall; free memory is read from the kernel and does not.
        for (tier, fresh) in repeated.tiers.iter_mut().zip(&fresh.tiers) {
            tier.free = fresh.free;
        }
        repeated.tenants.clone_from(&fresh.tenants);
        self.measured = Some(repeated.clone());
        repeated
    }

    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        orders.iter().map(|order| self.one(now, order, out)).sum()
    }

    fn limit_cpu(&mut self, tenant: TenantId, share: f64) {
        self.world.limit_cpu(tenant, share);
    }

    fn check_accessed(&mut self, now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        self.world.check_accessed(now, questions, out);
    }

    fn configure_tracking(&mut self, watch: Tracking) -> bool {
        self.world.configure_tracking(watch)
    }

    fn set_attention(&mut self, attention: Attention) {
        self.world.set_attention(attention);
    }
}
