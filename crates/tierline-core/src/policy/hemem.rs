// SPDX-License-Identifier: Apache-2.0
//! hemem: packs pages with many samples into the fastest tier.
//!
//! What it does: counts a page's samples and halves all counts when one exceeds 18. A page with 8 loads or 4
//! stores is hot. Every 10 ms hot slow pages are promoted, oldest on the hot list first, each into free fast
//! memory or in exchange for the fast page longest on the cold list; if all fast pages are hot, nothing moves.
//! With colloid as its goal, pages are in five bins by count instead, and are taken from the highest bin down
//! until their share of all counts makes up the shift.
//!
//! When it helps: programs with a clear hot set no larger than fast memory, in huge pages.
//!
//! When it hurts: thresholds are absolute. A hot set of many pages with few samples each is never found, and
//! one larger than fast memory stops all moves; no headroom is kept for new pages.
//!
//! Knobs: hot_reads (8), hot_writes (4), cool_above (18), decay_first (0), quantum (10 ms), period (5003 loads or
//! stores), rate (10 GiB/s), cooled_per_quantum (8192 pages), freeze (0).
//!
//! Where it comes from: HeMem (SOSP 2021) and its public code: the test for heat comes before decay, lists are
//! first in first out, cooling walks the hot lists. Bins are from Colloid section 4.1; their order, hottest
//! first, and that a page displaces only one of a lower bin, are ours, as the paper gives none. The rate is 10
//! GiB/s, from 100 MiB per quantum in Colloid's code; HeMem's code has the same number per 10 ms, which limits
//! nothing. `freeze` reproduces that its code skips cooling while fast memory holds only hot pages. Four
//! threads copy a page. Requests reach the lists at once, not through rings that hold 128 cold pages per
//! quantum.

use super::goal::{Aim, Goal, Shift, ShiftQuota};
use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::ledger::{Ledger, Shortage};
use super::parts::quantum::Quantum;
use crate::knob::Knob;
use crate::knobs;
use crate::lists::residents::Residents;
use crate::lists::review::Review;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Allocation, Reason, Tracking};
use crate::telemetry::counts::{self, CountWord, Counts};
use crate::tier::TierId;
use crate::unit::{Bytes, BytesPerSec, Nanos, in_time};

knobs! {
    /// The knobs, without those of the counts.
    pub struct HememKnobs {
        /// Time between decisions.
        quantum: Nanos = Nanos::from_millis(10), Nanos::from_millis(1), Nanos::from_secs(1);
        /// Loads or stores per sample.
        period: u32 = 5003, 199, 200_003;
        /// Rate of moves, at most.
        rate: BytesPerSec = BytesPerSec(10 << 30), BytesPerSec(1 << 20), BytesPerSec(1 << 40);
        /// Hot pages reclassified per quantum after a cooling, at most.
        cooled_per_quantum: u32 = 8192, 64, 1 << 20;
        /// No cooling while fast memory holds only hot pages, as in the published code.
        freeze: bool = false, false, true;
    }
}

/// Threads that copy a page together (its public code; the alternative there is a DMA engine).
const COPY_THREADS: u32 = 4;
/// Bins of the counts from 0 to the cooling threshold, used with a shifting goal.
pub const BINS: u8 = 5;
/// Pages of a bin that do not fit a shift before the next bin is tried.
const MISFITS: usize = 1024;

/// The policy.
#[derive(Debug)]
pub struct Hemem {
    name: &'static str,
    knobs: HememKnobs,
    goal: Box<dyn Goal>,
    counts: Counts,
    /// Pages by class: cold and hot, or bins.
    residents: Residents,
    quantum: Quantum,
    cooled: u32,
    review: Review,
}

impl Hemem {
    /// The policy under a name, with a goal.
    pub fn new(name: &'static str, goal: Box<dyn Goal>) -> Self {
        let residents = Residents::new(if goal.can_shift() { BINS } else { 2 });
        Self {
            name,
            knobs: HememKnobs::default(),
            goal,
            counts: Counts::new(counts::CountsKnobs::default()),
            residents,
            quantum: Quantum::default(),
            cooled: 0,
            review: Review::default(),
        }
    }

    fn classes(&self) -> u8 {
        if self.goal.can_shift() { BINS } else { 2 }
    }

    /// The lowest class that is hot.
    fn hot_class(&self) -> u8 {
        if self.goal.can_shift() { self.bin(self.counts.knobs.hot_reads) } else { 1 }
    }

    /// The bin of a count: the range below the cooling threshold in equal parts.
    fn bin(&self, loads: u32) -> u8 {
        let bin = loads * u32::from(BINS) / self.counts.knobs.cool_above.max(1);
        u8::try_from(bin).unwrap_or(BINS).min(BINS - 1)
    }

    /// The class of a page's word; `hot` as judged at its hit.
    fn class(&self, word: u64, hot: bool) -> u8 {
        if self.goal.can_shift() { self.bin(self.counts.loads(word)) } else { u8::from(hot) }
    }

    /// Counts hits and lists the pages by class.
    fn learn(&mut self, view: &mut View<'_>) {
        self.residents.finish_moves(view.memory.pages);
        for &page in view.evidence.touched {
            if self.residents.class(view.memory.pages, page).is_none() {
                let class = self.class(view.memory.pages.heat::<CountWord>(page).0, false);
                self.residents.put(view.memory.pages, page, class);
            }
        }
        for hit in view.evidence.hits {
            let (word, hot) =
                self.counts.count(view.memory.pages.heat::<CountWord>(hit.page).0, hit);
            view.memory.pages.set_heat(hit.page, CountWord(word));
            let class = self.class(word, hot);
            if self.residents.class(view.memory.pages, hit.page) != Some(class) {
                self.residents.put(view.memory.pages, hit.page, class);
            }
        }
        if self.cooled != self.counts.clock() {
            self.cooled = self.counts.clock();
            self.review = Review::of(&self.residents, view.machine.tiers, 1..self.classes());
        }
    }

    /// Promotes hot slow pages, longest hot first. False if fast memory holds only hot pages.
    fn pack(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) -> bool {
        for from in (1..=view.machine.tiers.slowest().0).map(TierId) {
            for class in (self.hot_class()..self.classes()).rev() {
                while let Some(page) = self.residents.first(view.memory.pages, from, class) {
                    let word = view.memory.pages.heat::<CountWord>(page).0;
                    if !self.counts.was_hot(word) {
                        self.residents.put(
                            view.memory.pages,
                            page,
                            self.class(word, false).min(class - 1),
                        );
                        continue;
                    }
                    let reason = Reason::Hot { rate_per_sec: self.rate(view, word) };
                    let below = self.hot_class();
                    match self.lift(view, ledger, page, class, TierId::FAST, below, reason, plan) {
                        Ok(_) => {}
                        Err(Shortage::Limit) => {
                            self.residents.start_move(view.memory.pages, page, class)
                        }
                        Err(short) => return short != Shortage::Room,
                    }
                }
            }
        }
        true
    }

    /// Plans one promotion with the demotions it needs, of pages in classes lower than `below`. Returns the
    /// share of accesses and the bytes demoted.
    #[expect(clippy::too_many_arguments, reason = "a plan, its ledger, and one move")]
    fn lift(
        &mut self,
        view: &mut View<'_>,
        ledger: &mut Ledger,
        page: PageIdx,
        class: u8,
        to: TierId,
        below: u8,
        reason: Reason,
        plan: &mut Plan,
    ) -> Result<(f64, Bytes), Shortage> {
        let size = view.memory.pages.locate(page).ok_or(Shortage::Page)?.size;
        let (mut share, mut bytes) = (0.0, Bytes::ZERO);
        let admitted = ledger.admits(view.memory.pages, page, to);
        while admitted && ledger.room(to) < size.bytes() {
            let (victim, victim_class) = self.coldest(view, to, below).ok_or(Shortage::Room)?;
            view.memory.pages.locate(victim).ok_or(Shortage::Page)?;
            let down = ledger.demotion_target(view.memory.pages, victim).ok_or(Shortage::Room)?;
            let word = view.memory.pages.heat::<CountWord>(victim).0;
            let rate_per_sec = self.rate(view, word);
            let reason = Reason::MakeRoom { rate_per_sec };
            bytes += ledger.plan(view.memory.pages, victim, down, reason, plan)?;
            share += self.counts.share(word);
            self.residents.start_move(view.memory.pages, victim, victim_class);
        }
        ledger.plan(view.memory.pages, page, to, reason, plan)?;
        self.residents.start_move(view.memory.pages, page, class);
        Ok((share, bytes))
    }

    /// The oldest page of the lowest class.
    fn coldest(&mut self, view: &mut View<'_>, tier: TierId, below: u8) -> Option<(PageIdx, u8)> {
        for class in 0..below {
            while let Some(page) = self.residents.first(view.memory.pages, tier, class) {
                let now = if self.goal.can_shift() {
                    self.class(view.memory.pages.heat::<CountWord>(page).0, false)
                } else {
                    class
                };
                if now == class {
                    return Some((page, class));
                }
                self.residents.put(view.memory.pages, page, now); // cooled since it was listed
            }
        }
        None
    }

    /// Selects pages that make up a shift, from the highest bin down.
    fn shift(&mut self, view: &mut View<'_>, shift: &Shift, ledger: &mut Ledger, plan: &mut Plan) {
        let mut quota = ShiftQuota::of(shift);
        for class in (0..self.classes()).rev() {
            if shift.up {
                for &from in &shift.below {
                    self.shift_list(view, shift, from, class, &mut quota, ledger, plan);
                }
            } else {
                self.shift_list(view, shift, shift.tier, class, &mut quota, ledger, plan);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a plan, its ledger, and one list")]
    fn shift_list(
        &mut self,
        view: &mut View<'_>,
        shift: &Shift,
        from: TierId,
        class: u8,
        quota: &mut ShiftQuota,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) {
        let mut misfits = 0;
        for _ in 0..self.residents.len(from, class) {
            if quota.is_spent() || misfits > MISFITS {
                return;
            }
            let Some(page) = self.residents.first(view.memory.pages, from, class) else { return };
            let word = view.memory.pages.heat::<CountWord>(page).0;
            let now = self.class(word, false);
            if now != class {
                self.residents.put(view.memory.pages, page, now); // cooled since it was listed
                continue;
            }
            let share = self.counts.share(word);
            let Some(at) = view.memory.pages.locate(page) else { return };
            let bytes = at.size.bytes();
            if !quota.admits(share, bytes) {
                self.residents.put(view.memory.pages, page, class);
                misfits += 1;
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
            let reason = Reason::Balance { rate_per_sec: (share * shift.reads_per_sec) as f32 };
            let planned = if shift.up {
                self.lift(view, ledger, page, class, shift.tier, class, reason, plan)
            } else {
                let to = shift.below.iter().find(|&&to| ledger.room(to) >= bytes);
                let planned = to
                    .ok_or(Shortage::Room)
                    .and_then(|&to| ledger.plan(view.memory.pages, page, to, reason, plan));
                planned.map(|_| {
                    self.residents.start_move(view.memory.pages, page, class);
                    (0.0, Bytes::ZERO)
                })
            };
            let Ok((back, more)) = planned else { return };
            quota.charge(share - back, bytes + more);
        }
    }

    /// Reclassifies hot pages after a cooling, some in every quantum.
    fn cool(&mut self, view: &mut View<'_>) {
        for _ in 0..self.knobs.cooled_per_quantum {
            let Some(page) = self.review.next(&mut self.residents, view.memory.pages) else {
                return;
            };
            let word = view.memory.pages.heat::<CountWord>(page).0;
            let class = self.class(word, self.counts.is_hot(word));
            self.residents.put(view.memory.pages, page, class);
        }
    }

    fn rate(&self, view: &View<'_>, word: u64) -> f32 {
        view.estimated_rate(self.counts.share(word), self.counts.loads(word).into())
    }
}

impl Policy for Hemem {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        self.goal.update(view);
        self.learn(view);
        let Some(passed) = self.quantum.due(view.now, self.knobs.quantum) else { return };
        let mut ledger = Ledger::new(view, in_time(self.knobs.rate, passed), |_| Bytes::ZERO);
        let mut has_cold = true;
        match self.goal.aim(view, passed) {
            Aim::Pack => has_cold = self.pack(view, &mut ledger, plan),
            Aim::Shift(shifts) => {
                for shift in &shifts {
                    self.shift(view, shift, &mut ledger, plan);
                }
            }
        }
        if has_cold || !self.knobs.freeze {
            self.cool(view);
        }
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        let word = memory.pages.heat::<CountWord>(page).0;
        let count = |loads| f32::from(u16::try_from(loads).unwrap_or(u16::MAX));
        let at_least = if self.counts.is_hot(word) { self.counts.knobs.hot_reads } else { 0 };
        let likely = count(self.counts.loads(word));
        HeatEstimate { at_least: count(at_least), likely, at_most: likely }
    }

    fn wants(&self) -> Wants {
        let period = u64::from(self.knobs.period);
        Wants {
            quantum: Some(self.knobs.quantum),
            tracking: Some(Tracking::Samples {
                loads: period,
                stores: Some(period),
                cpu_permille: None,
            }),
            allocation: Some(Allocation::FirstTouch),
            copy_threads: Some(COPY_THREADS),
            own_heat: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        [HememKnobs::table(), counts::CountsKnobs::table(), self.goal.knobs()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
            || self.counts.knobs.set(knob, value)
            || self.goal.set(knob, value)
    }
}
