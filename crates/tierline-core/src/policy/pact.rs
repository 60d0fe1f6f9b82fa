// SPDX-License-Identifier: Apache-2.0
//! pact: promotes the pages that stall their program most.
//!
//! What it does: every 20 ms it computes how long the reads of each slow tier stalled the cores: misses times latency, by
//! the reads in flight together. The pages sampled in this time get this stall in equal parts. A page whose sum
//! falls into the highest of twenty bins is promoted; the bins' width follows the spread of a sample of sums, and doubles
//! while most sampled pages are in the highest. The kernel's reclaimer demotes inactive pages.
//!
//! When it helps: phases, or tiers, with different overlap: a page that is read by dependent loads is worth more than one
//! of a stream that is read as often.
//!
//! When it hurts: overlap is that of a tier, so programs that run at the same time are not told apart. Sums never fade, and
//! moves count as free. Pages in fast memory have no sum; only the reclaimer demotes them.
//!
//! Knobs: window (20 ms), period (400), most_overlap (16), top_bin (19), reservoir (100), first_width (1000 ns), batch (4096).
//!
//! Where it comes from: PACT (ASPLOS 2026) and its public code. Ours: reads in flight together are one plus the mean in
//! flight, as for a queue that is served at random (the code counts cycles with at least one); the latency of a tier is
//! the machine's, as the constants of the code are for its machines; a sum has twelve significant bits. Which pages the
//! doubling compares is inferred.

use super::goal::pack::Pack;
use super::interface::Wants;
use super::parts::on_fault::{Fault, OnFault, Rules, TierWatermarks};
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageTable;
use crate::policy::view::View;
use crate::port::{Allocation, Tracking};
use crate::rng::Rng;
use crate::telemetry::lru::{Lru, LruWord};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs.
    pub struct PactKnobs {
        /// Time in which stalls are measured and shared out.
        window: Nanos = Nanos::from_millis(20), Nanos::from_millis(1), Nanos::from_secs(1);
        /// Reads per sample.
        period: u32 = 400, 100, 100_000;
        /// Reads in flight together, at most.
        most_overlap: f64 = 16.0, 1.0, 64.0;
        /// The bin from which pages are promoted.
        top_bin: u32 = 19, 1, 100;
        /// Sums in the sample that sets the width of bins.
        reservoir: u32 = 100, 4, 10_000;
        /// The width of bins before there is a sample, ns.
        first_width: f64 = 1000.0, 1.0, 1e9;
        /// Pages promoted per window, at most.
        batch: u32 = 4096, 1, 1 << 20;
    }
}

/// Sampling costs at most a tenth of a core. Ours: the paper's period is for programs that miss less often.
const CPU_PERMILLE: u32 = 100;
/// Share of the sampled pages in the highest bin above which bins get wider.
const CROWDED: f64 = 0.7;
/// Bounds of the factor on the width of bins. Ours.
const WIDTHS: [f64; 2] = [1.0 / 64.0, 64.0];
/// A page's sum, above the bits of others in its word: the upper bits of a positive `f32`.
const SHIFT: u32 = 36;
const SUM_BITS: u32 = 20;
const DROPPED: u32 = 31 - SUM_BITS;
const _: () = assert!(SHIFT + SUM_BITS == crate::page::WORD_BITS);

/// The sum in a page's word.
fn sum_of(word: u64) -> f32 {
    f32::from_bits(((word >> SHIFT) as u32 & ((1 << SUM_BITS) - 1)) << DROPPED)
}

/// The word with another sum, rounded to nearest.
fn with_sum(word: u64, sum: f32) -> u64 {
    let rounded = sum.to_bits().saturating_add(1 << (DROPPED - 1)) >> DROPPED;
    word & ((1 << SHIFT) - 1) | u64::from(rounded & ((1 << SUM_BITS) - 1)) << SHIFT
}

/// The stall of a read, ns, where this many are in flight.
pub fn stall_ns(latency_ns: f64, in_flight: f64, most_overlap: f64) -> f64 {
    latency_ns / (1.0 + in_flight).min(most_overlap)
}

/// The rules.
#[derive(Debug)]
pub struct Pact {
    knobs: PactKnobs,
    /// The stall that a sample stands for, by tier, ns.
    per_sample: [f64; TierId::MAX],
    /// A uniform sample of sums, and how many it was drawn from.
    reservoir: Vec<f32>,
    drawn: u64,
    rng: Rng,
    /// Factor on the width of bins.
    widening: f64,
    width: f64,
    /// Slow pages sampled in this window, and of these in the highest bin.
    sampled: u32,
    in_top: u32,
    /// Promotions wanted in this window.
    wanted: u32,
}

/// The policy under a name.
pub fn pact(name: &'static str) -> OnFault<Pact> {
    OnFault::new(name, Pact::default(), Box::new(Pack))
}

impl Default for Pact {
    fn default() -> Self {
        let knobs = PactKnobs::default();
        Self {
            width: knobs.first_width,
            knobs,
            per_sample: [0.0; TierId::MAX],
            reservoir: Vec::new(),
            drawn: 0,
            rng: Rng::new(1),
            widening: 1.0,
            sampled: 0,
            in_top: 0,
            wanted: 0,
        }
    }
}

impl Pact {
    /// Ends a window: the width of bins.
    fn set_width(&mut self) {
        if self.sampled > 0 {
            let crowded = f64::from(self.in_top) > CROWDED * f64::from(self.sampled);
            let factor = if crowded { 2.0 } else { 0.5 };
            self.widening = (self.widening * factor).clamp(WIDTHS[0], WIDTHS[1]);
        }
        (self.sampled, self.in_top, self.wanted) = (0, 0, 0);
        if self.reservoir.len() < self.knobs.reservoir as usize {
            return;
        }
        let mut sums = self.reservoir.clone();
        sums.sort_unstable_by(f32::total_cmp);
        let quarter = sums.len() / 4;
        let spread = f64::from(sums[sums.len() - 1 - quarter] - sums[quarter]);
        let width = 2.0 * spread / cube_root(f64::from(self.knobs.reservoir));
        self.width = (width * self.widening).max(f64::MIN_POSITIVE);
    }

    /// Algorithm R.
    fn draw(&mut self, sum: f32) {
        self.drawn += 1;
        let size = self.knobs.reservoir as usize;
        if self.reservoir.len() < size {
            self.reservoir.push(sum);
        } else if let Ok(at) = usize::try_from(self.rng.below(self.drawn))
            && at < size
        {
            self.reservoir[at] = sum;
        }
    }
}

/// The cube root of a count, by Newton's method: the same on every machine.
fn cube_root(x: f64) -> f64 {
    (0..40).fold(x.max(1.0), |root, _| (2.0 * root + x / (root * root)) / 3.0)
}

impl Rules for Pact {
    #[expect(clippy::cast_precision_loss, reason = "samples of a window")]
    fn update(&mut self, view: &View<'_>) {
        self.set_width();
        for (t, (id, _)) in view.machine.tiers.iter().enumerate() {
            let in_tier = view.evidence.hits.iter().filter(|hit| hit.tier == Some(id));
            let samples = in_tier.count() as f64;
            let measured = view.machine.telemetry.tiers.get(t);
            let rate = measured.and_then(|tier| tier.reads_per_sec);
            let window = self.knobs.window.as_secs_f64();
            let misses = rate.map_or(samples, |rate| rate * window);
            let unloaded = view.machine.tiers.latency_gain(id, TierId::FAST).as_secs_f64() * 1e9;
            let latency = view.machine.tiers[id].latency;
            let latency_ns =
                latency.map_or(100.0 + unloaded, |latency| latency.as_secs_f64() * 1e9);
            let in_flight = measured.and_then(|tier| tier.occupancy).unwrap_or(0.0);
            let stall = misses * stall_ns(latency_ns, in_flight, self.knobs.most_overlap);
            self.per_sample[t] = if samples > 0.0 { stall / samples } else { 0.0 };
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a sum has twelve significant bits")]
    fn judge_fault(&mut self, fault: &Fault, _lru: &mut Lru, pages: &mut PageTable) -> bool {
        if fault.tier == TierId::FAST {
            return false;
        }
        let word = pages.heat::<LruWord>(fault.page).0;
        let more = self.per_sample[fault.tier.index()] as f32;
        let before = sum_of(word);
        let word = with_sum(word, before + more);
        pages.set_heat(fault.page, LruWord(word));
        let sum = sum_of(word);
        self.draw(sum);
        let top = f64::from(self.knobs.top_bin) * self.width;
        let is_top = f64::from(sum) >= top;
        // A page that was there before could not be promoted, and says nothing of the bins.
        if f64::from(before) < top {
            self.sampled += 1;
            self.in_top += u32::from(is_top);
        }
        self.wanted += u32::from(is_top);
        is_top && self.wanted <= self.knobs.batch
    }

    fn watermarks(&self, capacity: Bytes) -> TierWatermarks {
        TierWatermarks::of_tiering(capacity)
    }

    fn wants(&self, _fast_too: bool) -> Wants {
        Wants {
            quantum: Some(self.knobs.window),
            tracking: Some(Tracking::Samples {
                loads: self.knobs.period.into(),
                stores: None,
                cpu_permille: Some(CPU_PERMILLE),
            }),
            allocation: Some(Allocation::Kernel { coupled: true, by_type: false }),
            ..Wants::default()
        }
    }

    fn in_fault(&self) -> bool {
        false
    }

    fn knobs(&self) -> Vec<Knob> {
        PactKnobs::table()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        let known = self.knobs.set(knob, value);
        self.width = self.knobs.first_width;
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal misses with one and with ten reads in flight: the stall is ten to one.
    #[test]
    fn a_read_that_overlaps_stalls_less() {
        let of = |in_flight| stall_ns(200.0, in_flight, 16.0);
        assert!((of(0.0) / of(9.0) - 10.0).abs() < 1e-9);
        assert!((of(0.0) / of(1_000.0) - 16.0).abs() < 1e-9);
    }

    #[test]
    fn a_word_keeps_a_sum_and_the_bits_of_others() {
        let others = 0xf_1234_5678;
        for sum in [0.0f32, 1.0, 1234.5, 7.7e9] {
            let word = with_sum(others, sum);
            assert_eq!(word & ((1 << SHIFT) - 1), others);
            assert!((sum_of(word) - sum).abs() <= sum / 4096.0, "{sum}: {}", sum_of(word));
        }
        assert!(with_sum(u64::MAX >> 8, f32::MAX) < 1 << crate::page::WORD_BITS);
    }

    #[test]
    fn a_width_follows_the_spread_of_sums() {
        let mut rules = Pact::default();
        for sum in 0u8..100 {
            rules.draw(sum.into());
        }
        rules.set_width();
        // The quartiles are 25 and 74; the cube root of 100 is 4.64.
        assert!((rules.width - 2.0 * 49.0 / 4.641_588_8).abs() < 1e-6, "{}", rules.width);
        (rules.sampled, rules.in_top) = (10, 8);
        let before = rules.width;
        rules.set_width();
        assert!((rules.width / before - 2.0).abs() < 1e-9);
    }
}
