// SPDX-License-Identifier: Apache-2.0
//! autotiering: promotes what faults into the place of the least accessed page.
//!
//! What it does: keeps for every page in which of the last eight passes of the scanner it was accessed; the
//! number of them is its level. A page that faults below the fastest tier is promoted if that leaves the high
//! watermark free (CPM); else (OPM) the page of the lowest level there is demoted for it, unless its own
//! level is no higher. In the background mode no promotion waits for a demotion: a small reserve is kept for promotions
//! alone, and they fail while it is used up. New pages, and the reclaimer who pages files out, here the least
//! accessed, are those of `paging`: demoting makes no room for what is allocated.
//!
//! When it helps: where how often a page is accessed differs from minute to minute, and fast memory is full.
//!
//! When it hurts: a page's level takes eight passes to tell, so minutes; faults are taken in fast memory too;
//! what is allocated while fast memory is full is slow until it faults;
//! and in the background mode a surge of hot slow pages empties the reserve.
//!
//! Knobs: opm (1), background_demotion (0), reserve (4 MiB), looks (8192 pages), scan_period_min (1 s),
//! scan_period_max (60 s), scan_size (256 MiB), private_share (0).
//!
//! Where it comes from: AutoTiering (ATC 2021) and its public code (kernel 5.3), over NUMA balancing. The
//! reserve is frames held apart, 16 a processor, there; here it is free memory above the low watermark, for 64 of them, which
//! the allocator leaves alone as long as the high one is not free. A tier is one node, so there are no other nodes
//! of a tier to try, and an exchange of two pages is a demotion and a promotion in one plan. Demoted first
//! there is a page of the page cache, here not. Pages of the slowest tier have histories too.

use super::interface::{Believed, Policy, Wants};
use super::parts::ledger::{Ledger, Short};
use super::parts::scan_period::{self, ScanPeriod};
use super::parts::watermarks::Watermarks;
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::Reason;
use crate::telemetry::Hit;
use crate::telemetry::lap::Lap;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs, without those of the scanner.
    pub struct Knobs {
        /// Pages are demoted to make room for promotions.
        opm: bool = true, false, true;
        /// They are demoted ahead of promotions, to keep the reserve.
        background_demotion: bool = false, false, true;
        /// Kept free for promotions, above the low watermark, in the background mode.
        reserve: Bytes = Bytes::from_mib(4), Bytes::from_mib(1), Bytes::from_mib(1 << 10);
        /// Listed pages looked at again in a tick after a pass, at most.
        looks: u32 = 8192, 64, 1 << 20;
    }
}

/// The policy.
#[derive(Debug, Default)]
pub struct Autotiering {
    knobs: Knobs,
    scan: ScanPeriod,
    lap: Lap,
    pass_began: Option<Nanos>,
    /// Tiers whose reclaimer is at work.
    awake: [bool; TierId::MAX],
}

impl Autotiering {
    fn believe(&mut self, view: &mut View<'_>) {
        let began = *self.pass_began.get_or_insert(view.now);
        if view.now.saturating_sub(began) >= self.scan.period() {
            self.pass_began = Some(view.now);
            self.lap.next_pass(view.machine.tiers);
        }
        self.lap.believe(view.memory.pages, view.evidence.touched);
        self.lap.look(view.memory.pages, self.knobs.looks);
    }

    /// Judges one fault.
    fn fault(&mut self, view: &mut View<'_>, hit: &Hit, ledger: &mut Ledger, plan: &mut Plan) {
        let state = view.memory.pages.state(hit.page);
        // A page that is planned to move is in no list.
        let Some(tier) = state.tier().filter(|_| state.is_listed()) else { return };
        self.scan.fault(view.now, tier == TierId::FAST);
        let level = self.lap.accessed(view.memory.pages, hit.page);
        if tier == TierId::FAST {
            return;
        }
        if self.refuses(view, level, ledger.room(TierId::FAST)) {
            return;
        }
        let reason = Reason::Hot { rate_per_sec: self.rate(level) };
        let mut planned = ledger.plan(view.memory.pages, hit.page, TierId::FAST, reason, plan);
        if planned == Err(Short::Room) && self.knobs.opm && !self.in_background() {
            while planned == Err(Short::Room)
                && self.demote(view, Some(level), ledger, plan).is_ok()
            {
                planned = ledger.plan(view.memory.pages, hit.page, TierId::FAST, reason, plan);
            }
        }
        match planned {
            Ok(_) => self.lap.moves(view.memory.pages, hit.page),
            Err(Short::Room) => self.scan.failed(),
            Err(_) => {}
        }
    }

    fn in_background(&self) -> bool {
        self.knobs.opm && self.knobs.background_demotion
    }

    /// Whether a page would be promoted out of the reserve, and is accessed no more than the least accessed above.
    fn refuses(&mut self, view: &mut View<'_>, level: u8, room: Bytes) -> bool {
        let marks = Watermarks::of(view.machine.tiers[TierId::FAST].capacity);
        self.in_background()
            && room <= marks.high - marks.low
            && self
                .lap
                .least(view.memory.pages, TierId::FAST)
                .is_some_and(|(_, least)| level <= least)
    }

    /// Pages out files of every tier between the watermarks, as the kernel below does.
    fn page_out(&mut self, view: &mut View<'_>) {
        for (id, tier) in view.machine.tiers.iter() {
            let marks = Watermarks::of(tier.capacity);
            let measured = &view.machine.telemetry.tiers[id.index()];
            let woken = measured.turned_away || measured.free < marks.low;
            let awake = &mut self.awake[id.index()];
            *awake = (*awake || woken) && measured.free < marks.high;
            if !*awake {
                continue;
            }
            let mut missing = marks.high.saturating_sub(measured.free);
            let mut looks = self.knobs.looks;
            while missing > Bytes::ZERO
                && let Some(page) = self.lap.least_file(view.memory.pages, id, &mut looks)
                && let Some(at) = view.memory.pages.locate(page)
            {
                self.lap.moves(view.memory.pages, page);
                view.orders.page_out.push(page);
                missing = missing.saturating_sub(at.size.bytes());
            }
        }
    }

    /// Demotes the least accessed page of the fastest tier; with a level given, if it is below that.
    fn demote(
        &mut self,
        view: &mut View<'_>,
        below: Option<u8>,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Result<Bytes, Short> {
        let (page, level) = self.lap.least(view.memory.pages, TierId::FAST).ok_or(Short::Page)?;
        if below.is_some_and(|below| level >= below) {
            return Err(Short::Page);
        }
        view.memory.pages.locate(page).ok_or(Short::Page)?;
        let to = ledger.below(view.memory.pages, page).ok_or(Short::Room)?;
        let rate_per_sec = self.rate(level);
        let reason = match below {
            Some(_) => Reason::MakeRoom { rate_per_sec },
            None => Reason::Headroom { rate_per_sec },
        };
        let bytes = ledger.plan(view.memory.pages, page, to, reason, plan)?;
        self.lap.moves(view.memory.pages, page);
        Ok(bytes)
    }

    /// Keeps the reserve free.
    fn refill(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        while ledger.room(TierId::FAST) < self.knobs.reserve
            && self.demote(view, None, ledger, plan).is_ok()
        {}
    }

    /// At least one access in each pass that the level counts.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    fn rate(&self, level: u8) -> f32 {
        (f64::from(level) / 8.0 / self.scan.period().as_secs_f64()) as f32
    }
}

impl Policy for Autotiering {
    fn name(&self) -> &'static str {
        "autotiering"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        self.believe(view);
        let capacity = |tier| view.machine.tiers[tier].capacity;
        let background = self.in_background();
        let floor = |tier: TierId| match tier == view.machine.tiers.slowest() {
            true => Bytes::ZERO,
            false if background => Watermarks::of(capacity(tier)).low,
            false => Watermarks::of(capacity(tier)).high,
        };
        let mut ledger = Ledger::new(view, view.machine.budget, floor);
        let hits = view.evidence.hits;
        for hit in hits {
            self.fault(view, hit, &mut ledger, plan);
        }
        if background {
            self.refill(view, &mut ledger, plan); // after the promotions: it is for those to come
        }
        self.page_out(view);
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> Believed {
        Believed::exactly(f32::from(self.lap.level(memory.pages, page)))
    }

    fn wants(&self) -> Wants {
        Wants { pages_out: true, ..self.scan.wants() }
    }

    fn knobs(&self) -> Vec<Knob> {
        [Knobs::table(), scan_period::Knobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value) || self.scan.knobs.set(knob, value)
    }
}
