// SPDX-License-Identifier: Apache-2.0
//! arms: packs the pages with the highest access rates, as many as fit, where the benefit exceeds the cost.
//!
//! What it does: keeps a short and a long average of each sampled page's rate. Every 500 ms, the pages with the
//! highest weighted averages, exactly as many as fit the fastest tier, count as hot. A slow page that was hot
//! for two intervals in a row without a falling score is promoted, highest score first, into free fast memory
//! or in exchange for the coldest page there. It moves only if the stall it saves exceeds the time of the moves
//! plus the stall of the demoted page. Copying uses the bandwidth that the program leaves over. When slow
//! memory gets busier, recent accesses count for more for a while, sampling is twice as dense and decisions
//! come five times as often.
//!
//! When it helps: hot sets of any size and machines of any speed, as there are no absolute thresholds; programs
//! whose working set changes. Pages whose rates differ by noise only stay in place.
//!
//! When it hurts: no headroom is kept for new pages; a scan through slow memory looks like a phase change; a
//! hot set that moves while slow memory is already saturated is not noticed.
//!
//! Knobs: quantum and recent_quantum (500, 100 ms), period and recent_period (10 000, 5 000), short and long (1, 10 s),
//! alpha_form (span), first_rate_whole (0), short_weight and recent_short_weight (0.2, 0.8), rounds (2), slack (1 sample),
//! change_detection, pht_delta, pht_lambda, pht_warm_up (0.01, 0.3, 20), recency (5 s), stable_over and stable_within
//! (10, 5 %), cost_benefit, doubt (2 deviations), loaded (1), stays_hot (10 s), stall_share (1), batch_max (4),
//! adaptive_batch, stores (1).
//!
//! Where it comes from: ARMS (arXiv 2508.04417). Our text of it lacks the listings and constants, so this is
//! ARMS-like: weights follow from the stated horizons; the intervals, sampling periods and two rounds are
//! stated too; all other constants are ours. With more than two tiers, pages are promoted to the fastest and
//! demoted to the nearest with room.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::batch;
use super::parts::benefit::{self, ExchangeCost};
use super::parts::ledger::{Ledger, Shortage, capacity};
use super::parts::quantum::Quantum;
use super::parts::recency::{self, Recency};
use super::parts::top::{Ranked, select_hottest};
use crate::knob::Knob;
use crate::knobs;
use crate::lists::residents::Residents;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Allocation, Reason, Tracking};
use crate::telemetry::bandwidth::BandwidthMeter;
use crate::telemetry::page_hinkley;
use crate::telemetry::rates::{self, PageScore, RateInterval, Rates};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs of the filter and of sampling, without those of the parts.
    pub struct ArmsKnobs {
        /// Intervals in a row among the hottest before a page is promoted.
        rounds: u32 = 2, 1, 100;
        /// Samples by which a score may fall in an interval without counting as falling.
        slack: f64 = 1.0, 0.0, 10.0;
        /// Whether stores are sampled too.
        stores: bool = true, false, true;
    }
}

/// The only class of residents: pages without a known rate.
const UNSEEN: u8 = 0;

/// A slow page that is to be promoted.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    ranked: Ranked,
    hot_for: Nanos,
}

/// The greatest is the hottest.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        Ranked::hotter_first(&other.ranked, &self.ranked)
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

/// The policy.
#[derive(Debug)]
pub struct Arms {
    knobs: ArmsKnobs,
    rates: Rates,
    recency: Recency,
    worth: benefit::BenefitKnobs,
    batch: batch::BatchKnobs,
    meter: BandwidthMeter,
    /// Variance of scores per unit of rate ([`Rates::noise`]).
    noise: f64,
    /// Share of all bandwidth that the program used, at the last decision.
    used: Option<f64>,
    /// Fast pages without a known rate: the coldest.
    residents: Residents,
    quantum: Quantum,
    /// The watch clock at the last decision, the time since it, and whether there were hits.
    watched: Nanos,
    passed: Nanos,
    seen_hits: bool,
    last: Nanos,
    /// A heap, as only the hottest are taken of the many that fit.
    candidates: BinaryHeap<Candidate>,
    /// Fast pages that are not hot, coldest first.
    victims: VecDeque<Ranked>,
    scored: Vec<PageScore>,
    ranking: Vec<Ranked>,
}

impl Default for Arms {
    fn default() -> Self {
        Self {
            knobs: ArmsKnobs::default(),
            rates: Rates::default(),
            recency: Recency::default(),
            worth: benefit::BenefitKnobs::default(),
            batch: batch::BatchKnobs::default(),
            meter: BandwidthMeter::default(),
            noise: 0.0,
            used: None,
            residents: Residents::new(1),
            quantum: Quantum::default(),
            watched: Nanos::ZERO,
            passed: Nanos::ZERO,
            seen_hits: false,
            last: Nanos::ZERO,
            candidates: BinaryHeap::new(),
            victims: VecDeque::new(),
            scored: Vec::new(),
            ranking: Vec::new(),
        }
    }
}

impl Arms {
    /// Takes in the evidence.
    fn learn(&mut self, view: &mut View<'_>) {
        let moved = view.orders.counters.promoted() + view.orders.counters.demoted();
        self.meter.add(view.now, moved, view.machine.telemetry, view.evidence.hits);
        self.seen_hits |= !view.evidence.hits.is_empty();
        self.residents.finish_moves(view.memory.pages);
        for hit in view.evidence.hits {
            self.rates.count(view.memory.pages, hit, self.recency.quantum());
        }
        for &page in view.evidence.touched {
            let listed = view.memory.pages.state(page).is_listed();
            if self.rates.has_entry(view.memory.pages, page) {
                if listed {
                    self.residents.remove(view.memory.pages, page);
                }
            } else if self.residents.class(view.memory.pages, page).is_none() {
                self.residents.put(view.memory.pages, page, UNSEEN);
            }
        }
    }

    /// Ends an interval: updates averages, mode, hot pages and candidates.
    fn decide(&mut self, view: &mut View<'_>, passed: Nanos) {
        self.passed += passed;
        let clock = view.memory.hotness.watched();
        if clock == self.watched && !self.seen_hits {
            return; // nothing was watched: no evidence
        }
        let watched = clock.saturating_sub(std::mem::replace(&mut self.watched, clock));
        self.seen_hits = false;
        let used = self.meter.read(view.machine.tiers, watched);
        self.used = used.all;
        if let Some(slow) = used.slow {
            self.recency.update(view.now, slow);
        }
        let interval = RateInterval {
            length: std::mem::take(&mut self.passed),
            // A tracker without a watch clock knows the exposure of each page that was hit.
            watched: if watched > Nanos::ZERO { watched } else { self.recency.quantum() },
            steady: self.recency.knobs.quantum,
            short_weight: self.recency.short_weight(),
        };
        let Self { rates, residents, scored, .. } = self;
        scored.clear();
        rates.end_interval(view.memory.pages, &interval, scored, |pages, page| {
            residents.put(pages, page, UNSEEN);
        });
        self.noise = rates.noise(&interval);
        self.rank(view, &interval);
    }

    /// Finds the hottest pages that fit, and among them the candidates.
    fn rank(&mut self, view: &View<'_>, interval: &RateInterval) {
        let Self { rates, ranking, scored, candidates, victims, .. } = self;
        let slack = rates.score_per_hit(interval) * 1.0001;
        ranking.clear();
        ranking.extend((0u32..).zip(scored.iter()).filter_map(|(tag, scored)| {
            let known = rates.at(scored.at);
            let state = view.memory.pages.state(known.page);
            let (page, size, rate) = (known.page, known.size, scored.score);
            let resident = state.tier()? == TierId::FAST;
            let ranked = Ranked { rate, page, size, resident, tag };
            (resident || !state.is_refused()).then_some(ranked)
        }));
        let hot = select_hottest(ranking, capacity(view, TierId::FAST));
        let mut rising = std::mem::take(candidates).into_vec();
        rising.clear();
        victims.clear();
        for (at, ranked) in ranking.iter().enumerate() {
            let scored = scored[ranked.tag as usize];
            let known = rates.at(scored.at);
            #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
            let falls = scored.change < -slack * self.knobs.slack as f32;
            known.update(at < hot, falls, interval.length);
            let stayed = u32::from(known.risen_rounds) >= self.knobs.rounds;
            if ranked.resident && at >= hot {
                victims.push_back(*ranked);
            } else if !ranked.resident && stayed {
                rising.push(Candidate { ranked: *ranked, hot_for: known.hot_for() });
            }
        }
        if rising.is_empty() {
            victims.clear();
        }
        *candidates = rising.into();
        victims.make_contiguous().sort_unstable_by(|a, b| Ranked::hotter_first(b, a));
    }

    /// Promotes candidates, hottest first, within this tick's batch and while it pays.
    fn work(&mut self, view: &mut View<'_>, since: Nanos, plan: &mut Plan) {
        let Some(first) = self.candidates.peek() else { return };
        let batch = self.batch.bytes(view, self.used, since, first.ranked.size);
        let mut ledger = Ledger::new(view, batch, |_| Bytes::ZERO);
        while let Some(candidate) = self.candidates.pop() {
            match self.exchange(view, &candidate, &mut ledger, plan) {
                Ok(()) | Err(Shortage::Page | Shortage::Limit) => {}
                Err(Shortage::Budget) => {
                    self.candidates.push(candidate); // retried in the next tick
                    return;
                }
                // Colder candidates against hotter victims pay even less.
                Err(Shortage::Room) => self.candidates.clear(),
            }
        }
    }

    /// Plans a promotion with the demotions it needs, if that pays.
    fn exchange(
        &mut self,
        view: &mut View<'_>,
        candidate: &Candidate,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Result<(), Shortage> {
        let Ranked { page, rate, size, .. } = candidate.ranked;
        view.memory.pages.locate(page).ok_or(Shortage::Page)?;
        let from = view.memory.pages.state(page).tier().filter(|&tier| tier > TierId::FAST);
        let gain = self.gain(view, from.ok_or(Shortage::Page)?);
        let mut exchange = ExchangeCost::new(self.worth, self.noise, rate, candidate.hot_for, gain);
        exchange.add_move(view.move_time(size, true));
        let (mut down, mut room) = (Vec::new(), ledger.room(TierId::FAST));
        if !ledger.admits(view.memory.pages, page, TierId::FAST) {
            room = size.bytes(); // over its limit: exchanged for a page of the same tenant, if any
        }
        while room < size.bytes()
            && exchange.pays()
            && let Some(victim) = self.coldest(view)
        {
            exchange.add_demotion(victim.rate, view.move_time(victim.size, false));
            room += victim.size.bytes();
            down.push(victim);
        }
        let planned = match room >= size.bytes() && exchange.pays() {
            true => self.plan_down(view, &mut down, ledger, plan),
            false => Err(Shortage::Room),
        };
        down.into_iter().rev().for_each(|victim| self.give_back(view, victim));
        planned?;
        let reason = Reason::Hot { rate_per_sec: rate };
        ledger.plan(view.memory.pages, page, TierId::FAST, reason, plan).map(|_| ())
    }

    /// By how much an access is faster in the fastest tier: as measured, but at least the unloaded difference.
    fn gain(&self, view: &View<'_>, slow: TierId) -> Nanos {
        let unloaded = view.machine.tiers.latency_gain(slow, TierId::FAST);
        let latency = |tier: TierId| view.machine.telemetry.tiers.get(tier.index())?.latency;
        match (latency(slow), latency(TierId::FAST)) {
            (Some(slow), Some(fast)) if self.worth.loaded => {
                unloaded.max(slow.saturating_sub(fast))
            }
            _ => unloaded,
        }
    }

    /// Plans demotions; those that could not be planned stay in `down`.
    fn plan_down(
        &mut self,
        view: &mut View<'_>,
        down: &mut Vec<Ranked>,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Result<(), Shortage> {
        while let Some(&victim) = down.last() {
            let to =
                ledger.demotion_target(view.memory.pages, victim.page).ok_or(Shortage::Room)?;
            let reason = Reason::MakeRoom { rate_per_sec: victim.rate };
            match ledger.plan(view.memory.pages, victim.page, to, reason, plan) {
                Err(Shortage::Budget) => return Err(Shortage::Budget),
                Err(_) => {} // unmapped since it was ranked
                Ok(_) if self.rates.has_entry(view.memory.pages, victim.page) => {}
                Ok(_) => self.residents.start_move(view.memory.pages, victim.page, UNSEEN),
            }
            down.pop();
        }
        Ok(())
    }

    /// Takes out the coldest page of the fastest tier: one never sampled, or the coldest that is not hot.
    fn coldest(&mut self, view: &mut View<'_>) -> Option<Ranked> {
        while let Some(page) = self.residents.first(view.memory.pages, TierId::FAST, UNSEEN) {
            self.residents.remove(view.memory.pages, page);
            if let Some(at) = view.memory.pages.locate(page) {
                return Some(Ranked { rate: 0.0, page, size: at.size, resident: true, tag: 0 });
            }
        }
        self.victims.pop_front()
    }

    fn give_back(&mut self, view: &mut View<'_>, victim: Ranked) {
        if self.rates.has_entry(view.memory.pages, victim.page) {
            self.victims.push_front(victim);
        } else {
            self.residents.put_first(view.memory.pages, victim.page, UNSEEN);
        }
    }
}

impl Policy for Arms {
    fn name(&self) -> &'static str {
        "arms"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        let since = view.now.saturating_sub(std::mem::replace(&mut self.last, view.now));
        self.learn(view);
        if let Some(passed) = self.quantum.due(view.now, self.recency.quantum()) {
            self.decide(view, passed);
        }
        self.work(view, since, plan);
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        HeatEstimate::exactly(self.rates.rate_of(memory.pages, page))
    }

    fn wants(&self) -> Wants {
        let period = self.recency.period();
        let stores = self.knobs.stores.then_some(period);
        Wants {
            quantum: Some(self.recency.quantum()),
            tracking: Some(Tracking::Samples { loads: period, stores, cpu_permille: None }),
            allocation: Some(Allocation::FirstTouch),
            copy_threads: Some(self.batch.batch_max),
            own_heat: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        [
            ArmsKnobs::table(),
            rates::RatesKnobs::table(),
            recency::RecencyKnobs::table(),
            page_hinkley::PageHinkleyKnobs::table(),
            benefit::BenefitKnobs::table(),
            batch::BatchKnobs::table(),
        ]
        .concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
            || self.rates.knobs.set(knob, value)
            || self.recency.knobs.set(knob, value)
            || self.recency.test.knobs.set(knob, value)
            || self.worth.set(knob, value)
            || self.batch.set(knob, value)
    }
}
