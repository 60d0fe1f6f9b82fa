// SPDX-License-Identifier: Apache-2.0
//! memtis: packs the pages that are densest in samples, as many as fit the fastest tier.
//!
//! What it does: counts a page's samples and keeps a histogram of all counts in powers of two. The
//! threshold between hot and cold is the bin from which all hotter pages together just fit. Every 500 ms
//! hot slow pages are promoted, longest hot first, into what is free above a watermark; cold fast pages
//! are demoted to keep that free, and to make room for all hot pages that wait. Warm pages, of the bin
//! below, stay. With colloid as its goal, pages of the hot lists are taken until their share of all samples makes
//! up the shift; cold pages are demoted as before.
//!
//! When it helps: any skew, as nothing is absolute; hot sets of any size.
//!
//! When it hurts: bins are powers of two, so that pages twice as hot can look the same; and counts are halved
//! once in two million samples, so that a set that was hot stays so for tens of seconds.
//!
//! Knobs: adaptation_period (100 000 samples), cooling_period (2 000 000), cooling_alloc (10 GiB), thres_hot
//! (1), warm_below (0.75), quantum (500 ms), demotion and promotion watermarks (2 % and 3 %).
//!
//! Where it comes from: MEMTIS (SOSP 2023) and its public kernel 5.15.19; Colloid section 4.2 for the shift.
//! Departures: huge pages are not split, as a plan can only move pages; and on a tier so small that
//! the watermarks' lower bounds (50 and 100 MiB) exceed a quarter of it, a quarter is kept.

use super::goal::{Aim, Goal, Quota, Shift};
use super::parts::ledger::{Ledger, Short};
use super::parts::quantum::Quantum;
use super::parts::review::Review;
use super::{Allocation, Policy, Reason, View, Wants, Watch};
use crate::knob::Knob;
use crate::knobs;
use crate::lists::residents::Residents;
use crate::page::PageIdx;
use crate::port::{Move, PageSize};
use crate::telemetry::histogram::{self, Histogram};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs, without those of the histogram.
    pub struct Knobs {
        /// Time between decisions.
        quantum: Nanos = Nanos::from_millis(500), Nanos::from_millis(10), Nanos::from_secs(10);
        /// Loads to a sample; more where sampling takes too much time.
        period: u32 = 199, 199, 19_997;
        /// Stores to a sample.
        store_period: u32 = 100_007, 10_007, 1_500_003;
        /// Free share of the fastest tier below which cold pages are demoted.
        demotion_watermark: f64 = 0.02, 0.0, 0.2;
        /// Free share of it that promotions leave.
        promotion_watermark: f64 = 0.03, 0.0, 0.2;
        /// Listed pages looked at again in a quantum after thresholds moved, at most.
        reviewed_per_quantum: u32 = 1 << 16, 64, 1 << 22;
    }
}

/// Thousandths of a core that sampling may take.
const CPU_PERMILLE: u32 = 30;
/// Bounds of the demotion and the promotion watermark.
const DEMOTION_MIB: [u64; 2] = [50, 1_000];
const PROMOTION_MIB: [u64; 2] = [100, 1_500];

/// Pages of a list that do not fit, after which no more are looked at in a quantum.
const LOOKS: usize = 1 << 16;

const COLD: u8 = 0;
const HOT: u8 = 1;

/// The policy.
#[derive(Debug)]
pub struct Memtis {
    name: &'static str,
    knobs: Knobs,
    goal: Box<dyn Goal>,
    histogram: Histogram,
    residents: Residents,
    review: Review,
    reviewed: u64,
    quantum: Quantum,
    task: Task,
}

/// What was decided for a quantum and is still to be done in its ticks.
#[derive(Debug, Default)]
struct Task {
    /// Bytes that are too many in the fastest tier.
    over: Bytes,
    /// Bytes of hot pages to be promoted.
    lack: Bytes,
    shifts: Vec<(Shift, Quota)>,
}

impl Memtis {
    /// The policy under a name, with a goal.
    pub fn new(name: &'static str, goal: Box<dyn Goal>) -> Self {
        Self {
            name,
            knobs: Knobs::default(),
            goal,
            histogram: Histogram::new(histogram::Knobs::default()),
            residents: Residents::new(2),
            review: Review::default(),
            reviewed: 0,
            quantum: Quantum::default(),
            task: Task::default(),
        }
    }

    /// What the managed programs can have of the fastest tier.
    fn capacity(view: &View<'_>) -> Bytes {
        let held = view.pages.bytes_in(TierId::FAST);
        let free = view.telemetry.tiers.first().map_or(Bytes::ZERO, |tier| tier.free);
        let limit = view.limits.room(TierId::FAST, Bytes::ZERO);
        limit.map_or(held + free, |limit| limit.min(held + free))
    }

    fn watermark(capacity: Bytes, share: f64, mib: [u64; 2]) -> Bytes {
        let [least, most] = mib.map(Bytes::from_mib);
        capacity.part(share).clamp(least, most).min(Bytes(capacity.0 / 4))
    }

    fn demotion_watermark(&self, capacity: Bytes) -> Bytes {
        Self::watermark(capacity, self.knobs.demotion_watermark, DEMOTION_MIB)
    }

    fn promotion_watermark(&self, capacity: Bytes) -> Bytes {
        Self::watermark(capacity, self.knobs.promotion_watermark, PROMOTION_MIB)
    }

    fn class(&self, word: u64) -> u8 {
        if self.histogram.is_hot(word) { HOT } else { COLD }
    }

    /// Counts what was seen and sorts it into the lists.
    fn believe(&mut self, view: &mut View<'_>) {
        self.residents.settle(view.pages);
        self.histogram.allocated(Bytes::from_base_pages(view.pages.base_pages()));
        let capacity = Self::capacity(view);
        let fits = capacity.saturating_sub(self.promotion_watermark(capacity));
        for &page in view.touched {
            if self.residents.class(view.pages, page).is_some() {
                continue;
            }
            let Some(at) = view.pages.locate(page) else { continue };
            // Of the slowest tier only pages that were sampled are named, and those are not new.
            let slowest = view.pages.state(page).tier() == Some(view.tiers.slowest());
            if !slowest && !self.histogram.knows(view.pages.word(page)) {
                let word = self.histogram.newborn(at.size);
                view.pages.set_word(page, word);
            }
            let class = self.class(view.pages.word(page));
            self.residents.put(view.pages, page, class);
        }
        for hit in view.hits {
            let Some(at) = view.pages.locate(hit.page) else { continue };
            let word = self.histogram.count(view.pages.word(hit.page), hit, at.size, fits);
            view.pages.set_word(hit.page, word);
            let class = self.class(word);
            if self.residents.class(view.pages, hit.page) != Some(class) {
                self.residents.put(view.pages, hit.page, class);
            }
        }
        if self.reviewed != self.histogram.changes() {
            self.reviewed = self.histogram.changes();
            self.review = Review::of(&self.residents, view.tiers, COLD..HOT + 1);
        }
    }

    /// Sorts listed pages again after a cooling or a new threshold, some every quantum.
    fn look_again(&mut self, view: &mut View<'_>) {
        for _ in 0..self.knobs.reviewed_per_quantum {
            let Some(page) = self.review.next(&mut self.residents, view.pages) else { return };
            let class = self.class(view.pages.word(page));
            self.residents.put(view.pages, page, class);
        }
    }

    fn decide(&mut self, view: &mut View<'_>, passed: Nanos) -> Task {
        let capacity = Self::capacity(view);
        let waiting = self.waiting(view);
        let wanted =
            view.pages.bytes_in(TierId::FAST) + waiting + self.demotion_watermark(capacity);
        let over = wanted.saturating_sub(capacity);
        match self.goal.aim(view, passed) {
            Aim::Pack => Task { over, lack: waiting, shifts: Vec::new() },
            Aim::Shift(shifts) => {
                let shifts = shifts.into_iter().map(|shift| {
                    let quota = Quota::of(&shift);
                    (shift, quota)
                });
                Task { over, lack: Bytes::ZERO, shifts: shifts.collect() }
            }
        }
    }

    /// Goes on with the task, as far as this tick's budget and room allow.
    fn work(&mut self, view: &mut View<'_>, plan: &mut Vec<Move>) {
        let kept = self.promotion_watermark(Self::capacity(view));
        let reserve = |tier| if tier == TierId::FAST { kept } else { Bytes::ZERO };
        let mut ledger = Ledger::new(view, view.budget, reserve);
        self.demote(view, &mut ledger, plan);
        self.pack(view, &mut ledger, plan);
        for (shift, mut quota) in std::mem::take(&mut self.task.shifts) {
            if let Some(Short::Budget) = self.shift(view, &shift, &mut quota, &mut ledger, plan) {
                self.task.shifts.push((shift, quota));
            }
        }
    }

    /// Cold fast pages down, until what is free is above the watermark and holds all hot slow pages.
    fn demote(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Vec<Move>) {
        for _ in 0..self.residents.len(TierId::FAST, COLD).min(LOOKS) {
            if self.task.over == Bytes::ZERO {
                return;
            }
            let Some(page) = self.residents.first(view.pages, TierId::FAST, COLD) else { return };
            let word = view.pages.word(page);
            if !self.histogram.is_cold(word) {
                self.residents.put(view.pages, page, self.class(word));
                continue; // warm, or hot by now
            }
            let Some(at) = view.pages.locate(page) else { return };
            let Some(to) = ledger.below(TierId::FAST, at.size) else { return };
            let reason = Reason::Headroom { rate_per_sec: self.rate(view, word, at.size) };
            let Ok(bytes) = ledger.plan(view.pages, page, to, reason, plan) else { return };
            self.residents.moves(view.pages, page, COLD);
            self.task.over = self.task.over.saturating_sub(bytes);
        }
        if self.task.over > Bytes::ZERO {
            self.histogram.release_warm();
            self.task.over = Bytes::ZERO; // not in this quantum
        }
    }

    /// Bytes of hot pages that wait in slower tiers, taken to be of one size.
    fn waiting(&mut self, view: &mut View<'_>) -> Bytes {
        let mut waiting = Bytes::ZERO;
        for tier in (1..=view.tiers.slowest().0).map(TierId) {
            if let Some(first) = self.residents.first(view.pages, tier, HOT)
                && let Some(at) = view.pages.locate(first)
            {
                waiting += at.size.bytes() * self.residents.len(tier, HOT) as u64;
            }
        }
        waiting
    }

    /// Hot slow pages up, longest hot first, into what is free.
    fn pack(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Vec<Move>) {
        for from in (1..=view.tiers.slowest().0).map(TierId) {
            while self.task.lack > Bytes::ZERO
                && let Some((page, word, size)) = self.hot(view, from)
            {
                let reason = Reason::Hot { rate_per_sec: self.rate(view, word, size) };
                let planned = ledger.plan(view.pages, page, TierId::FAST, reason, plan);
                let Ok(bytes) = planned else { return };
                self.task.lack = self.task.lack.saturating_sub(bytes);
                self.residents.moves(view.pages, page, HOT);
            }
        }
    }

    /// The page of a tier that has been hot for longest, and still is.
    fn hot(&mut self, view: &mut View<'_>, tier: TierId) -> Option<(PageIdx, u64, PageSize)> {
        loop {
            let page = self.residents.first(view.pages, tier, HOT)?;
            let word = view.pages.word(page);
            if self.histogram.is_hot(word) {
                return Some((page, word, view.pages.locate(page)?.size));
            }
            self.residents.put(view.pages, page, COLD);
        }
    }

    /// Finds pages that make up a shift, in the order of the hot lists. Returns what it fell short of.
    fn shift(
        &mut self,
        view: &mut View<'_>,
        shift: &Shift,
        quota: &mut Quota,
        ledger: &mut Ledger,
        plan: &mut Vec<Move>,
    ) -> Option<Short> {
        let sources = if shift.up { shift.below.clone() } else { vec![shift.tier] };
        for from in sources {
            for _ in 0..self.residents.len(from, HOT).min(LOOKS) {
                let Some((page, word, size)) = self.hot(view, from) else { break };
                if quota.is_spent() {
                    return None;
                }
                let (share, bytes) = (self.histogram.share(word, size), size.bytes());
                if !quota.admits(share, bytes) {
                    self.residents.put(view.pages, page, HOT);
                    continue;
                }
                let to = match shift.up {
                    true => Some(shift.tier),
                    false => shift.below.iter().copied().find(|&to| ledger.room(to) >= bytes),
                };
                #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
                let reason = Reason::Balance { rate_per_sec: (share * shift.reads_per_sec) as f32 };
                let Some(to) = to else { return Some(Short::Room) };
                if let Err(short) = ledger.plan(view.pages, page, to, reason, plan) {
                    return Some(short);
                }
                self.residents.moves(view.pages, page, HOT);
                quota.charge(share, bytes);
            }
        }
        None
    }

    fn rate(&self, view: &View<'_>, word: u64, size: PageSize) -> f32 {
        let samples = self.histogram.samples_of(word, size);
        view.believed_rate(self.histogram.share(word, size), samples)
    }
}

impl Policy for Memtis {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Vec<Move>) {
        self.goal.listen(view);
        self.believe(view);
        if let Some(passed) = self.quantum.due(view.now, self.knobs.quantum) {
            self.look_again(view);
            self.task = self.decide(view, passed);
        }
        self.work(view, plan);
    }

    fn wants(&self) -> Wants {
        let watch = Watch::Samples {
            loads: self.knobs.period.into(),
            stores: Some(self.knobs.store_period.into()),
            cpu_permille: Some(CPU_PERMILLE),
        };
        Wants {
            quantum: Some(self.knobs.quantum),
            watch: Some(watch),
            allocation: Some(Allocation::FirstTouch),
            own_heat: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        [Knobs::table(), histogram::Knobs::table(), self.goal.knobs()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
            || self.histogram.knobs.set(knob, value)
            || self.goal.set(knob, value)
    }
}
