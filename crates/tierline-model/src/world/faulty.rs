// SPDX-License-Identifier: Apache-2.0
//! The world with things going wrong, as on a real kernel: moves that fail, samples that are lost, counters
//! that stand still, a program that exits while its pages are being moved, a tier that others fill up.

use tierline_core::port::{
    Attention, Capabilities, Observations, Order, Outcome, Question, Telemetry, Watch, World,
};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use super::ModelWorld;

/// What goes wrong, and how often. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share of moves that fail with EBUSY.
    pub busy: f64,
    /// Share of moves that fail with ENOMEM.
    pub no_memory: f64,
    /// Share of samples that are lost; every other one is counted as lost.
    pub lost_samples: f64,
    /// Share of measurements that repeat the one before.
    pub stalled_counters: f64,
    /// The program whose page is the so-many-th to be moved exits just before that.
    pub exit_at_move: Option<u64>,
    /// From then on somebody else has taken all that was free in a tier.
    pub full: Option<(Nanos, TierId)>,
}

/// A world with faults.
pub struct Faulty {
    /// The world behind.
    pub world: ModelWorld,
    faults: Faults,
    rng: Rng,
    moves: u64,
    measured: Option<Telemetry>,
}

impl Faulty {
    /// A world in which these things go wrong, by a seed of their own.
    pub fn new(world: ModelWorld, faults: Faults, seed: u64) -> Self {
        Self { world, faults, rng: Rng::new(seed), moves: 0, measured: None }
    }

    fn strikes(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.unit() < share
    }

    /// The fault that strikes an order, if one does.
    fn fault(&mut self, order: &Order) -> Option<Outcome> {
        match order {
            Order::Move(m) => {
                self.moves += 1;
                if self.faults.exit_at_move == Some(self.moves) {
                    self.world.exit(m.space);
                }
                let busy = self.strikes(self.faults.busy).then_some(Outcome::Busy);
                let full = |world: &mut Self| world.strikes(world.faults.no_memory);
                busy.or_else(|| full(self).then_some(Outcome::NoRoom))
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
        let mut told = match &self.measured {
            Some(before) if stalled => before.clone(),
            _ => fresh.clone(),
        };
        // Counters stand still; how much memory is free is asked of the kernel.
        for (told, fresh) in told.tiers.iter_mut().zip(&fresh.tiers) {
            (told.free, told.managed) = (fresh.free, fresh.managed);
        }
        self.measured = Some(told.clone());
        told
    }

    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        orders.iter().map(|order| self.one(now, order, out)).sum()
    }

    fn accessed(&mut self, now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        self.world.accessed(now, questions, out);
    }

    fn watch(&mut self, watch: Watch) -> bool {
        self.world.watch(watch)
    }

    fn attend(&mut self, attention: Attention) {
        self.world.attend(attention);
    }
}
