// SPDX-License-Identifier: Apache-2.0
//! neomem: promotes the pages with the highest counts in the memory device itself.
//!
//! What it does: the device (`neoprof`) counts all accesses to its pages, and reports a page once it was
//! accessed more often than a threshold since the counters were cleared. Reported pages are read every 10 ms
//! and promoted at once. The threshold is set once a second so that a part p of all counters is above it; p
//! grows with the use of the device's bandwidth, shrinks with the share of promoted pages that had been demoted
//! before, and is halved if the moves exceeded the quota or the threshold is within the error of the counts.
//! The kernel's reclaimer demotes inactive pages. Without such a device, the samples of any other tracker are
//! counted instead (the paper's PEBS and PTE-scan systems).
//!
//! When it helps: changing hot sets of base pages: every access counts, at almost no cost.
//!
//! When it hurts: the hottest part p is promoted even if it is hardly hotter than the rest, and the quota only
//! slows that down; a page without room is reported again only after the next clearing.
//!
//! Knobs: migration_interval (10 ms), thr_update_interval (1 s), clear_interval (5 s), m_quota (256 MB/s), p_init, p_min
//! and p_max (0.1, 0.01 and 1.56 %), alpha (1), beta (2), threshold (0: by the rule above), artifact (0).
//!
//! Where it comes from: NeoMem (MICRO 2024), algorithm 1 and table V; demotion as in Linux 6.3. `artifact`
//! follows its published programs instead: the threshold is the number of a histogram bin instead of its count,
//! setting it clears the counters, so once a second, the quota is 8 GiB/s, and the error of the counts is
//! ignored. A threshold is at least 1, as in both; it starts at 1 (ours).

use super::goal::pack::Pack;
use super::interface::Wants;
use super::parts::on_fault::{Fault, OnFault, Rules, TierWatermarks};
use super::parts::quantum::Quantum;
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageTable;
use crate::policy::view::View;
use crate::port::{Allocation, DeviceCounts, Tracking};
use crate::telemetry::lru::{Lru, LruWord};
use crate::telemetry::tally::Tally;
use crate::tier::TierId;
use crate::unit::{Bytes, BytesPerSec, Nanos, in_time};

knobs! {
    /// The knobs.
    pub struct NeomemKnobs {
        /// Time between two readings of hot pages.
        migration_interval: Nanos = Nanos::from_millis(10), Nanos::from_millis(1), Nanos::from_secs(5);
        /// Time between two updates of the threshold.
        thr_update_interval: Nanos = Nanos::from_secs(1), Nanos::from_millis(100), Nanos::from_secs(10);
        /// Time between two clearings of the counters.
        clear_interval: Nanos = Nanos::from_secs(5), Nanos::from_millis(100), Nanos::from_secs(60);
        /// Rate of promotions above which p is halved.
        m_quota: BytesPerSec = BytesPerSec(256_000_000), BytesPerSec(1 << 20), BytesPerSec(1 << 34);
        /// Initial part p of all counters above the threshold.
        p_init: f64 = 0.001, 0.0001, 0.0156;
        /// p, at least.
        p_min: f64 = 0.0001, 0.00001, 0.01;
        /// p, at most.
        p_max: f64 = 0.0156, 0.001, 0.5;
        /// Exponent of 1 + bandwidth utilisation in the update of p.
        alpha: u32 = 1, 0, 4;
        /// Exponent of 1 + ping-pong ratio in the update of p.
        beta: u32 = 2, 0, 4;
        /// A fixed threshold; 0: by algorithm 1.
        threshold: u32 = 0, 0, 65_535;
        /// Follow the published programs.
        artifact: bool = false, false, true;
    }
}

/// Longest interval of the reclaimer, however rarely hot pages are read (ours).
const RECLAIM: Nanos = Nanos::from_millis(10);

/// The quota of the published programs: 8192 · 256 pages a second.
const ARTIFACT_QUOTA: BytesPerSec = BytesPerSec(8 << 30);

/// The rules.
#[derive(Debug)]
pub struct Neomem {
    knobs: NeomemKnobs,
    tally: Tally,
    /// Part of all counters above the threshold; `None`: not set yet.
    p: Option<f64>,
    theta: u32,
    /// When the device last reported its counters.
    counted_at: Option<Nanos>,
    updated: Nanos,
    updates: Quantum,
    clears: Quantum,
    /// Base pages promoted, and promotion candidates that had been demoted, until the last update.
    promoted: u64,
    returned: u64,
}

/// The policy under a name.
pub fn neomem(name: &'static str) -> OnFault<Neomem> {
    let rules = Neomem {
        knobs: NeomemKnobs::default(),
        tally: Tally::default(),
        p: None,
        theta: 1,
        counted_at: None,
        updated: Nanos::ZERO,
        updates: Quantum::default(),
        clears: Quantum::default(),
        promoted: 0,
        returned: 0,
    };
    OnFault::new(name, rules, Box::new(Pack))
}

impl Neomem {
    fn clear_interval(&self) -> Nanos {
        match self.knobs.artifact {
            true => self.knobs.thr_update_interval,
            false => self.knobs.clear_interval,
        }
    }

    fn quota(&self) -> BytesPerSec {
        if self.knobs.artifact { ARTIFACT_QUOTA } else { self.knobs.m_quota }
    }

    fn threshold(&self) -> u32 {
        if self.knobs.threshold > 0 { self.knobs.threshold } else { self.theta }
    }

    /// One round of algorithm 1.
    #[expect(clippy::cast_precision_loss, reason = "pages of a second")]
    fn update(&mut self, view: &View<'_>, counted: &DeviceCounts) {
        let counters = &*view.orders.counters;
        let promoted = counters.promote_anon + counters.promote_file;
        let moved = promoted - std::mem::replace(&mut self.promoted, promoted);
        let returned = counters.promote_candidate_demoted
            - std::mem::replace(&mut self.returned, counters.promote_candidate_demoted);
        let passed = view.now.saturating_sub(std::mem::replace(&mut self.updated, view.now));
        let ping_pong = returned as f64 / moved.max(1) as f64;
        let over = moved > 0 && Bytes::from_base_pages(moved) >= in_time(self.quota(), passed);
        self.p = Some(self.knobs.part(self.p, over, counted.utilisation, ping_pong));
        if !self.knobs.artifact && quantile(counted, self.part()).0 < counted.error_bound {
            self.p = Some(self.knobs.halved(self.part()));
        }
        let (count, bin) = quantile(counted, self.part());
        self.theta = if self.knobs.artifact { bin } else { count }.max(1);
    }

    fn part(&self) -> f64 {
        self.p.unwrap_or(self.knobs.p_init)
    }
}

impl NeomemKnobs {
    /// The next p: algorithm 1, lines 11 to 15.
    fn part(&self, p: Option<f64>, over_quota: bool, used: f64, ping_pong: f64) -> f64 {
        let p = p.unwrap_or(self.p_init);
        if over_quota {
            return self.halved(p);
        }
        let power = |base: f64, times: u32| (0..times).fold(1.0, |product, _| product * base);
        let p = p * power(1.0 + used, self.alpha) / power(1.0 + ping_pong, self.beta);
        p.min(self.p_max).max(self.p_min)
    }

    fn halved(&self, p: f64) -> f64 {
        (p / 2.0).max(self.p_min)
    }
}

/// Q(1 − p): the least count, and the number, of the bin above which p of all counters lie.
fn quantile(counted: &DeviceCounts, p: f64) -> (u32, u32) {
    let all: f64 = counted.histogram.iter().map(|&(_, counters)| f64::from(counters)).sum();
    let mut above = 0.0;
    for (bin, &(count, counters)) in counted.histogram.iter().enumerate().rev() {
        above += f64::from(counters);
        if above > 0.0 && above >= p * all {
            return (count, u32::try_from(bin).unwrap_or(u32::MAX));
        }
    }
    (0, 0)
}

/// Used share of the bandwidth of all tiers below the fastest, where both are known.
#[expect(clippy::cast_precision_loss, reason = "bytes a second")]
fn utilisation(view: &View<'_>) -> f64 {
    let tiers = view.machine.tiers.iter().zip(&view.machine.telemetry.tiers).skip(1);
    let known = tiers.filter_map(|((_, tier), now)| Some((now.bandwidth?.0, tier.bandwidth?.0)));
    let (used, all) = known.fold((0, 0), |sum, (used, all)| (sum.0 + used, sum.1 + all));
    (used as f64 / all.max(1) as f64).min(1.0)
}

impl Rules for Neomem {
    fn update(&mut self, view: &View<'_>) {
        let silence = self.knobs.thr_update_interval * 2;
        if let Some(counted) = &view.machine.telemetry.counted {
            self.counted_at = Some(view.now);
            self.update(view, counted);
        } else if self.counted_at.is_none_or(|at| view.now >= at + silence)
            && self.updates.due(view.now, self.knobs.thr_update_interval).is_some()
        {
            let below = (1..=view.machine.tiers.slowest().0)
                .map(|tier| view.memory.pages.bytes_in(TierId(tier)));
            let pages = below.sum::<Bytes>().base_pages();
            self.update(view, &self.tally.device_counts(pages, utilisation(view)));
        }
        if self.clears.due(view.now, self.clear_interval()).is_some() {
            self.tally.clear();
        }
    }

    fn judge_fault(&mut self, fault: &Fault, _lru: &mut Lru, pages: &mut PageTable) -> bool {
        if fault.tier == TierId::FAST {
            return false;
        }
        let (count, word) = self.tally.add(pages.heat::<LruWord>(fault.page).0, fault.hits);
        pages.set_heat(fault.page, LruWord(word));
        count > self.threshold()
    }

    fn watermarks(&self, capacity: Bytes) -> TierWatermarks {
        TierWatermarks::of_tiering(capacity)
    }

    fn wants(&self, _fast_too: bool) -> Wants {
        Wants {
            quantum: Some(self.knobs.migration_interval.min(RECLAIM)),
            tracking: Some(Tracking::Counters {
                threshold: self.threshold(),
                read: self.knobs.migration_interval,
                update: self.knobs.thr_update_interval,
                clear: self.clear_interval(),
            }),
            allocation: Some(Allocation::Kernel { coupled: true, by_type: false }),
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        NeomemKnobs::table()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand from algorithm 1 and table V.
    #[test]
    fn p_is_that_of_algorithm_1() {
        let knobs = NeomemKnobs::default();
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        near(knobs.part(None, false, 0.0, 0.0), 0.001);
        near(knobs.part(Some(0.004), false, 0.5, 0.0), 0.006);
        near(knobs.part(Some(0.004), false, 0.5, 1.0), 0.0015);
        near(knobs.part(Some(0.015), false, 1.0, 0.0), 0.0156);
        near(knobs.part(Some(0.0002), false, 0.0, 9.0), 0.0001);
        near(knobs.part(Some(0.004), true, 1.0, 0.0), 0.002);
        near(knobs.part(Some(0.0001), true, 1.0, 0.0), 0.0001);
    }

    #[test]
    fn the_threshold_is_a_quantile_of_the_counters() {
        let histogram = vec![(0, 900), (1, 80), (8, 15), (10, 5)];
        let counted = DeviceCounts { histogram, ..DeviceCounts::default() };
        assert_eq!(quantile(&counted, 0.005), (10, 3));
        assert_eq!(quantile(&counted, 0.01), (8, 2));
        assert_eq!(quantile(&counted, 0.05), (1, 1));
        assert_eq!(quantile(&counted, 0.5), (0, 0));
        assert_eq!(quantile(&DeviceCounts::default(), 0.5), (0, 0));
    }
}
