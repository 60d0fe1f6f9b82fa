// SPDX-License-Identifier: Apache-2.0
//! hybridtier: counts accesses in two small filters, one for long-term frequency, one for momentum; either promotes.
//!
//! What it does: sampled accesses are counted per batch and added to two counting Bloom filters (`sketch`). Frequency is
//! halved after 160 samples for each page of fast memory, momentum, a hundredth of the size, after 1.1 million. At
//! the end of a batch a sampled page of slow memory is promoted if its frequency is at least T (5 at first) or its
//! momentum at least 3. While fast memory lacks room, pages there are visited by address: without momentum they are demoted, at
//! once below T, otherwise after a minute in which their frequency did not change. When hardly anything is promoted any
//! more, T falls to 3, then sampling stops, until the share of accesses to fast memory falls.
//!
//! When it helps: little metadata: its size follows fast memory, however large slow memory is. New hot pages are
//! promoted by momentum before their frequency shows.
//!
//! When it hurts: thresholds are absolute, and a scan raises momentum. While sampling is off, a change is noticed
//! after minutes. It packs whatever the load.
//!
//! Knobs: batch (100 000 samples), hot (5), momentum (3), period (199 loads), cpu_permille (300), demotion_rate (100 MiB/s).
//!
//! Where it comes from: HybridTier (ASPLOS 2025) and its artifact. It samples with 100 kHz on each processor; here samples
//! may cost 0.3 of a core. Ours: a batch ends after a second at the latest; nothing is demoted before the first
//! sample; the share of hot pages at a plateau is that of the pages visited last.

use std::collections::{BTreeMap, VecDeque};

use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::ledger::{Ledger, Shortage, capacity};
use super::parts::quantum::Quantum;
use crate::knob::Knob;
use crate::knobs;
use crate::page::{PageIdx, PageTable};
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Allocation, PageSize, Reason, Tracking};
use crate::telemetry::sketch::{MOST, Sketch};
use crate::tier::TierId;
use crate::unit::{Bytes, BytesPerSec, Nanos};

knobs! {
    /// The knobs.
    pub struct HybridtierKnobs {
        /// Samples that are counted together.
        batch: u32 = 100_000, 100, 10_000_000;
        /// Frequency from which a page is hot, at first.
        hot: u32 = 5, 1, 15;
        /// Momentum from which a page is promoted.
        momentum: u32 = 3, 1, 15;
        /// Loads per sample, at least.
        period: u32 = 199, 50, 100_000;
        /// Share of a core that samples may cost, in thousandths.
        cpu_permille: u32 = 300, 1, 4000;
        /// Demotions above this rate are spread: a round a second.
        demotion_rate: BytesPerSec = BytesPerSec(100 << 20), BytesPerSec(1 << 20), BytesPerSec(1 << 40);
    }
}

/// Samples until frequencies are halved, for each page of fast memory; and until momentum is.
const FADES_AFTER: u64 = 160;
const MOMENTUM_FADES_AFTER: u64 = 1_100_000;
/// Pages that frequency is made for, for each that momentum is made for.
const MOMENTUM_PART: u64 = 100;
/// The longest time until a batch ends.
const LONGEST_BATCH: Nanos = Nanos::from_secs(1);
/// Demotion begins below this free share of fast memory, and ends at the other.
const ROOM: [f64; 2] = [0.0125, 0.05];
/// Pages visited per tick, at most.
const VISITS: usize = 1 << 12;
/// Pages with a second chance, at most, and its length.
const CHANCES: usize = 10_000;
const CHANCE: Nanos = Nanos::from_secs(60);
/// Demotion is no longer spread below this part of the rate.
const CALM_PART: u64 = 10;
/// A plateau is judged every so many batches, after the first ones, by the promotions in them.
const PLATEAU_BATCHES: u64 = 20;
const FIRST_BATCHES: u64 = 500;
const PLATEAU_PROMOTIONS: u64 = 25_000;
/// The least T, and the share of hot pages in fast memory below which T falls.
const LEAST_HOT: u8 = 3;
const FILLED: f64 = 0.8;
/// Time before the hit ratio is read, between two readings, and the readings whose slope is judged.
const SETTLES: Nanos = Nanos::from_secs(120);
const READING: Nanos = Nanos::from_secs(60);
const READINGS: usize = 5;
const FALLS: f64 = -0.01;
/// Loads per sample while sampling is off: a thousandth of the samples.
const OFF: u64 = 1000;

/// A hot page without momentum, its frequency, and when it was visited.
#[derive(Clone, Copy, Debug)]
struct Chance {
    page: PageIdx,
    frequency: u8,
    since: Nanos,
}

/// Demotion.
#[derive(Debug, Default)]
struct Demotion {
    active: bool,
    cursor: usize,
    chances: VecDeque<Chance>,
    /// Bytes demoted in this second, and whether they were too many in the last.
    bytes: Bytes,
    second: Quantum,
    spread: bool,
    resumes: Nanos,
    /// Pages visited, and of these hot, since the last plateau.
    visited: u64,
    hot: u64,
}

/// Sampling is off.
#[derive(Debug)]
struct Monitor {
    since: Nanos,
    reading: Quantum,
    /// The latest shares of accesses to fast memory.
    ratios: Vec<f64>,
}

/// The policy.
#[derive(Debug)]
pub struct Hybridtier {
    knobs: HybridtierKnobs,
    frequency: Sketch,
    momentum: Sketch,
    /// Pages of fast memory.
    fast_pages: u64,
    /// T.
    hot: u8,
    batch: BTreeMap<PageIdx, u32>,
    in_batch: u64,
    batch_began: Nanos,
    samples: u64,
    halved_at: u64,
    momentum_halved_at: u64,
    batches: u64,
    promoted: u64,
    demotion: Demotion,
    monitor: Option<Monitor>,
}

impl Default for Hybridtier {
    fn default() -> Self {
        let knobs = HybridtierKnobs::default();
        Self {
            hot: small(knobs.hot),
            knobs,
            frequency: Sketch::default(),
            momentum: Sketch::default(),
            fast_pages: 0,
            batch: BTreeMap::new(),
            in_batch: 0,
            batch_began: Nanos::ZERO,
            samples: 0,
            halved_at: 0,
            momentum_halved_at: 0,
            batches: 0,
            promoted: 0,
            demotion: Demotion::default(),
            monitor: None,
        }
    }
}

/// A count of the filters.
fn small(count: u32) -> u8 {
    u8::try_from(count).unwrap_or(MOST).min(MOST)
}

/// A page's key in the filters: its address.
fn key(pages: &PageTable, page: PageIdx) -> Option<u64> {
    pages.locate(page).map(|at| u64::from(at.space.0) << 40 ^ at.vpn.0)
}

impl Hybridtier {
    /// Frequency and momentum of a page.
    fn counts(&self, pages: &PageTable, page: PageIdx) -> [u8; 2] {
        let of = |key| [self.frequency.count(key), self.momentum.count(key)];
        key(pages, page).map_or([0; 2], of)
    }

    /// Takes in samples. The filters are made for pages of the size of the first one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "accesses of a sample; the cast saturates"
    )]
    fn learn(&mut self, view: &View<'_>) {
        for hit in view.evidence.hits {
            if self.frequency.is_empty() {
                let is_huge = view.memory.pages.is_huge(hit.page);
                let size = if is_huge { PageSize::Huge } else { PageSize::Base };
                self.fast_pages = (capacity(view, TierId::FAST).0 / size.bytes().0).max(1);
                self.frequency = Sketch::of_pages(self.fast_pages);
                self.momentum = Sketch::of_pages(self.fast_pages / MOMENTUM_PART);
            }
            if self.in_batch == 0 {
                self.batch_began = view.now;
            }
            *self.batch.entry(hit.page).or_default() += (hit.hits as u32).max(1);
            self.in_batch += 1;
        }
    }

    /// Counts the batch; promotes pages of it.
    fn end_batch(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        let batch = std::mem::take(&mut self.batch);
        self.samples += std::mem::take(&mut self.in_batch);
        self.batches += 1;
        for (&page, &count) in &batch {
            let Some(key) = key(view.memory.pages, page) else { continue };
            self.frequency.add(key, count);
            self.momentum.add(key, count);
        }
        for (&page, &count) in &batch {
            let state = view.memory.pages.state(page);
            if state.tier().is_none_or(|tier| tier == TierId::FAST) || state.is_refused() {
                continue;
            }
            let [frequency, momentum] = self.counts(view.memory.pages, page);
            if frequency < self.hot && momentum < small(self.knobs.momentum) {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "samples of a batch")]
            let rate_per_sec =
                view.estimated_rate(f64::from(count) / batch.len().max(1) as f64, f64::from(count));
            let reason = Reason::Hot { rate_per_sec };
            match ledger.plan(view.memory.pages, page, TierId::FAST, reason, plan) {
                Ok(_) => self.promoted += 1,
                Err(Shortage::Budget | Shortage::Room) => break,
                Err(Shortage::Limit | Shortage::Page) => {}
            }
        }
        if self.samples - self.halved_at >= FADES_AFTER * self.fast_pages {
            self.frequency.halve();
            self.halved_at = self.samples;
        }
        if self.samples - self.momentum_halved_at >= MOMENTUM_FADES_AFTER {
            self.momentum.halve();
            self.momentum_halved_at = self.samples;
        }
        if self.batches >= FIRST_BATCHES && self.batches.is_multiple_of(PLATEAU_BATCHES) {
            self.judge_plateau(view.now);
        }
    }

    /// Hardly any promotions: lowers T, or stops sampling.
    #[expect(clippy::cast_precision_loss, reason = "visited pages")]
    fn judge_plateau(&mut self, now: Nanos) {
        let promoted = std::mem::take(&mut self.promoted);
        let (visited, hot) = (self.demotion.visited, self.demotion.hot);
        (self.demotion.visited, self.demotion.hot) = (0, 0);
        if promoted > PLATEAU_PROMOTIONS {
            return;
        }
        let filled = if visited > 0 { hot as f64 / visited as f64 } else { 0.0 };
        match filled < FILLED && self.hot > LEAST_HOT {
            true => self.hot -= 1,
            false => {
                let (reading, ratios) = (Quantum::default(), Vec::new());
                self.monitor = Some(Monitor { since: now, reading, ratios });
            }
        }
    }

    /// Demotes while fast memory lacks room.
    fn demote(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        let rate = self.knobs.demotion_rate;
        if let Some(passed) = self.demotion.second.due(view.now, Nanos::from_secs(1)) {
            let most = crate::unit::in_time(rate, passed);
            let bytes = std::mem::take(&mut self.demotion.bytes);
            let bound = if self.demotion.spread { Bytes(most.0 / CALM_PART) } else { most };
            self.demotion.spread = bytes > bound;
        }
        let all = capacity(view, TierId::FAST);
        let [begins, ends] = ROOM.map(|share| all.part(share));
        let free = ledger.room(TierId::FAST);
        self.demotion.active = if self.demotion.active { free < ends } else { free < begins };
        if !self.demotion.active || view.now < self.demotion.resumes {
            return;
        }
        if self.demotion.spread {
            self.demotion.resumes = view.now + Nanos::from_secs(1);
        }
        while ledger.room(TierId::FAST) < ends
            && let Some(&Chance { page, frequency, since }) = self.demotion.chances.front()
            && view.now.saturating_sub(since) >= CHANCE
        {
            self.demotion.chances.pop_front();
            let [now, _] = self.counts(view.memory.pages, page);
            if now == frequency && !self.demote_page(view, page, ledger, plan) {
                return;
            }
        }
        let indices = view.memory.pages.indices();
        for _ in 0..VISITS.min(indices) {
            if ledger.room(TierId::FAST) >= ends {
                return;
            }
            self.demotion.cursor = (self.demotion.cursor + 1) % indices;
            let page = PageIdx::from_index(self.demotion.cursor);
            let state = view.memory.pages.state(page);
            if state.tier() != Some(TierId::FAST) || state.is_refused() {
                continue;
            }
            let [frequency, momentum] = self.counts(view.memory.pages, page);
            self.demotion.visited += 1;
            self.demotion.hot += u64::from(frequency >= self.hot);
            if momentum > 0 {
                continue;
            }
            if frequency >= self.hot {
                // A saturated count would not show another access.
                let frequency = frequency.min(MOST - 1);
                let known = self.demotion.chances.iter().any(|chance| chance.page == page);
                if self.demotion.chances.len() < CHANCES && !known {
                    self.demotion.chances.push_back(Chance { page, frequency, since: view.now });
                }
            } else if !self.demote_page(view, page, ledger, plan) {
                return;
            }
        }
    }

    /// Plans a demotion; false if no more can be moved.
    fn demote_page(
        &mut self,
        view: &View<'_>,
        page: PageIdx,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> bool {
        if view.memory.pages.state(page).tier() != Some(TierId::FAST) {
            return true;
        }
        let reason = Reason::Headroom { rate_per_sec: 0.0 }; // hardly accessed
        match ledger.demote(view.memory.pages, page, reason, plan) {
            Ok(bytes) => self.demotion.bytes += bytes,
            Err(Shortage::Page | Shortage::Limit) => {}
            Err(Shortage::Budget | Shortage::Room) => return false,
        }
        true
    }

    /// Watches the share of accesses to fast memory; samples again once it falls.
    fn watch(&mut self, view: &View<'_>) {
        let Some(monitor) = &mut self.monitor else { return };
        if view.now.saturating_sub(monitor.since) < SETTLES
            || monitor.reading.due(view.now, READING).is_none()
        {
            return;
        }
        let rates = view.machine.telemetry.tiers.iter().filter_map(|tier| tier.reads_per_sec);
        let all: f64 = rates.sum();
        let fast = view.machine.telemetry.tiers[TierId::FAST.index()].reads_per_sec;
        let Some(fast) = fast.filter(|_| all > 0.0) else { return };
        monitor.ratios.push(fast / all);
        if monitor.ratios.len() <= READINGS {
            return;
        }
        monitor.ratios.remove(0);
        if slope(&monitor.ratios) < FALLS {
            self.monitor = None;
            self.frequency.halve();
            self.momentum.halve();
            self.hot = small(self.knobs.hot);
            self.batches = 0;
        }
    }
}

/// The slope of the least-squares line through equidistant values.
#[expect(clippy::cast_precision_loss, reason = "a few values")]
fn slope(values: &[f64]) -> f64 {
    let mean_at = (values.len() as f64 - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (mut product, mut square) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let off = at as f64 - mean_at;
        product += off * (value - mean);
        square += off * off;
    }
    if square > 0.0 { product / square } else { 0.0 }
}

impl Policy for Hybridtier {
    fn name(&self) -> &'static str {
        "hybridtier"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        if self.monitor.is_some() {
            self.watch(view);
            return;
        }
        self.learn(view);
        if self.frequency.is_empty() {
            return;
        }
        let mut ledger = Ledger::new(view, view.machine.budget, |_| Bytes::ZERO);
        self.demote(view, &mut ledger, plan);
        let is_old = view.now.saturating_sub(self.batch_began) >= LONGEST_BATCH;
        if self.in_batch >= self.knobs.batch.into() || self.in_batch > 0 && is_old {
            self.end_batch(view, &mut ledger, plan);
        }
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        let [frequency, _] = self.counts(memory.pages, page);
        HeatEstimate::exactly(f32::from(frequency))
    }

    fn wants(&self) -> Wants {
        let period = u64::from(self.knobs.period);
        let loads = if self.monitor.is_some() { period * OFF } else { period };
        Wants {
            quantum: Some(Nanos::from_millis(10)),
            tracking: Some(Tracking::Samples {
                loads,
                stores: None,
                cpu_permille: Some(self.knobs.cpu_permille),
            }),
            allocation: Some(Allocation::FirstTouch),
            own_heat: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        HybridtierKnobs::table()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        let known = self.knobs.set(knob, value);
        self.hot = small(self.knobs.hot);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;

    /// One batch in which the pages of a slow tier get these numbers of hits; the pages promoted.
    fn promoted(hits: [u32; 3]) -> Vec<u64> {
        let mut stage = Stage::of_base_pages(3, TierId(1));
        let pages = stage.all.clone();
        for (&page, count) in pages.iter().zip(hits) {
            stage.hits.extend((0..count).map(|_| Stage::hit(page)));
        }
        let mut policy = Hybridtier::default();
        assert!(policy.set("batch", hits.iter().sum::<u32>().max(100).into()));
        let mut plan = Plan::default();
        policy.plan(&mut stage.view(), &mut plan);
        plan.iter().map(|m| m.vpn.0).collect()
    }

    #[test]
    fn a_page_is_promoted_by_three_accesses_in_a_short_time() {
        assert_eq!(promoted([97, 2, 3]), [0, 2]);
    }

    #[test]
    fn the_slope_of_a_line() {
        assert!((slope(&[0.9, 0.88, 0.86, 0.84, 0.82]) + 0.02).abs() < 1e-12);
        assert_eq!(slope(&[0.9]), 0.0);
    }
}
