// SPDX-License-Identifier: Apache-2.0
//! A running program: where its pages are, and how far it got.

use tierline_core::port::{Observations, PageSize, Region, Residence, SpaceEvent, SpaceId, Vpn};
use tierline_core::rng::Rng;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use super::frames::Frames;
use crate::load::{Class, LINE_BYTES};
use crate::machine::{Cores, Machine};
use crate::workload::pattern::{Census, NOWHERE, Pattern};
use crate::workload::program::{Change, Placement, Program, pages_of};
use crate::workload::replay::Player;

/// No stall takes more of a program's time than this share of a quantum; the rest is carried over.
const MAX_STALLED: f64 = 0.95;

/// A program with its pages.
#[derive(Debug)]
pub struct Job {
    /// Its address space; its memory starts at page 0 of it.
    pub space: SpaceId,
    /// What it is.
    pub program: Program,
    /// The size of its pages.
    pub size: PageSize,
    /// Who accesses what, now.
    pub pattern: Pattern,
    /// The tier of every page, a byte a page.
    pub tiers: Vec<u8>,
    /// Pages by band and tier.
    pub census: Census,
    /// Lines read so far: the clock of its accesses.
    pub reads: f64,
    /// Lines read in the last quantum.
    pub reads_in_quantum: f64,
    /// Lines it reads per ns.
    pub reads_per_ns: f64,
    /// Thread time it still has to lose to faults, interrupts and waiting for moved pages, ns.
    pub stall_ns: f64,
    /// Thread time lost so far, ns.
    pub stalled_ns: f64,
    /// Patterns so far: those who rely on one learn that it is another.
    pub version: u64,
    /// The recording that it replays, if it does.
    pub player: Option<Player>,
    /// How often its pattern has drifted or grown.
    pub drifted: u64,
    phase: usize,
    phase_ends: Option<Nanos>,
    carry_pages: f64,
    seed: u64,
}

impl Job {
    /// A program that starts at `now`, its memory not placed yet.
    pub fn new(space: SpaceId, program: Program, size: PageSize, now: Nanos, seed: u64) -> Self {
        let first = &program.phases[0];
        let live = pages_of(first.live(program.bytes), size);
        let pattern = first.pattern(live, size, seed);
        let tiers = vec![NOWHERE; pages_of(program.bytes, size) as usize];
        Self {
            census: Census::nowhere(&pattern),
            phase_ends: first.lasts.map(|lasts| now + lasts),
            space,
            size,
            pattern,
            tiers,
            program,
            reads: 0.0,
            reads_in_quantum: 0.0,
            reads_per_ns: 0.0,
            stall_ns: 0.0,
            stalled_ns: 0.0,
            version: 0,
            player: None,
            drifted: 0,
            phase: 0,
            carry_pages: 0.0,
            seed,
        }
    }

    /// The pages that are in use by now.
    pub fn live(&self) -> u32 {
        self.pattern.order().pages()
    }

    /// Base pages in one of its pages.
    pub fn unit(&self) -> u64 {
        self.size.base_pages()
    }

    /// The page that holds a virtual page.
    pub fn page_at(&self, vpn: Vpn) -> Option<u32> {
        let page = u32::try_from(vpn.0 / self.unit()).ok()?;
        (page < self.live()).then_some(page)
    }

    /// The first virtual page of a page.
    pub fn vpn(&self, page: u32) -> Vpn {
        Vpn(u64::from(page) * self.unit())
    }

    /// The tier of a page.
    pub fn tier(&self, page: u32) -> Option<TierId> {
        let tier = self.tiers[page as usize];
        (tier != NOWHERE).then_some(TierId(tier))
    }

    /// Reads per ns that one page gets.
    pub fn page_rate(&self, page: u32) -> f64 {
        self.reads_per_ns * self.pattern.density(self.pattern.band(page))
    }

    /// Moves a page and books it.
    pub fn set_tier(&mut self, page: u32, to: TierId) {
        let from = std::mem::replace(&mut self.tiers[page as usize], to.0);
        self.census.moved(self.pattern.band(page), from, to.0);
    }

    /// How far it has come through its recording, in recorded time, s; nowhere without one.
    pub fn progress_s(&self) -> f64 {
        self.player.as_ref().map_or(0.0, |player| player.progress_s(self.reads))
    }

    /// What it asks of the machine in a quantum of `ns`, less what it stalls. The stall is taken off
    /// once the quantum is over: [`Job::ran`].
    pub fn class(&self, cores: &Cores, ns: f64) -> Class {
        let (in_flight, think_ns) = self.program.reach.of(cores);
        let lost = self.stalling(ns) / (self.program.threads * ns);
        let running = if lost > 0.0 { 1.0 - lost } else { 1.0 }; // no threads lose nothing
        let shares = self.census.shares(&self.pattern);
        let writes = self.program.writes_per_read;
        Class::program(self.program.threads * in_flight * running, think_ns, shares, writes)
    }

    fn stalling(&self, ns: f64) -> f64 {
        self.stall_ns.min(MAX_STALLED * self.program.threads * ns)
    }

    /// A quantum is over, in which so many lines were read per ns.
    pub fn ran(&mut self, ns: f64, reads_per_ns: f64) {
        let stalled = self.stalling(ns);
        self.stall_ns -= stalled;
        self.stalled_ns += stalled;
        self.reads_per_ns = reads_per_ns;
        self.reads_in_quantum = reads_per_ns * ns;
        self.reads += self.reads_in_quantum;
    }

    /// Puts all live pages where the placement says, and tells where that is.
    pub fn place(&mut self, frames: &mut Frames, out: &mut Observations) {
        match self.program.placement {
            Placement::FirstTouch => self.touch(0..self.live(), TierId::FAST, frames),
            Placement::Pinned(tier) => self.touch(0..self.live(), tier, frames),
            Placement::AsTouched => {}
            Placement::HotShare(share) => self.place_by_hand(share, frames),
        }
        self.census = Census::take(&self.pattern, &self.tiers);
        if !self.program.managed {
            return;
        }
        out.spaces.push(SpaceEvent::Mapped(Region {
            space: self.space,
            start: Vpn(0),
            base_pages: self.tiers.len() as u64 * self.unit(),
            size: self.size,
            kind: self.program.kind,
        }));
        self.tell(0..self.live(), out);
    }

    /// Allocates pages in the first tier with room. Where no tier has any, pages stay nowhere: the model's
    /// machine does not swap, and what is nowhere is not accessed.
    fn touch(&mut self, pages: std::ops::Range<u32>, first: TierId, frames: &mut Frames) {
        let unit = self.unit();
        for page in pages {
            if let Some(tier) = frames.first_with_room(first, unit) {
                frames.take(tier, unit);
                self.tiers[page as usize] = tier.0;
            }
        }
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

    /// Tells where pages are, a run of one tier at a time.
    fn tell(&self, pages: std::ops::Range<u32>, out: &mut Observations) {
        let mut start = pages.start;
        for page in pages.clone() {
            let ends = page + 1 == pages.end
                || self.tiers[page as usize + 1] != self.tiers[start as usize]
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

    /// Gives all its memory back.
    pub fn leave(&mut self, frames: &mut Frames) {
        for tier in &mut self.tiers {
            let was = std::mem::replace(tier, NOWHERE);
            if was != NOWHERE {
                frames.give(TierId(was), self.size.base_pages());
            }
        }
    }

    /// Begins the recording's next epoch, if one is over: other pages are accessed, new ones allocated.
    /// Returns the pages allocated.
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
        new.retain(|&page| self.tier(page).is_none());
        new.sort_unstable();
        for run in new.chunk_by(|a, b| a + 1 == *b) {
            let pages = run[0]..run[0] + u32::try_from(run.len()).unwrap_or(0);
            self.touch(pages.clone(), TierId::FAST, frames);
            if self.program.managed {
                self.tell(pages, out);
            }
        }
        self.census = Census::take(&self.pattern, &self.tiers);
        self.version += 1;
        u32::try_from(new.len()).unwrap_or(u32::MAX)
    }

    /// When the pattern changes next by itself.
    pub fn next_change(&self) -> Option<Nanos> {
        self.phase_ends
    }

    /// Enters the next phase if its time has come.
    pub fn turn(&mut self, now: Nanos) {
        let Some(ends) = self.phase_ends.filter(|&ends| ends <= now) else { return };
        self.phase = (self.phase + 1) % self.program.phases.len();
        let phase = &self.program.phases[self.phase];
        self.phase_ends = phase.lasts.map(|lasts| ends + lasts);
        self.pattern = phase.pattern(self.live(), self.size, self.seed);
        self.census = Census::take(&self.pattern, &self.tiers);
        self.version += 1;
    }

    /// Lets popularity drift and memory grow over a quantum. Returns the pages allocated.
    pub fn drift(&mut self, ns: f64, frames: &mut Frames, out: &mut Observations) -> u32 {
        let bytes = match self.program.phases[self.phase].change {
            Change::None => return 0,
            Change::Drift(rate) | Change::Growth(_, rate) => per_sec(rate.0) * ns * 1e-9,
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
        match self.program.phases[self.phase].change {
            Change::Growth(..) => return self.grow(whole, frames, out),
            _ => self.pattern.advance(whole, &self.tiers, &mut self.census),
        }
        self.drifted += u64::from(whole > 0);
        0
    }

    fn grow(&mut self, pages: u32, frames: &mut Frames, out: &mut Observations) -> u32 {
        let live = self.live();
        let all = u32::try_from(self.tiers.len()).unwrap_or(u32::MAX);
        let pages = pages.min(all - live);
        if pages == 0 {
            return 0;
        }
        self.touch(live..live + pages, TierId::FAST, frames);
        self.pattern.grow(pages, &self.tiers, &mut self.census);
        if self.program.managed {
            self.tell(live..live + pages, out);
        }
        self.drifted += 1;
        pages
    }

    /// Bytes of its memory in a tier.
    pub fn bytes_in(&self, tier: TierId) -> Bytes {
        let bands = 0..self.pattern.bands().len();
        let pages: u64 = bands.map(|band| u64::from(self.census.pages(band, tier.0))).sum();
        Bytes(pages * self.size.bytes().0)
    }

    /// The page of one access, and a base page within it.
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
