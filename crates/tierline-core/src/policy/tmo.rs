// SPDX-License-Identifier: Apache-2.0
//! tmo: moves the coldest pages down a tier, and pages out from the slowest, as long as that costs almost
//! nothing.
//!
//! What it does: runs above any policy. Every six seconds it reads which share of their time the programs lost
//! to memory outside the fastest tier. While that is below a threshold, it moves a small part of the memory
//! above the slowest tier down to it: 0.05 %, less near the threshold, nothing beyond. It pages out the same
//! part of the slowest tier while the time lost to paged-out memory is below the threshold. It takes pages by
//! idle time: for each of the two ways a clock hand visits all pages and checks whether each was accessed
//! within a time, which grows while enough pages are found and shrinks otherwise. A page that the tracker saw accessed
//! more than once of late, or covered by few scans, is not taken. The policy below promotes pages that were
//! moved down wrongly.
//!
//! When it helps: programs that keep memory they do not use, as it becomes available to others.
//!
//! When it hurts: it is slow on purpose, too slow if memory is needed quickly. Pressure shows that too much was
//! taken, not which pages. Without a measurement of pressure it does nothing. Above `paging`, the kernel
//! without tiering, nothing is demoted: pages of all tiers are paged out.
//!
//! Knobs: tmo_interval (6 s), tmo_ratio (0.0005), stall_threshold (0.001), swap (0).
//!
//! Where it comes from: TMO (ASPLOS 2022), section 3.3, whose reclaimer writes memory.reclaim and whose
//! pressure counts pages that must be read back; with TPP below it, demotion comes before paging out (TPP,
//! section 6.3.2). Ours: the longer loads from slower tiers count as pressure against demotion, the clock
//! hands (the kernel has its lists), and the use of the tracker.

use std::collections::BTreeSet;

use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::ledger::Ledger;
use super::parts::quantum::Quantum;
use crate::knob::Knob;
use crate::knobs;
use crate::page::{PageIdx, PageTable};
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Capability, PageKind, Reason, SpaceId, Vpn};
use crate::telemetry::estimate::Estimate;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs, without those of the policy below.
    pub struct TmoKnobs {
        /// Time between two probes.
        tmo_interval: Nanos = Nanos::from_secs(6), Nanos::from_millis(100), Nanos::from_secs(600);
        /// Share of the memory above the slowest tier, and of the memory in it, taken per probe without pressure.
        tmo_ratio: f64 = 0.0005, 0.0001, 0.1;
        /// Share of the programs' time lost at which nothing is taken.
        stall_threshold: f64 = 0.001, 0.0001, 0.5;
        /// There is swap: private and shared memory is paged out too, not only files.
        swap: bool = false, false, true;
    }
}

/// Pages that a hand checks per tick, at most.
const CHECKS: usize = 1 << 12;
/// A page with more hits than this in the tracker's memory is not idle, whatever its accessed bit shows: trackers
/// that clear accessed bits take them away from the question. One, and not zero, as every page is accessed when it
/// is filled. For policies below that use the shared heat. Ours.
const ONE_HIT: f32 = 1.0;
/// A page that fewer scans covered is not known to be idle: in a window of a millisecond a hot page may not be
/// accessed. As many as are remembered when something has changed. Ours.
const ENOUGH_SCANS: f32 = 8.0;
/// Idle time after which a page is taken: initial, least and greatest.
const IDLE: [Nanos; 3] = [Nanos::from_secs(60), Nanos::from_millis(1), Nanos::from_secs(3600)];

/// The reclaimer above a policy.
pub struct Tmo {
    name: &'static str,
    knobs: TmoKnobs,
    below: Box<dyn Policy>,
    /// Pages are demoted before they are paged out.
    demotes: bool,
    probe: Quantum,
    last: Option<Nanos>,
    /// Demotion to the slowest tier.
    down: Way,
    /// Paging out of the slowest tier.
    out: Way,
    /// Pages that it checks itself.
    asked: Vec<PageIdx>,
    /// Pages to be paged out in this probe.
    leaving: Vec<PageIdx>,
}

/// One of the two ways of taking pages.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Time lost, and time measured, since the last probe.
    stalled: [f64; 2],
    /// Bytes still to be taken in this probe.
    left: Bytes,
    hand: PageCursor,
}

/// A clock hand over all pages.
#[derive(Clone, Copy, Debug)]
struct PageCursor {
    at: usize,
    idle: Nanos,
    /// Pages visited since `idle` changed.
    passed: usize,
}

impl Tmo {
    /// The reclaimer above a policy, under one name for both.
    pub fn over(name: &'static str, below: Box<dyn Policy>) -> Self {
        let hand = PageCursor { at: 0, idle: IDLE[0], passed: 0 };
        let way = Way { stalled: [0.0; 2], left: Bytes::ZERO, hand };
        Self {
            name,
            knobs: TmoKnobs::default(),
            below,
            demotes: true,
            probe: Quantum::default(),
            last: None,
            down: way,
            out: way,
            asked: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// The reclaimer above a kernel without tiering: it pages out of all tiers.
    pub fn over_paging(name: &'static str, below: Box<dyn Policy>) -> Self {
        Self { demotes: false, ..Self::over(name, below) }
    }

    /// Whether pages taken from a tier are paged out rather than demoted.
    fn goes_out(&self, tier: TierId, slowest: TierId) -> bool {
        !self.demotes || tier == slowest
    }

    /// Sums up pressure; at a probe, sets how much to take.
    fn update(&mut self, view: &View<'_>) {
        let passed = view.now.saturating_sub(self.last.replace(view.now).unwrap_or(view.now));
        self.down.update(view.machine.telemetry.stall, passed);
        self.out.update(view.machine.telemetry.page_in_stall, passed);
        if self.probe.due(view.now, self.knobs.tmo_interval).is_none() {
            return;
        }
        self.leaving.clear();
        let slowest = view.machine.tiers.slowest();
        let tiers = (0..=slowest.0).map(TierId);
        let (out, down): (Vec<_>, Vec<_>) = tiers.partition(|&tier| self.goes_out(tier, slowest));
        let bytes = |tiers: Vec<TierId>| {
            tiers.into_iter().map(|tier| view.memory.pages.bytes_in(tier)).sum()
        };
        self.down.begin(bytes(down), &self.knobs);
        self.out.begin(bytes(out), &self.knobs);
    }

    /// Requests again the page-outs that did not fit into earlier ticks.
    fn leave(&mut self, view: &mut View<'_>) {
        self.leaving.retain(|&page| view.memory.pages.state(page).tier().is_some());
        view.orders.page_out.extend(&self.leaving);
    }

    /// Takes checked pages that were not accessed and have no planned order.
    fn take(&mut self, view: &mut View<'_>, answers: &[(PageIdx, Option<bool>)], plan: &mut Plan) {
        let moving: BTreeSet<(SpaceId, Vpn)> = plan.iter().map(|m| (m.space, m.vpn)).collect();
        let leaving: BTreeSet<PageIdx> = view.orders.page_out.iter().copied().collect();
        let planned: Bytes = plan.iter().map(|m| m.size.bytes()).sum();
        let budget = view.machine.budget.saturating_sub(planned);
        let mut ledger = Ledger::new(view, budget, |_| Bytes::ZERO);
        let slowest = view.machine.tiers.slowest();
        let is_shared = !self.below.wants().own_heat;
        for &(page, _) in answers.iter().filter(|(_, accessed)| *accessed == Some(false)) {
            if is_shared && !is_idle(view.memory.estimate(page)) {
                continue;
            }
            let Some(at) = view.memory.pages.locate(page) else { continue };
            if moving.contains(&(at.space, at.vpn)) || leaving.contains(&page) {
                continue;
            }
            let tier = view.memory.pages.state(page).tier();
            let goes_out = tier.is_some_and(|tier| self.goes_out(tier, slowest));
            let way = if goes_out { &mut self.out } else { &mut self.down };
            if way.left == Bytes::ZERO {
                continue;
            }
            let taken = match goes_out {
                true => {
                    view.orders.page_out.push(page);
                    self.leaving.push(page);
                    Ok(at.size.bytes())
                }
                false => {
                    let reason = Reason::Headroom { rate_per_sec: 0.0 }; // not accessed
                    ledger.plan(view.memory.pages, page, slowest, reason, plan)
                }
            };
            way.left = way.left.saturating_sub(taken.unwrap_or_default());
        }
    }

    /// Checks the next pages for both ways.
    fn ask(&mut self, view: &mut View<'_>) {
        let (slowest, swap, demotes) =
            (view.machine.tiers.slowest(), self.knobs.swap, self.demotes);
        self.asked.clear();
        for (way, is_out) in [(&mut self.down, false), (&mut self.out, true)] {
            if way.left == Bytes::ZERO {
                continue;
            }
            let from = self.asked.len();
            let pages = &*view.memory.pages;
            let is_file = |page| pages.locate(page).is_some_and(|at| at.kind == PageKind::File);
            let eligible = |page| match !demotes || pages.state(page).tier() == Some(slowest) {
                true => is_out && (swap || is_file(page)),
                false => !is_out,
            };
            way.hand.next(pages, eligible, &mut self.asked);
            let idle = way.hand.idle;
            view.orders.questions.extend(self.asked[from..].iter().map(|&page| (page, idle)));
        }
    }
}

/// Whether the tracker knows a page well enough and saw it accessed at most once, when it was filled.
fn is_idle(seen: Estimate) -> bool {
    seen.hits <= ONE_HIT && seen.scans().is_none_or(|scans| scans.round() >= ENOUGH_SCANS)
}

impl Way {
    fn update(&mut self, stall: Option<f64>, passed: Nanos) {
        if let Some(stall) = stall {
            self.stalled[0] += stall * passed.as_secs_f64();
            self.stalled[1] += passed.as_secs_f64();
        }
    }

    /// A probe begins.
    fn begin(&mut self, memory: Bytes, knobs: &TmoKnobs) {
        if self.left == Bytes::ZERO {
            self.hand.wait(self.hand.idle * 2); // enough pages were found
        }
        let [lost, measured] = std::mem::take(&mut self.stalled);
        self.left = match measured > 0.0 {
            true => knobs.reclaim(memory, lost / measured),
            false => Bytes::ZERO,
        };
    }
}

impl TmoKnobs {
    /// Bytes to take of `memory` under this pressure: memory · ratio · (1 − stall/threshold).
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a small part of one machine's memory"
    )]
    fn reclaim(&self, memory: Bytes, stall: f64) -> Bytes {
        let calm = (1.0 - stall / self.stall_threshold.max(f64::MIN_POSITIVE)).max(0.0);
        Bytes((memory.0 as f64 * self.tmo_ratio * calm) as u64)
    }
}

impl PageCursor {
    fn wait(&mut self, idle: Nanos) {
        (self.idle, self.passed) = (idle.clamp(IDLE[1], IDLE[2]), 0);
    }

    /// Advances to the next eligible pages. After a full round with too few pages, halves the idle time.
    fn next(
        &mut self,
        pages: &PageTable,
        eligible: impl Fn(PageIdx) -> bool,
        out: &mut Vec<PageIdx>,
    ) {
        let all = pages.indices();
        for _ in 0..CHECKS.min(all) {
            if self.passed >= all {
                self.wait(Nanos(self.idle.0 / 2));
            }
            self.passed += 1;
            self.at = if self.at + 1 < all { self.at + 1 } else { 0 };
            let page = PageIdx::from_index(self.at);
            let state = pages.state(page);
            if state.tier().is_some() && !state.is_refused() && eligible(page) {
                out.push(page);
            }
        }
    }
}

/// The index at which the answers to `last_asked` begin. Pages that are gone got no answer.
fn split(answers: &[(PageIdx, Option<bool>)], last_asked: &[PageIdx]) -> usize {
    let mut at = answers.len();
    for page in last_asked.iter().rev() {
        if at > 0 && answers[at - 1].0 == *page {
            at -= 1;
        }
    }
    at
}

impl Policy for Tmo {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        let answers = view.evidence.answers;
        let (for_below, own) = answers.split_at(split(answers, &self.asked));
        view.evidence.answers = for_below;
        self.below.plan(view, plan);
        self.update(view);
        self.leave(view);
        self.take(view, own, plan);
        self.ask(view);
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        self.below.heat(memory, page)
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::PageOut, Capability::Answers]
    }

    fn wants(&self) -> Wants {
        Wants { pages_out: true, ..self.below.wants() }
    }

    fn knobs(&self) -> Vec<Knob> {
        [self.below.knobs(), TmoKnobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.below.set(knob, value) || self.knobs.set(knob, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PageSize;
    use crate::telemetry::heat::Heat;
    use crate::telemetry::hotness::Hotness;

    /// By hand: 0.05 % of 10 GB are 5 MB; at half the threshold half of that; nothing at or above the
    /// threshold.
    #[test]
    fn it_takes_less_the_nearer_the_threshold_is() {
        let memory = Bytes(10_000_000_000);
        let reclaim = |stall| TmoKnobs::default().reclaim(memory, stall).0;
        let pushed = [0.0, 0.0005, 0.00075, 0.001, 0.5].map(reclaim);
        assert_eq!(pushed, [5_000_000, 2_500_000, 1_250_000, 0, 0]);
    }

    /// In windows of a millisecond the tracker finds a hot page in every other scan: a few scans do not show that it is idle.
    #[test]
    fn a_page_that_few_scans_covered_is_not_idle() {
        let window = Nanos::from_millis(1);
        let mut hotness = Hotness::default();
        hotness.set_remembered_time(window * 16);
        hotness.set_windows(window, window, window);
        let mut filled = hotness.new_page();
        let mut idle_after = |hits: u32, scans: u64| {
            for _ in 0..hits {
                filled = hotness.hit_update(PageSize::Base).apply(filled, 1.0, None, true);
            }
            hotness.advance(window * scans);
            is_idle(hotness.estimate(filled, PageSize::Base))
        };
        assert_eq!([idle_after(1, 3), idle_after(0, 5)], [false, true]);
        assert!(!idle_after(1, 1), "accessed twice");
        assert!(is_idle(Hotness::default().estimate(Heat::default(), PageSize::Base)), "samples");
    }

    #[test]
    fn answers_are_split_correctly_although_pages_are_gone() {
        let page = PageIdx::from_index;
        let answer = |at| (page(at), Some(true));
        let answers = [answer(1), answer(2), answer(7), answer(9)];
        assert_eq!(split(&answers, &[page(7), page(8), page(9)]), 2);
        assert_eq!(split(&answers, &[]), 4);
        assert_eq!(split(&answers[..2], &[page(7)]), 2);
    }
}
