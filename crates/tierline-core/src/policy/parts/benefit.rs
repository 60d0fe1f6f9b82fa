// SPDX-License-Identifier: Apache-2.0
//! Whether a promotion pays: the stall it saves against the time of the moves and the stall of the demoted
//! pages.
//!
//! A page that was hot for some time is expected to stay hot for as long again, up to a bound. In that time it
//! saves its accesses times the latency gain. The cost is the measured time of the moves, plus the accesses to
//! the demoted pages, which become slower. Both rates are taken at confidence bounds of their sampling error,
//! so that exchanging pages that differ by noise only never pays.
//!
//! Source: ARMS (section 4.3: score, hot age, latencies of earlier migrations, the demoted page's accesses).
//! Our text of the paper lacks its algorithm 2: the formula, the bound and the overlap are ours. So are the
//! confidence bounds: the paper says that the analysis "provides immunity against sampling inaccuracies" and
//! not how.

use crate::knobs;
use crate::unit::Nanos;

knobs! {
    /// The knobs of the comparison.
    pub struct BenefitKnobs {
        /// Whether costs are compared; otherwise every promotion pays.
        cost_benefit: bool = true, false, true;
        /// Whether loaded latencies are used, where measured.
        loaded: bool = true, false, true;
        /// A page is expected to stay hot for this long, at most.
        stays_hot: Nanos = Nanos::from_secs(10), Nanos::from_millis(500), Nanos::from_secs(60);
        /// Standard deviations of the bounds: lower for the promoted page, upper for demoted ones.
        doubt: f64 = 2.0, 0.0, 4.0;
        /// Share of an access's latency that stalls the program: one over its accesses in flight.
        stall_share: f64 = 1.0, 0.05, 1.0;
    }
}

/// A promotion under evaluation.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeCost {
    knobs: BenefitKnobs,
    noise: f64,
    /// Stall that one access per second saves or costs over the expected time, in s.
    per_rate: f64,
    saved: f64,
    spent: f64,
}

impl ExchangeCost {
    /// A page that has been hot for `hot_for`, where an access in fast memory takes `gain` less. The variance
    /// of a score is its rate times `noise`.
    pub fn new(knobs: BenefitKnobs, noise: f64, rate: f32, hot_for: Nanos, gain: Nanos) -> Self {
        let seconds = hot_for.min(knobs.stays_hot).as_secs_f64();
        let per_rate = seconds * gain.as_secs_f64() * knobs.stall_share;
        let mut new = Self { knobs, noise, per_rate, saved: 0.0, spent: 0.0 };
        new.saved = new.bound(rate, -1.0) * per_rate;
        new
    }

    /// Adds the time of a move.
    pub fn add_move(&mut self, time: Nanos) {
        self.spent += time.as_secs_f64();
    }

    /// Adds a page that is demoted to make room.
    pub fn add_demotion(&mut self, rate: f32, time: Nanos) {
        self.add_move(time);
        self.spent += self.bound(rate, 1.0) * self.per_rate;
    }

    /// Whether more is saved than spent.
    pub fn pays(&self) -> bool {
        !self.knobs.cost_benefit || self.saved > self.spent
    }

    /// The rate whose score would be `doubt` deviations off: the score bound of a Poisson count.
    fn bound(&self, score: f32, side: f64) -> f64 {
        let (score, z) = (f64::from(score), self.knobs.doubt);
        let half = z * z * self.noise / 2.0;
        (score + half + side * z * (score * self.noise + half * half / (z * z).max(1e-9)).sqrt())
            .max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAIN: Nanos = Nanos(100);

    fn pays(rate: f32, victim: f32, move_us: u64) -> bool {
        let mut exchange =
            ExchangeCost::new(BenefitKnobs::default(), 0.0, rate, Nanos::from_secs(1), GAIN);
        exchange.add_move(Nanos(move_us * 1_000));
        exchange.add_demotion(victim, Nanos(move_us * 1_000));
        exchange.pays()
    }

    /// 2 MiB at 10 GB/s each way take 0.42 ms: at 100 ns an access, 4200 of them.
    #[test]
    fn the_break_even_of_a_huge_page() {
        assert!(!pays(4_190.0, 0.0, 210) && pays(4_210.0, 0.0, 210));
        assert!(!pays(14_190.0, 10_000.0, 210) && pays(14_210.0, 10_000.0, 210));
    }

    #[test]
    fn the_expected_hot_time_is_the_past_one_up_to_a_bound() {
        let saved = |s| {
            ExchangeCost::new(BenefitKnobs::default(), 0.0, 1.0, Nanos::from_secs(s), GAIN).saved
        };
        assert!((saved(2) / saved(1) - 2.0).abs() < 1e-9);
        assert_eq!(saved(10), saved(1_000));
    }
}
