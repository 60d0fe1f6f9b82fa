// SPDX-License-Identifier: Apache-2.0
//! A running program: where its pages are, and its progress. A program's memory of another kind is a separate
//! job, led by the program's job.

use std::collections::VecDeque;

use tierline_core::port::{
    Observations, PageSize, Region, Residence, SpaceEvent, SpaceId, TenantId, Vpn,
};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use super::bound::Part;
use super::frames::Frames;
use super::traffic::Traffic;
use crate::arithmetic::exponential;
use crate::due::{DueQueue, whole};
use crate::load::{Class, LINE_BYTES, Loads, Network, PerTier, solve};
use crate::machine::{Cores, Machine, nanos};
use crate::workload::pattern::{Census, Pattern};
use crate::workload::places::{NOWHERE, Places};
use crate::workload::program::{Change, Placement, Program, pages_of};
use crate::workload::replay::Player;

/// Stalls take at most this share of a quantum of a program's time; the rest is carried over.
const MAX_STALLED: f64 = 0.95;

/// A program with its pages.
#[derive(Debug)]
pub struct Job {
    /// Its address space; memory starts at page 0.
    pub space: SpaceId,
    /// The space of the program to which this memory belongs: its own, or the leader's.
    pub leader: SpaceId,
    /// Its tenant.
    pub tenant: TenantId,
    /// The program.
    pub program: Program,
    /// The size of its pages.
    pub size: PageSize,
    /// The present distribution of accesses.
    pub pattern: Pattern,
    /// Where its pages are.
    pub places: Places,
    /// Base pages by band and tier.
    pub census: Census,
    /// Lines read so far: the clock of accesses.
    pub reads: f64,
    /// Lines read in the last quantum.
    pub reads_in_quantum: f64,
    /// Lines it reads per ns.
    pub reads_per_ns: f64,
    /// Thread time still to be lost to faults, interrupts and waits for moved pages, ns.
    pub stall_ns: f64,
    /// Thread time lost so far, ns.
    pub stalled_ns: f64,
    /// Time in which it had work, ns.
    pub ran_ns: f64,
    /// Time that the same work would take alone, with all its memory in the fastest tier, ns.
    pub alone_ns: f64,
    /// Traffic so far; of all its memory if it leads other jobs.
    pub traffic: Traffic,
    /// Number of patterns so far; a change means that the pattern is new.
    pub version: u64,
    /// The recording that it replays, if any.
    pub player: Option<Player>,
    /// Number of times that its pattern has drifted or grown.
    pub drifted: u64,
    /// Pages freed in the last quantum.
    pub freed: Vec<u32>,
    phase: usize,
    phase_ends: Option<Nanos>,
    carry_pages: f64,
    seed: u64,
    age_ns: f64,
    /// Pages loaded; or, for short-lived pages, total numbers allocated and freed.
    head: u64,
    tail: u64,
    /// Allocation times of short-lived pages, and their numbers.
    births: VecDeque<(f64, u64)>,
    /// Paged-out pages, and the time of their next access on the clock of accesses.
    paged_out: DueQueue<u32>,
    /// Pages allocated while no tier had room above its watermark.
    tight: u64,
    /// Its load when alone, with all its memory in the fastest tier, and its resulting rate.
    alone: (Class, f64),
}

impl Job {
    /// A program that starts at `now`; its memory is not placed yet.
    pub fn new(
        space: SpaceId,
        mut program: Program,
        size: PageSize,
        now: Nanos,
        seed: u64,
    ) -> Self {
        program.enter(0);
        let first = &program.phases[0];
        let live = pages_of(first.live(program.bytes), size);
        let pattern = first.pattern(live, size, seed);
        let places = Places::nowhere(pages_of(program.bytes, size), size);
        Self {
            census: Census::nowhere(&pattern, size.base_pages()),
            phase_ends: first.lasts.map(|lasts| now + lasts),
            leader: space,
            tenant: TenantId::NOBODY,
            freed: Vec::new(),
            age_ns: 0.0,
            head: 0,
            tail: 0,
            births: VecDeque::new(),
            paged_out: DueQueue::default(),
            tight: 0,
            alone: <(Class, f64)>::default(),
            space,
            size,
            pattern,
            places,
            program,
            reads: 0.0,
            reads_in_quantum: 0.0,
            reads_per_ns: 0.0,
            stall_ns: 0.0,
            stalled_ns: 0.0,
            ran_ns: 0.0,
            alone_ns: 0.0,
            traffic: Traffic::default(),
            version: 0,
            player: None,
            drifted: 0,
            phase: 0,
            carry_pages: 0.0,
            seed,
        }
    }

    /// The same job as further memory of a program in another space.
    pub fn led_by(self, leader: SpaceId) -> Self {
        Self { leader, ..self }
    }

    /// The same job with a tenant.
    pub fn owned_by(self, tenant: TenantId) -> Self {
        Self { tenant, ..self }
    }

    /// Pages in use at present.
    pub fn live(&self) -> u32 {
        self.pattern.order().pages()
    }

    /// Base pages per page of this job.
    pub fn unit(&self) -> u64 {
        self.size.base_pages()
    }

    /// Number of kernel pages per page of this size: one, or the number of base pages that it represents.
    #[expect(clippy::cast_precision_loss, reason = "1 or 512")]
    pub fn pieces(&self, size: PageSize) -> f64 {
        if self.program.memory.in_base_pages { size.base_pages() as f64 } else { 1.0 }
    }

    /// The page that contains a virtual page.
    pub fn page_at(&self, vpn: Vpn) -> Option<u32> {
        let page = u32::try_from(vpn.0 / self.unit()).ok()?;
        (page < self.live()).then_some(page)
    }

    /// The first virtual page of a page.
    pub fn vpn(&self, page: u32) -> Vpn {
        Vpn(u64::from(page) * self.unit())
    }

    /// The tier of a page; `None` if it was split.
    pub fn tier(&self, page: u32) -> Option<TierId> {
        self.places.tier(page)
    }

    /// The tier of a virtual page, also in a split page.
    pub fn tier_at(&self, page: u32, vpn: Vpn) -> Option<TierId> {
        self.places.tier_within(page, vpn.0)
    }

    /// Reads per ns of one page.
    pub fn page_rate(&self, page: u32) -> f64 {
        self.reads_per_ns * self.pattern.density(self.pattern.band(page))
    }

    /// Moves a page, or one base page of a split page, and updates the census.
    pub fn set_tier(&mut self, page: u32, vpn: Vpn, to: TierId) {
        let band = self.pattern.band(page);
        match self.places.put_within(page, vpn.0, to.0) {
            Some(from) => self.census.moved(band, from, to.0, 1),
            None => {
                let from = self.places.put(page, to.0);
                self.census.moved(band, from, to.0, self.unit());
            }
        }
    }

    /// Progress in the recording, in recorded seconds; 0 without a recording.
    pub fn progress_s(&self) -> f64 {
        self.player.as_ref().map_or(0.0, |player| player.progress_s(self.reads))
    }

    /// The load of a program with all its memory in a quantum of `ns`, reduced by stalls. [`Job::ran`]
    /// subtracts the stalls after the quantum.
    pub fn class(group: &[Self], cores: &Cores, ns: f64) -> Class {
        let lead = &group[0];
        let (in_flight, think_ns) = lead.program.reach.of(cores);
        let lost = lead.stalling(ns) / (lead.program.threads * ns);
        let running = if lost > 0.0 { 1.0 - lost } else { 1.0 }; // avoids 0 of 0 threads
        let mut class = Class {
            in_flight: lead.program.threads * in_flight * running,
            think_ns,
            ..Class::default()
        };
        let all = Self::weights(group);
        for job in group {
            let part = job.weight() / all;
            let shares = job.census.shares(&job.pattern);
            let (writes, exposed) = (job.program.writes_per_read, job.program.memory.exposed);
            for (t, share) in shares.into_iter().enumerate() {
                class.reads[t] += part * share;
                class.writes[t] += part * share * writes;
                class.waits[t] += part * share * exposed;
            }
        }
        if class.reads == PerTier::default() {
            class.in_flight = 0.0; // it has found no memory at all
        }
        class
    }

    /// Share of a program's accesses that each tier serves at present.
    pub fn shares(group: &[Self]) -> PerTier {
        let (mut shares, all) = (PerTier::default(), Self::weights(group));
        for job in group {
            let of_job = job.census.shares(&job.pattern);
            shares.iter_mut().zip(of_job).for_each(|(s, of)| *s += job.weight() / all * of);
        }
        shares
    }

    /// Weight of accesses to this memory; 0 while there is none.
    pub fn weight(&self) -> f64 {
        match self.has_memory() {
            true => self.program.memory.weight,
            false => 0.0,
        }
    }

    fn has_memory(&self) -> bool {
        let bands = 0..self.pattern.bands().len();
        let anywhere = |band| (0..NOWHERE).any(|tier| self.census.base_pages(band, tier) > 0);
        bands.into_iter().any(anywhere)
    }

    /// Total weight of accesses to all memory of a program; 1 if there is none.
    pub fn weights(group: &[Self]) -> f64 {
        let all = group.iter().map(Self::weight).sum();
        if all > 0.0 { all } else { 1.0 }
    }

    /// Adds the stalls of a program's other memory to its leader, as the threads are the same.
    pub fn gather_stalls(group: &mut [Self]) {
        if let [lead, further @ ..] = group {
            lead.stall_ns +=
                further.iter_mut().map(|job| std::mem::take(&mut job.stall_ns)).sum::<f64>();
        }
    }

    fn stalling(&self, ns: f64) -> f64 {
        self.stall_ns.min(MAX_STALLED * self.program.threads * ns)
    }

    /// Ends a quantum with this rate of reads.
    pub fn ran(&mut self, ns: f64, reads_per_ns: f64) {
        let stalled = self.stalling(ns);
        self.stall_ns -= stalled;
        self.stalled_ns += stalled;
        self.reads_per_ns = reads_per_ns;
        self.reads_in_quantum = reads_per_ns * ns;
        self.reads += self.reads_in_quantum;
    }

    /// Adds the time that the work of a quantum would take alone: that of `class`, at this rate of lines read
    /// per ns.
    pub fn compare(
        &mut self,
        ns: f64,
        class: &Class,
        reads_per_ns: f64,
        cores: &Cores,
        network: &Network,
    ) {
        if class.reads == PerTier::default() {
            return; // without memory there is nothing to compare
        }
        let pace = reads_per_ns / self.alone_rate(class, cores, network);
        if pace.is_finite() {
            self.ran_ns += ns;
            self.alone_ns += ns * pace;
        }
    }

    /// Lines per ns that it reads alone, with all its memory in the fastest tier.
    pub fn alone_rate(&mut self, class: &Class, cores: &Cores, network: &Network) -> f64 {
        let (in_flight, _) = self.program.reach.of(cores);
        let in_flight = self.program.threads * in_flight; // without stalls by faults and moves
        let alone = Class { in_flight, ..class.all_in_fastest() };
        if alone != self.alone.0 {
            let mut loads = Loads::default();
            solve(network, &[alone], &mut loads);
            self.alone = (alone, loads.reads_per_ns[0]);
        }
        self.alone.1
    }

    /// Its memory as parts of a placement; its accesses are this share of the program's. Memory that is not placed is not
    /// accessed.
    pub fn parts(&self, program: usize, of_accesses: f64, tiers: usize) -> Vec<Part> {
        let (mut parts, mut sum) = (Vec::new(), 0.0);
        for band in 0..self.pattern.bands().len() {
            let mut now = PerTier::default();
            for (tier, pages) in (0u8..).zip(&mut now).take(tiers) {
                *pages = per_sec(self.census.base_pages(band, tier));
            }
            let base_pages: f64 = now.iter().sum();
            let accesses = self.pattern.density(band) * base_pages;
            let writes = self.program.writes_per_read;
            let exposed = self.program.memory.exposed;
            if base_pages > 0.0 {
                sum += accesses;
                let now = now.map(|pages| pages / base_pages);
                parts.push(Part { program, accesses, base_pages, writes, exposed, now });
            }
        }
        let whole = if sum > 0.0 { of_accesses / sum } else { 0.0 };
        parts.iter_mut().for_each(|part| part.accesses *= whole);
        parts
    }

    /// Whether its memory never moves.
    pub fn stays(&self) -> bool {
        !self.program.managed || matches!(self.program.placement, Placement::Pinned(_))
    }

    /// Places all initial pages according to the placement, and reports their tiers.
    pub fn place(&mut self, frames: &mut Frames, out: &mut Observations) {
        let change = self.program.phases[self.phase].change;
        if matches!(change, Change::Load(..) | Change::Churn(_) | Change::Absent) {
            if !matches!(change, Change::Churn(_)) && self.program.managed {
                out.space_events
                    .push(SpaceEvent::Mapped(self.region(0, self.places.pages().into())));
            }
            return;
        }
        match self.program.placement {
            Placement::FirstTouch => self.touch(0..self.live(), TierId::FAST, frames),
            Placement::Pinned(tier) => self.touch(0..self.live(), tier, frames),
            Placement::AsTouched => {}
            Placement::HotShare(share) => self.place_by_hand(share, frames),
        }
        self.census = Census::take(&self.pattern, &self.places);
        if !self.program.managed {
            return;
        }
        out.space_events.push(SpaceEvent::Mapped(self.region(0, self.places.pages().into())));
        self.report_tiers(0..self.live(), out);
    }

    fn region(&self, first: u64, pages: u64) -> Region {
        Region {
            space: self.space,
            start: Vpn(first * self.unit()),
            base_pages: pages * self.unit(),
            size: self.size,
            kind: self.program.kind,
        }
    }

    /// Allocates pages in the first tier with room. If no tier has room, pages stay unplaced and are not
    /// accessed.
    fn touch(&mut self, pages: std::ops::Range<u32>, first: TierId, frames: &mut Frames) {
        let unit = self.unit();
        for page in pages {
            if let Some(place) = frames.allocate(first, self.program.kind, unit) {
                self.places.put(page, place.tier.0);
                self.tight += u64::from(place.tight);
            }
        }
    }

    /// The same for pages that the census counts as unplaced.
    fn bring(&mut self, pages: std::ops::Range<u32>, frames: &mut Frames, out: &mut Observations) {
        self.touch(pages.clone(), TierId::FAST, frames);
        for page in pages.clone() {
            if let Some(tier) = self.tier(page) {
                self.census.moved(self.pattern.band(page), NOWHERE, tier.0, self.unit());
            }
        }
        if self.program.managed {
            self.report_tiers(pages, out);
        }
    }

    /// Frees a page, if it is placed.
    fn free(&mut self, page: u32, frames: &mut Frames) -> bool {
        if self.places.is_nowhere(page) {
            return false;
        }
        let band = self.pattern.band(page);
        for (tier, base_pages) in self.places.parts(page) {
            frames.give(TierId(tier), base_pages);
            self.census.moved(band, tier, NOWHERE, base_pages);
        }
        self.places.free(page);
        true
    }

    /// Pages a page out; its next access brings it back. False if it is not placed.
    pub fn page_out(&mut self, page: u32, frames: &mut Frames, rng: &mut Rng) -> bool {
        let share = self.pattern.density(self.pattern.band(page));
        if !self.free(page, frames) {
            return false;
        }
        self.paged_out.push(whole(self.reads + exponential(rng) / share), page);
        true
    }

    /// Brings back paged-out pages that have been accessed. Returns their number.
    pub fn page_in(&mut self, frames: &mut Frames, out: &mut Observations) -> u32 {
        let (mut back, mut accessed) = (0, Vec::new());
        self.paged_out.take(whole(self.reads), &mut accessed);
        for (_, page) in accessed {
            if self.places.is_nowhere(page) {
                self.bring(page..page + 1, frames, out);
                back += 1;
            }
        }
        back
    }

    /// Pages allocated while no tier had its watermark free, since the last call.
    pub fn take_tight(&mut self) -> u64 {
        std::mem::take(&mut self.tight)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a page count"
    )]
    fn place_by_hand(&mut self, share: f64, frames: &mut Frames) {
        let hot = self.pattern.bands()[0].end;
        let here = (f64::from(hot) * share.clamp(0.0, 1.0) + 0.5) as u32;
        let page = |job: &Self, rank| job.pattern.order().page(rank);
        for rank in (0..here).chain(here..self.live()) {
            let first = if (here..hot).contains(&rank) { TierId(1) } else { TierId::FAST };
            let page = page(self, rank);
            self.touch(page..page + 1, first, frames);
        }
    }

    /// Reports the tiers of pages, one run of equal tier at a time.
    fn report_tiers(&self, pages: std::ops::Range<u32>, out: &mut Observations) {
        let mut start = pages.start;
        for page in pages.clone() {
            let ends = page + 1 == pages.end
                || !self.places.are_alike(start, page + 1)
                || u64::from(page + 1 - start) * self.unit() >= u64::from(u32::MAX / 2);
            if !ends {
                continue;
            }
            if let Some(tier) = self.tier(start) {
                let base_pages = u64::from(page + 1 - start) * self.unit();
                let base_pages = u32::try_from(base_pages).unwrap_or(u32::MAX);
                let vpn = self.vpn(start);
                out.residence.push(Residence { space: self.space, vpn, base_pages, tier });
            }
            start = page + 1;
        }
    }

    /// Frees all memory.
    pub fn leave(&mut self, frames: &mut Frames) {
        for page in 0..self.places.pages() {
            for (tier, base_pages) in self.places.parts(page).filter(|part| part.0 != NOWHERE) {
                frames.give(TierId(tier), base_pages);
            }
            self.places.free(page);
        }
    }

    /// Starts the recording's next epoch if one has ended: other pages are accessed, and new ones are
    /// allocated. Returns the number of pages allocated.
    pub fn replay(
        &mut self,
        now: Nanos,
        machine: &Machine,
        frames: &mut Frames,
        out: &mut Observations,
    ) -> u32 {
        let Some(player) = self.player.as_mut().filter(|p| p.is_over(now, self.reads)) else {
            return 0;
        };
        let turn = player.turn(now, self.reads, self.program.threads, machine);
        let Some(turn) = turn else { return 0 };
        (self.program.reach, self.program.writes_per_read) = (turn.reach, turn.writes_per_read);
        self.pattern = turn.pattern;
        let mut new = turn.touched;
        new.retain(|&page| self.places.is_nowhere(page));
        new.sort_unstable();
        for run in new.chunk_by(|a, b| a + 1 == *b) {
            let pages = run[0]..run[0] + u32::try_from(run.len()).unwrap_or(0);
            self.touch(pages.clone(), TierId::FAST, frames);
            if self.program.managed {
                self.report_tiers(pages, out);
            }
        }
        self.census = Census::take(&self.pattern, &self.places);
        self.version += 1;
        u32::try_from(new.len()).unwrap_or(u32::MAX)
    }

    /// The next time at which the pattern changes by itself.
    pub fn next_change(&self) -> Option<Nanos> {
        self.phase_ends
    }

    /// Enters the next phase if it is due.
    pub fn turn(&mut self, now: Nanos) {
        let Some(ends) = self.phase_ends.filter(|&ends| ends <= now) else { return };
        self.phase = (self.phase + 1) % self.program.phases.len();
        self.program.enter(self.phase);
        let phase = &self.program.phases[self.phase];
        self.phase_ends = phase.lasts.map(|lasts| ends + lasts);
        self.pattern = phase.pattern(self.live(), self.size, self.seed);
        self.census = Census::take(&self.pattern, &self.places);
        self.version += 1;
    }

    /// Advances drift, growth and short-lived pages by a quantum. Returns the number of pages allocated.
    pub fn drift(&mut self, ns: f64, frames: &mut Frames, out: &mut Observations) -> u32 {
        self.freed.clear();
        self.age_ns += ns;
        let change = self.program.phases[self.phase].change;
        let age = nanos(self.age_ns);
        let bytes = match change {
            Change::None => return 0,
            Change::Absent => {
                self.vanish(frames, out);
                return 0;
            }
            Change::Drift(rate) | Change::Growth(_, rate) => per_sec(rate.0) * ns * 1e-9,
            Change::Load(after, rate) if age > after => per_sec(rate.0) * ns * 1e-9,
            Change::Load(..) => return 0,
            Change::Churn(churn) => {
                let in_burst = age.0 % churn.every.0.max(1) < churn.lasts.0;
                let times = if in_burst { churn.burst } else { 1.0 };
                per_sec(churn.rate.0) * times * ns * 1e-9
            }
            Change::Sweep => self.reads_in_quantum * LINE_BYTES,
        };
        let pages = self.carry_pages + bytes / per_sec(self.size.bytes().0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole pages of a quantum; the cast saturates"
        )]
        let whole = pages as u32;
        self.carry_pages = pages - f64::from(whole);
        match change {
            Change::Growth(..) => return self.grow(whole, frames, out),
            Change::Load(..) => return self.load(whole, frames, out),
            Change::Churn(churn) => return self.churn(whole, churn.lifetime, frames, out),
            _ => self.pattern.advance(whole, &self.places, &mut self.census),
        }
        self.drifted += u64::from(whole > 0);
        0
    }

    /// Frees all its memory.
    fn vanish(&mut self, frames: &mut Frames, out: &mut Observations) {
        if !self.has_memory() {
            return;
        }
        for page in 0..self.live() {
            if self.free(page, frames) {
                self.freed.push(page);
            }
        }
        self.paged_out = DueQueue::default();
        if self.program.managed {
            let base_pages = u64::from(self.live()) * self.unit();
            out.space_events.push(SpaceEvent::Unmapped(self.space, self.vpn(0), base_pages));
        }
    }

    fn load(&mut self, pages: u32, frames: &mut Frames, out: &mut Observations) -> u32 {
        let first = u32::try_from(self.head).unwrap_or(u32::MAX);
        let pages = pages.min(self.live() - first);
        self.bring(first..first + pages, frames, out);
        self.head += u64::from(pages);
        pages
    }

    /// Frees pages at the end of their lifetime and allocates new ones, cyclically in the program's memory.
    fn churn(
        &mut self,
        pages: u32,
        lifetime: Nanos,
        frames: &mut Frames,
        out: &mut Observations,
    ) -> u32 {
        let slots = u64::from(self.live());
        let page = |at: u64| u32::try_from(at % slots).unwrap_or(0);
        while let Some(&(born, count)) = self.births.front()
            && nanos(self.age_ns - born) >= lifetime
        {
            self.births.pop_front();
            for at in self.tail..self.tail + count {
                self.free(page(at), frames);
                self.freed.push(page(at));
                let vpn = self.vpn(page(at));
                out.space_events.push(SpaceEvent::Unmapped(self.space, vpn, self.unit()));
            }
            self.tail += count;
        }
        let count = u64::from(pages).min(slots - (self.head - self.tail));
        for at in self.head..self.head + count {
            let page = page(at);
            out.space_events.push(SpaceEvent::Mapped(self.region(page.into(), 1)));
            self.bring(page..page + 1, frames, out);
        }
        self.head += count;
        if count > 0 {
            self.births.push_back((self.age_ns, count));
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn grow(&mut self, pages: u32, frames: &mut Frames, out: &mut Observations) -> u32 {
        let live = self.live();
        let all = self.places.pages();
        let pages = pages.min(all - live);
        if pages == 0 {
            return 0;
        }
        self.touch(live..live + pages, TierId::FAST, frames);
        self.pattern.grow(pages, &self.places, &mut self.census);
        if self.program.managed {
            self.report_tiers(live..live + pages, out);
        }
        self.drifted += 1;
        pages
    }

    /// Bytes of this memory in a tier.
    pub fn bytes_in(&self, tier: TierId) -> Bytes {
        let bands = 0..self.pattern.bands().len();
        Bytes::from_base_pages(bands.map(|band| self.census.base_pages(band, tier.0)).sum())
    }

    /// The page of a random access, and a base page within it.
    pub fn draw(&self, rng: &mut Rng) -> (u32, Vpn) {
        let page = self.pattern.draw(rng);
        let within = if self.size == PageSize::Huge { rng.below(self.unit()) } else { 0 };
        (page, Vpn(self.vpn(page).0 + within))
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes and rates of one machine")]
fn per_sec(x: u64) -> f64 {
    x as f64
}
