// SPDX-License-Identifier: Apache-2.0
//! memtis: packs the pages with the densest samples, as many as fit the fastest tier.
//!
//! What it does: counts a page's samples and keeps a histogram of all counts in powers of two. The threshold
//! between hot and cold is the lowest bin from which all hotter pages together just fit. Every 500 ms hot slow
//! pages are promoted, longest hot first, into free memory above a watermark; cold fast pages are demoted to
//! keep that free, and to make room for all waiting hot pages. Warm pages, in the bin below the threshold,
//! stay. Huge pages whose samples are on few of their base pages are split if, with base pages, the fastest
//! tier would serve clearly more; only the kernel re-forms them. With colloid as its goal, pages of the hot
//! lists are taken until their share of all samples makes up the shift; cold pages are demoted as before.
//!
//! When it helps: any skew, as there are no absolute thresholds; hot sets of any size; hot spots within huge
//! pages.
//!
//! When it hurts: bins are powers of two, so a page twice as hot can look the same; counts are halved once in
//! two million samples, so an old hot set stays hot for tens of seconds; a huge page with few samples looks
//! skewed and is split without benefit.
//!
//! Knobs: adaptation_period (100 000 samples), cooling_period (2 000 000), cooling_alloc (10 GiB), thres_hot
//! (1), warm_below (0.75), quantum (500 ms), period (199 loads), store_period (100 007), demotion_watermark (2 %),
//! promotion_watermark (3 %), reviewed_per_quantum (65 536 pages), split (on), split_tenths (4), split_slow_latency
//! (170 ns).
//!
//! Where it comes from: MEMTIS (SOSP 2023) and its public kernel 5.15.19; Colloid section 4.2 for the shift.
//! Departures: huge and base pages are in separate lists, and huge ones go first; on a tier so small that the
//! watermarks' lower bounds (50 and 100 MiB) exceed a quarter of it, a quarter is kept.

mod splitting;
mod words;

use std::collections::VecDeque;

use self::splitting::Splitting;
use self::words::{COLD, HOT, LISTS, SIZES, TO_SPLIT, list, size_of, sized, skew};
use super::goal::{Aim, Goal, Shift, ShiftQuota};
use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::ledger::{self, Ledger, Shortage};
use super::parts::quantum::Quantum;
use crate::knob::Knob;
use crate::knobs;
use crate::lists::residents::Residents;
use crate::lists::review::Review;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Allocation, PageSize, Reason, Tracking};
use crate::telemetry::Hit;
use crate::telemetry::histogram::{self, BinWord, CountEvent, Histogram};
use crate::telemetry::subpages::{self, Subpages};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs, without those of the histogram.
    pub struct MemtisKnobs {
        /// Time between decisions.
        quantum: Nanos = Nanos::from_millis(500), Nanos::from_millis(10), Nanos::from_secs(10);
        /// Loads per sample; more if sampling takes too much time.
        period: u32 = 199, 199, 19_997;
        /// Stores per sample.
        store_period: u32 = 100_007, 10_007, 1_500_003;
        /// Free share of the fastest tier below which cold pages are demoted.
        demotion_watermark: f64 = 0.02, 0.0, 0.2;
        /// Free share of the fastest tier that promotions leave.
        promotion_watermark: f64 = 0.03, 0.0, 0.2;
        /// Listed pages reclassified per quantum after thresholds moved, at most.
        reviewed_per_quantum: u32 = 1 << 16, 64, 1 << 22;
    }
}

/// Thousandths of a core that sampling may take.
const CPU_PERMILLE: u32 = 30;
/// Bounds of the two watermarks, in MiB.
const DEMOTION_MIB: [u64; 2] = [50, 1_000];
const PROMOTION_MIB: [u64; 2] = [100, 1_500];

/// Pages checked per list and quantum, at most.
const CHECKS: usize = 1 << 16;

/// The policy.
#[derive(Debug)]
pub struct Memtis {
    name: &'static str,
    knobs: MemtisKnobs,
    goal: Box<dyn Goal>,
    histogram: Histogram,
    subpages: Subpages,
    /// Huge pages to be split, and those whose split was requested in the last tick.
    to_split: VecDeque<PageIdx>,
    splitting: Vec<Splitting>,
    residents: Residents,
    review: Review,
    reviewed: u64,
    quantum: Quantum,
    task: Task,
}

/// Work decided for a quantum, carried out over its ticks.
#[derive(Debug, Default)]
struct Task {
    /// Bytes to be demoted from the fastest tier.
    over: Bytes,
    /// Bytes of hot pages to be promoted.
    lack: Bytes,
    shifts: Vec<(Shift, ShiftQuota)>,
}

impl Memtis {
    /// The policy under a name, with a goal.
    pub fn new(name: &'static str, goal: Box<dyn Goal>) -> Self {
        Self {
            name,
            knobs: MemtisKnobs::default(),
            goal,
            histogram: Histogram::new(histogram::HistogramKnobs::default()),
            subpages: Subpages::new(subpages::SubpagesKnobs::default()),
            to_split: VecDeque::new(),
            splitting: Vec::new(),
            residents: Residents::new(LISTS),
            review: Review::default(),
            reviewed: 0,
            quantum: Quantum::default(),
            task: Task::default(),
        }
    }

    /// Bytes of the fastest tier available to the managed programs.
    fn capacity(view: &View<'_>) -> Bytes {
        ledger::capacity(view, TierId::FAST)
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
        let heat = if self.histogram.is_hot(word) { HOT } else { COLD };
        list(heat, size_of(word))
    }

    /// Counts hits and lists the pages by class.
    fn learn(&mut self, view: &mut View<'_>) {
        self.residents.finish_moves(view.memory.pages);
        self.take_parts(view);
        let capacity = Self::capacity(view);
        let fits = capacity.saturating_sub(self.promotion_watermark(capacity));
        let in_use = Bytes::from_base_pages(view.memory.pages.base_pages());
        if self.histogram.cool_if_grown(in_use) {
            self.subpages.on_cooling(in_use, capacity);
        }
        for &page in view.evidence.touched {
            if self.residents.class(view.memory.pages, page).is_some() {
                continue;
            }
            let Some(at) = view.memory.pages.locate(page) else { continue };
            // Of the slowest tier only sampled pages are in `touched`, and those are not new.
            let slowest =
                view.memory.pages.state(page).tier() == Some(view.machine.tiers.slowest());
            let mut word = view.memory.pages.heat::<BinWord>(page).0;
            if !slowest && !self.histogram.has_count(word) {
                word = self.histogram.new_page(at.size);
                if let Some(born) = self.histogram.stored_count(word) {
                    self.subpages.new_page(page, born, at.size.base_pages());
                }
            }
            word = sized(word, at.size);
            view.memory.pages.set_heat(page, BinWord(word));
            self.residents.put(view.memory.pages, page, self.class(word));
        }
        for hit in view.evidence.hits {
            let Some(at) = view.memory.pages.locate(hit.page) else { continue };
            let (word, turn) = self.count(
                sized(view.memory.pages.heat::<BinWord>(hit.page).0, at.size),
                hit,
                fits,
            );
            view.memory.pages.set_heat(hit.page, BinWord(word));
            match turn {
                CountEvent::None => {}
                CountEvent::Cooled => self.subpages.on_cooling(in_use, capacity),
                CountEvent::Adapted { after_cooling } => {
                    let knobs = self.histogram.knobs;
                    let least = self.histogram.least();
                    self.subpages.on_adaptation(after_cooling, fits, least, knobs.cooling_period);
                }
            }
            let class = self.class(word);
            if self.residents.class(view.memory.pages, hit.page) != Some(class) {
                self.residents.put(view.memory.pages, hit.page, class);
            }
        }
        self.histogram.may_fall = self.subpages.has_split();
        if self.reviewed != self.histogram.changes() {
            self.reviewed = self.histogram.changes();
            self.review = Review::of(&self.residents, view.machine.tiers, 0..LISTS);
        }
    }

    /// Counts a hit of a page, and queues a huge page for splitting if it is skewed enough.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded to whole samples"
    )]
    fn count(&mut self, word: u64, hit: &Hit, fits: Bytes) -> (u64, CountEvent) {
        let samples = (hit.hits + 0.5).max(1.0) as u32;
        let (mut word, size) = (word, size_of(word));
        if self.subpages.knobs.split {
            word = self.cool(hit.page, word);
            let known = self.histogram.stored_count(word);
            self.subpages.sampled(hit.tier == Some(TierId::FAST), samples);
            match (size, hit.base_page) {
                (PageSize::Base, _) => self.subpages.base_hit(known, samples),
                (PageSize::Huge, Some(at)) => {
                    self.subpages.huge_hit(hit.page, known, at, samples);
                    if word & TO_SPLIT == 0 && self.subpages.take_target(skew(word)) {
                        word |= TO_SPLIT;
                        self.to_split.push_back(hit.page);
                    }
                }
                (PageSize::Huge, None) => {}
            }
        }
        self.histogram.count(word, samples, size, fits)
    }

    /// Reclassifies listed pages after a cooling or a new threshold, some in every quantum.
    fn reclassify(&mut self, view: &mut View<'_>) {
        for _ in 0..self.knobs.reviewed_per_quantum {
            let Some(page) = self.review.next(&mut self.residents, view.memory.pages) else {
                return;
            };
            let mut word = view.memory.pages.heat::<BinWord>(page).0;
            if self.subpages.knobs.split {
                word = self.cool(page, word);
                view.memory.pages.set_heat(page, BinWord(word));
            }
            self.residents.put(view.memory.pages, page, self.class(word));
        }
    }

    fn decide(&mut self, view: &mut View<'_>, passed: Nanos) -> Task {
        let capacity = Self::capacity(view);
        let waiting = self.waiting(view);
        let wanted =
            view.memory.pages.bytes_in(TierId::FAST) + waiting + self.demotion_watermark(capacity);
        let over = wanted.saturating_sub(capacity);
        match self.goal.aim(view, passed) {
            Aim::Pack => Task { over, lack: waiting, shifts: Vec::new() },
            Aim::Shift(shifts) => {
                let shifts = shifts.into_iter().map(|shift| {
                    let quota = ShiftQuota::of(&shift);
                    (shift, quota)
                });
                Task { over, lack: Bytes::ZERO, shifts: shifts.collect() }
            }
        }
    }

    /// Continues the task, within this tick's budget and room.
    fn work(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        let kept = self.promotion_watermark(Self::capacity(view));
        let reserve = |tier| if tier == TierId::FAST { kept } else { Bytes::ZERO };
        let mut ledger = Ledger::new(view, view.machine.budget, reserve);
        self.demote(view, &mut ledger, plan);
        self.pack(view, &mut ledger, plan);
        for (shift, mut quota) in std::mem::take(&mut self.task.shifts) {
            if let Some(Shortage::Budget) = self.shift(view, &shift, &mut quota, &mut ledger, plan)
            {
                self.task.shifts.push((shift, quota));
            }
        }
    }

    /// Demotes cold fast pages until the free memory exceeds the watermark and fits all waiting hot pages.
    fn demote(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        for size in SIZES {
            let cold = list(COLD, size);
            for _ in 0..self.residents.len(TierId::FAST, cold).min(CHECKS) {
                if self.task.over == Bytes::ZERO {
                    return;
                }
                let Some(page) = self.residents.first(view.memory.pages, TierId::FAST, cold) else {
                    break;
                };
                let word = view.memory.pages.heat::<BinWord>(page).0;
                if !self.histogram.is_cold(word) {
                    self.residents.put(view.memory.pages, page, self.class(word));
                    continue; // now warm or hot
                }
                let Some(to) = ledger.demotion_target(view.memory.pages, page) else { return };
                let reason = Reason::Headroom { rate_per_sec: self.rate(view, word, size) };
                let Ok(bytes) = ledger.plan(view.memory.pages, page, to, reason, plan) else {
                    return;
                };
                self.residents.start_move(view.memory.pages, page, cold);
                self.task.over = self.task.over.saturating_sub(bytes);
            }
        }
        if self.task.over > Bytes::ZERO {
            self.histogram.release_warm();
            self.task.over = Bytes::ZERO; // no more demotions in this quantum
        }
    }

    /// Bytes of hot pages that wait in slower tiers.
    fn waiting(&self, view: &View<'_>) -> Bytes {
        let slower = (1..=view.machine.tiers.slowest().0).map(TierId);
        let lists = slower.flat_map(|tier| SIZES.map(|size| (tier, size)));
        lists
            .map(|(tier, size)| size.bytes() * self.residents.len(tier, list(HOT, size)) as u64)
            .sum()
    }

    /// Promotes hot slow pages, longest hot first, into free memory.
    fn pack(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        for from in (1..=view.machine.tiers.slowest().0).map(TierId) {
            for size in SIZES {
                while self.task.lack > Bytes::ZERO
                    && let Some((page, word)) = self.hot(view, from, size)
                {
                    let reason = Reason::Hot { rate_per_sec: self.rate(view, word, size) };
                    let planned = ledger.plan(view.memory.pages, page, TierId::FAST, reason, plan);
                    match planned {
                        Ok(bytes) => self.task.lack = self.task.lack.saturating_sub(bytes),
                        Err(Shortage::Limit) => {}
                        Err(_) => return,
                    }
                    self.residents.start_move(view.memory.pages, page, list(HOT, size));
                }
            }
        }
    }

    /// The oldest page of a hot list that is still hot.
    fn hot(&mut self, view: &mut View<'_>, tier: TierId, size: PageSize) -> Option<(PageIdx, u64)> {
        loop {
            let page = self.residents.first(view.memory.pages, tier, list(HOT, size))?;
            let word = view.memory.pages.heat::<BinWord>(page).0;
            if self.histogram.is_hot(word) {
                return Some((page, word));
            }
            self.residents.put(view.memory.pages, page, list(COLD, size));
        }
    }

    /// Selects pages that make up a shift, in the order of the hot lists. Returns what was short, if anything.
    fn shift(
        &mut self,
        view: &mut View<'_>,
        shift: &Shift,
        quota: &mut ShiftQuota,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Option<Shortage> {
        let sources = if shift.up { shift.below.clone() } else { vec![shift.tier] };
        for (from, size) in sources.into_iter().flat_map(|from| SIZES.map(|size| (from, size))) {
            let hot = list(HOT, size);
            for _ in 0..self.residents.len(from, hot).min(CHECKS) {
                let Some((page, word)) = self.hot(view, from, size) else { break };
                if quota.is_spent() {
                    return None;
                }
                let (share, bytes) = (self.histogram.share(word, size), size.bytes());
                if !quota.admits(share, bytes) {
                    self.residents.put(view.memory.pages, page, hot);
                    continue;
                }
                let to = match shift.up {
                    true => Some(shift.tier),
                    false => shift.below.iter().copied().find(|&to| ledger.room(to) >= bytes),
                };
                #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
                let reason = Reason::Balance { rate_per_sec: (share * shift.reads_per_sec) as f32 };
                let Some(to) = to else { return Some(Shortage::Room) };
                match ledger.plan(view.memory.pages, page, to, reason, plan) {
                    Err(Shortage::Limit) => {
                        self.residents.start_move(view.memory.pages, page, hot);
                        continue;
                    }
                    Err(short) => return Some(short),
                    Ok(_) => {}
                }
                self.residents.start_move(view.memory.pages, page, hot);
                quota.charge(share, bytes);
            }
        }
        None
    }

    fn rate(&self, view: &View<'_>, word: u64, size: PageSize) -> f32 {
        let samples = self.histogram.samples_of(word, size);
        view.estimated_rate(self.histogram.share(word, size), samples)
    }
}

impl Policy for Memtis {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        self.goal.update(view);
        self.learn(view);
        if let Some(passed) = self.quantum.due(view.now, self.knobs.quantum) {
            self.reclassify(view);
            self.split(view);
            self.task = self.decide(view, passed);
        }
        self.work(view, plan);
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        let size = memory.pages.locate(page).map_or(PageSize::Base, |at| at.size);
        let samples = self.histogram.samples_of(memory.pages.heat::<BinWord>(page).0, size);
        #[expect(clippy::cast_possible_truncation, reason = "heat is f32")]
        HeatEstimate::exactly(samples as f32)
    }

    fn wants(&self) -> Wants {
        let watch = Tracking::Samples {
            loads: self.knobs.period.into(),
            stores: Some(self.knobs.store_period.into()),
            cpu_permille: Some(CPU_PERMILLE),
        };
        Wants {
            quantum: Some(self.knobs.quantum),
            tracking: Some(watch),
            allocation: Some(Allocation::FirstTouch),
            own_heat: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        let tables = [
            MemtisKnobs::table(),
            histogram::HistogramKnobs::table(),
            subpages::SubpagesKnobs::table(),
        ];
        [tables.concat(), self.goal.knobs()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
            || self.histogram.knobs.set(knob, value)
            || self.subpages.knobs.set(knob, value)
            || self.goal.set(knob, value)
    }
}
