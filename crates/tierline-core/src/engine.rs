// SPDX-License-Identifier: Apache-2.0
//! The whole journey: look, believe, decide, act. One `tick` is one trip round.

use crate::event::{Event, Fingerprint};
use crate::migrator::{Migrator, Scene};
use crate::page::{FETCHED, PageIdx, PageTable};
use crate::policy::kernel::Kernel;
use crate::policy::view::View;
use crate::policy::{Policy, Wants};
use crate::port::{Attention, Move, Observations, Telemetry, World};
use crate::qos::Limits;
use crate::telemetry::Hit;
use crate::telemetry::calm::{Calm, SlowHits};
use crate::telemetry::hotness::Hotness;
use crate::telemetry::stretches::StretchHeat;
use crate::tier::{TierId, Tiers};
use crate::tracker::questions::Questions;
use crate::unit::{BytesPerSec, Nanos};

/// Samples for which there is always room, 160 KiB. Ours.
const KEPT: usize = 4096;

/// The pipeline with all it knows.
pub struct Engine {
    tiers: Tiers,
    limits: Limits,
    policy: Box<dyn Policy>,
    wants: Wants,
    migrator: Migrator,
    pages: PageTable,
    hotness: Hotness,
    stretches: StretchHeat,
    calm: Calm,
    attention: Attention,
    /// The plan used up the budget: there may be more to move.
    backlog: bool,
    fingerprint: Fingerprint,
    last_tick: Nanos,
    samples: u64,
    lost: u64,
    telemetry: Telemetry,
    seen: Observations,
    /// The pages of a few samples.
    found: Vec<PageIdx>,
    touched: Vec<PageIdx>,
    hits: Vec<Hit>,
    /// Hits by tier since the last tick.
    hits_in: [f64; TierId::MAX],
    /// The time in which they were seen; zero where nobody watched.
    watched: Nanos,
    questions: Questions,
    plan: Vec<Move>,
    page_out: Vec<PageIdx>,
    split: Vec<PageIdx>,
    events: Vec<Event>,
}

impl Engine {
    /// An engine for a machine, that moves at most `rate`.
    pub fn new(tiers: Tiers, limits: Limits, policy: Box<dyn Policy>, rate: BytesPerSec) -> Self {
        Self {
            tiers,
            limits,
            wants: policy.wants(),
            policy,
            migrator: Migrator::new(rate),
            pages: PageTable::default(),
            hotness: Hotness::default(),
            stretches: StretchHeat::default(),
            calm: Calm::default(),
            attention: Attention::default(),
            backlog: false,
            fingerprint: Fingerprint::default(),
            last_tick: Nanos::ZERO,
            samples: 0,
            lost: 0,
            telemetry: Telemetry::default(),
            seen: Observations::default(),
            found: Vec::new(),
            touched: Vec::new(),
            hits: Vec::new(),
            hits_in: [0.0; TierId::MAX],
            watched: Nanos::ZERO,
            questions: Questions::default(),
            plan: Vec::new(),
            page_out: Vec::new(),
            split: Vec::new(),
            events: Vec::new(),
        }
    }

    /// One trip round. Returns what happened.
    pub fn tick(&mut self, now: Nanos, world: &mut dyn World) -> &[Event] {
        self.seen.clear();
        self.touched.clear();
        self.hits.clear();
        self.hits_in = [0.0; TierId::MAX];
        self.plan.clear();
        self.events.clear();

        world.observe(now, &mut self.seen);
        let slow_hits = self.believe(now);
        self.telemetry = world.measure(now);
        self.questions.put(now, &self.pages, world);
        self.decide(now);
        self.rewatch(world);
        let Self { pages, migrator, events, .. } = self;
        let mut scene = Scene { now, pages, world, events };
        migrator.carry_out(&self.plan, &self.telemetry, &mut scene);
        migrator.page_out(self.page_out.drain(..), &mut scene);
        migrator.split(self.split.drain(..), &mut scene);
        self.attend(now, slow_hits, world);

        for event in &self.events {
            self.fingerprint.add(event);
        }
        self.last_tick = now;
        &self.events
    }

    /// Books what was seen. Returns the slow tiers' hits per second of watching, where any was done.
    fn believe(&mut self, now: Nanos) -> Option<SlowHits> {
        for &event in &self.seen.spaces {
            self.pages.apply(event);
        }
        let Self { pages, hotness, stretches, found, touched, hits, hits_in, seen, .. } = self;
        let (shared, within) = (!self.wants.own_heat, self.wants.within);
        if let Some(memory) = seen.memory {
            hotness.remember(memory);
        }
        if let Some(window) = seen.window {
            hotness.look_for(window, seen.aggregation.unwrap_or(window));
        }
        if let Some(sample) = seen.samples.first() {
            hotness.time(sample.exposure.is_some());
        }
        let slowest = self.tiers.slowest();
        for at in &seen.residence {
            let before = touched.len();
            pages.for_each(at.space, at.vpn, at.base_pages, |page| touched.push(page));
            for &page in &touched[before..] {
                place(pages, hotness, shared, page, at.tier);
            }
            if at.tier == slowest && !self.wants.pages_out {
                touched.truncate(before); // being in slow memory is no news for a policy
            }
        }
        let unseen = hotness.newborn();
        hotness.advance(seen.watched);
        if !seen.stretches.is_empty() {
            let look = seen.window.unwrap_or(seen.watched);
            let looks = (seen.watched.as_secs_f64() / look.as_secs_f64()).max(1.0);
            stretches.tell(&seen.stretches, looks, unseen, hotness);
            stretches.sample(&seen.stretches, looks, pages, &mut seen.samples);
        }
        for known in seen.rates.iter().filter(|_| shared) {
            let before = touched.len();
            pages.for_each(known.space, known.vpn, known.base_pages, |page| touched.push(page));
            for &page in &touched[before..] {
                pages.set_heat(page, hotness.known(known.rate_per_sec));
            }
        }
        let (mut slow_hits, mut all_hits) = (0u32, 0u32);
        for samples in seen.samples.chunks(FETCHED) {
            let mut end = [0; FETCHED];
            for (end, sample) in end.iter_mut().zip(samples) {
                pages
                    .for_each(sample.space, sample.vpn, sample.base_pages, |page| found.push(page));
                *end = found.len();
            }
            pages.fetch(found.iter().copied());
            self.samples += found.len() as u64;
            let mut from = 0;
            for (end, sample) in end.into_iter().zip(samples) {
                let renewal = hotness.renewal(sample.hits, sample.exposure);
                for &page in &found[std::mem::replace(&mut from, end)..end] {
                    if let Some(tier) = sample.tier {
                        place(pages, hotness, shared, page, tier);
                    }
                    let state = if shared {
                        let state = pages.renew_heat(page, |heat| renewal.of(heat));
                        if within && sample.base_pages == 1 && pages.is_huge(page) {
                            hits.push(Hit::of(page, state.tier(), sample));
                        }
                        state
                    } else {
                        let state = pages.state(page);
                        hits.push(Hit::of(page, state.tier(), sample));
                        state
                    };
                    if !shared || !state.is_held() {
                        touched.push(page);
                    }
                    if let Some(tier) = state.tier() {
                        hits_in[tier.index()] += f64::from(sample.hits);
                        slow_hits += u32::from(tier > TierId::FAST);
                        all_hits += 1;
                    }
                }
            }
            found.clear();
        }
        self.lost += seen.lost;
        self.watched = Nanos::ZERO;
        if let Some(per_sec) = seen.slow_hits_per_sec {
            return Some(SlowHits { per_sec, counts: [0.0; 2], projected: true });
        }
        // A tracker without a watch clock watches all the time, in its own way.
        let watched = if seen.watched > Nanos::ZERO {
            seen.watched
        } else {
            now.saturating_sub(self.last_tick)
        };
        let watching = watched > Nanos::ZERO && !seen.samples.is_empty();
        self.watched = if watching { watched } else { Nanos::ZERO };
        let per_sec = f64::from(slow_hits) / watched.as_secs_f64();
        let counts = [f64::from(slow_hits), f64::from(all_hits - slow_hits)];
        watching.then_some(SlowHits { per_sec, counts, projected: false })
    }

    fn decide(&mut self, now: Nanos) {
        let budget = self.migrator.budget(now);
        let mut view = View {
            now,
            pages: &mut self.pages,
            hotness: &self.hotness,
            stretch_heat: &self.stretches,
            tiers: &self.tiers,
            telemetry: &self.telemetry,
            limits: &self.limits,
            budget,
            move_costs: self.migrator.costs.each(),
            move_latency: self.migrator.costs.latency(),
            touched: &self.touched,
            hits: &self.hits,
            hits_in: &self.hits_in,
            watched: self.watched,
            fast_unseen: self.seen.fast_unseen,
            truth: &self.seen.rates,
            stretches: &self.seen.stretches,
            answers: &self.questions.answers,
            ask: &mut self.questions.asked,
            page_out: &mut self.page_out,
            split: &mut self.split,
            counters: &mut self.migrator.counts.tiering,
        };
        self.policy.plan(&mut view, &mut self.plan);
        let planned: u64 = self.plan.iter().map(|m| m.size.bytes().0).sum();
        self.backlog = planned > budget.0 / 4 * 3;
    }

    /// Tells the world of a wish that has changed.
    fn rewatch(&mut self, world: &mut dyn World) {
        let wants = self.policy.wants();
        if wants.watch != self.wants.watch
            && let Some(watch) = wants.watch
        {
            world.watch(watch);
        }
        self.wants = wants;
    }

    fn attend(&mut self, now: Nanos, slow_hits: Option<SlowHits>, world: &mut dyn World) {
        let (moves, pages) = (self.plan.len() as u64, self.pages.base_pages());
        let mut attention = self.calm.update(now, slow_hits, moves, pages);
        if attention == Attention::Alert && self.backlog {
            attention = Attention::Moving;
        }
        self.hotness.hurry(attention != Attention::Calm);
        if self.calm.changed() {
            self.hotness.change();
        }
        if attention != self.attention {
            self.attention = attention;
            self.events.push(Event::Attend { at: now, attention });
            world.attend(attention);
        }
        if attention == Attention::Calm && self.seen.samples.capacity() > KEPT {
            self.let_go();
        }
    }

    /// Frees what a look at everything needed room for: the next one is far off.
    fn let_go(&mut self) {
        self.seen = Observations::default();
        self.found = Vec::new();
        self.touched = Vec::new();
        self.hits = Vec::new();
        self.plan = Vec::new();
    }

    /// The managed pages.
    pub fn pages(&self) -> &PageTable {
        &self.pages
    }

    /// How to read their heat.
    pub fn hotness(&self) -> &Hotness {
        &self.hotness
    }

    /// What became of moves.
    pub fn migrator(&self) -> &Migrator {
        &self.migrator
    }

    /// The machine.
    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// The policy's name.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// The kernel's settings, where the policy leaves moving to it.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.policy.kernel()
    }

    /// How its policy wants to be served.
    pub fn wants(&self) -> Wants {
        self.wants
    }

    /// What was measured in the last tick.
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// How closely trackers look now.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// The hash of all events so far.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Samples taken in, a page each, and samples that trackers lost.
    pub fn samples(&self) -> (u64, u64) {
        (self.samples, self.lost)
    }
}

/// Notes where a page lives; one that was never placed before starts being watched now.
fn place(pages: &mut PageTable, hotness: &Hotness, shared: bool, page: PageIdx, tier: TierId) {
    let state = pages.state(page);
    if state.tier() == Some(tier) {
        return;
    }
    if state.tier().is_none() && shared {
        pages.set_heat(page, hotness.newborn());
    }
    if let Some(at) = pages.locate(page) {
        pages.set_tier(page, at.size, tier);
    }
}
