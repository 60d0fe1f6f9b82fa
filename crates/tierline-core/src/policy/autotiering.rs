// SPDX-License-Identifier: Apache-2.0
//! autotiering: promotes pages that fault in exchange for the least accessed page.
//!
//! What it does: records for every page in which of the last eight scans it was accessed; the number of these
//! scans is its level. A page that faults below the fastest tier is promoted if that leaves the high watermark
//! free (CPM). Otherwise the page with the lowest level there is demoted for it, if its level is below that of
//! the faulting page (OPM). In background mode no promotion waits for a demotion: a small reserve is kept for
//! promotions alone, and they fail while it is used up. The placement of new pages is that of `paging`, and so
//! is the reclaimer, which here pages out the least accessed files. Demotion makes no room for allocations.
//!
//! When it helps: access frequencies that differ from minute to minute, with fast memory full.
//!
//! When it hurts: a page's level needs eight scans, which take minutes; pages in fast memory fault too; memory
//! allocated while fast memory is full is slow until it faults; in background mode, many hot slow pages at once
//! use up the reserve.
//!
//! Knobs: opm (1), background_demotion (0), reserve (4 MiB), looks (8192 pages), scan_period_min (1 s),
//! scan_period_max (60 s), scan_size (256 MiB), private_share (0).
//!
//! Where it comes from: AutoTiering (ATC 2021) and its public code (kernel 5.3), over NUMA balancing. Its
//! reserve is a set of frames, 16 for each processor; here it is free memory above the low watermark, for 64
//! processors, which the allocator does not use until the high watermark is free again. A tier is one node, so
//! there are no other nodes of a tier to try, and an exchange of two pages is a demotion and a promotion in one
//! plan. The original demotes page-cache pages first; this does not. Pages of the slowest tier have histories
//! too.

use super::interface::{HeatEstimate, Policy, Wants};
use super::parts::ledger::{Ledger, Shortage};
use super::parts::scan_period::{self, ScanPeriod};
use super::parts::watermarks::Watermarks;
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::Reason;
use crate::telemetry::Hit;
use crate::telemetry::access_levels::AccessLevels;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs, without those of the scanner.
    pub struct AutotieringKnobs {
        /// Pages are demoted to make room for promotions.
        opm: bool = true, false, true;
        /// Pages are demoted ahead of promotions, to refill the reserve.
        background_demotion: bool = false, false, true;
        /// Memory kept free for promotions in background mode, above the low watermark.
        reserve: Bytes = Bytes::from_mib(4), Bytes::from_mib(1), Bytes::from_mib(1 << 10);
        /// Listed pages reclassified per tick after a scan, at most.
        looks: u32 = 8192, 64, 1 << 20;
    }
}

/// The policy.
#[derive(Debug, Default)]
pub struct Autotiering {
    knobs: AutotieringKnobs,
    scan: ScanPeriod,
    levels: AccessLevels,
    pass_began: Option<Nanos>,
    /// Whether each tier's reclaimer is awake.
    awake: [bool; TierId::MAX],
}

impl Autotiering {
    fn learn(&mut self, view: &mut View<'_>) {
        let began = *self.pass_began.get_or_insert(view.now);
        if view.now.saturating_sub(began) >= self.scan.period() {
            self.pass_began = Some(view.now);
            self.levels.start_scan(view.machine.tiers);
        }
        self.levels.learn(view.memory.pages, view.evidence.touched);
        self.levels.review(view.memory.pages, self.knobs.looks);
    }

    /// Handles one fault.
    fn fault(&mut self, view: &mut View<'_>, hit: &Hit, ledger: &mut Ledger, plan: &mut Plan) {
        let state = view.memory.pages.state(hit.page);
        // A page with a planned move is in no list.
        let Some(tier) = state.tier().filter(|_| state.is_listed()) else { return };
        self.scan.fault(view.now, tier == TierId::FAST);
        let level = self.levels.accessed(view.memory.pages, hit.page);
        if tier == TierId::FAST {
            return;
        }
        if self.refuses(view, level, ledger.room(TierId::FAST)) {
            return;
        }
        let reason = Reason::Hot { rate_per_sec: self.rate(level) };
        let mut planned = ledger.plan(view.memory.pages, hit.page, TierId::FAST, reason, plan);
        if planned == Err(Shortage::Room) && self.knobs.opm && !self.in_background() {
            while planned == Err(Shortage::Room)
                && self.demote(view, Some(level), ledger, plan).is_ok()
            {
                planned = ledger.plan(view.memory.pages, hit.page, TierId::FAST, reason, plan);
            }
        }
        match planned {
            Ok(_) => self.levels.start_move(view.memory.pages, hit.page),
            Err(Shortage::Room) => self.scan.failed(),
            Err(_) => {}
        }
    }

    fn in_background(&self) -> bool {
        self.knobs.opm && self.knobs.background_demotion
    }

    /// In background mode, whether a page would use the reserve although it is accessed no more than the least
    /// accessed fast page.
    fn refuses(&mut self, view: &mut View<'_>, level: u8, room: Bytes) -> bool {
        let marks = Watermarks::of(view.machine.tiers[TierId::FAST].capacity);
        self.in_background()
            && room <= marks.high - marks.low
            && self
                .levels
                .least(view.memory.pages, TierId::FAST)
                .is_some_and(|(_, least)| level <= least)
    }

    /// Pages out files of every tier between the watermarks, as the kernel does.
    fn page_out(&mut self, view: &mut View<'_>) {
        for (id, tier) in view.machine.tiers.iter() {
            let marks = Watermarks::of(tier.capacity);
            let measured = &view.machine.telemetry.tiers[id.index()];
            let woken = measured.failed_allocations || measured.free < marks.low;
            let awake = &mut self.awake[id.index()];
            *awake = (*awake || woken) && measured.free < marks.high;
            if !*awake {
                continue;
            }
            let mut missing = marks.high.saturating_sub(measured.free);
            let mut looks = self.knobs.looks;
            while missing > Bytes::ZERO
                && let Some(page) = self.levels.least_file(view.memory.pages, id, &mut looks)
                && let Some(at) = view.memory.pages.locate(page)
            {
                self.levels.start_move(view.memory.pages, page);
                view.orders.page_out.push(page);
                missing = missing.saturating_sub(at.size.bytes());
            }
        }
    }

    /// Demotes the least accessed page of the fastest tier; given a level, only if it is below that level.
    fn demote(
        &mut self,
        view: &mut View<'_>,
        below: Option<u8>,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Result<Bytes, Shortage> {
        let (page, level) =
            self.levels.least(view.memory.pages, TierId::FAST).ok_or(Shortage::Page)?;
        if below.is_some_and(|below| level >= below) {
            return Err(Shortage::Page);
        }
        view.memory.pages.locate(page).ok_or(Shortage::Page)?;
        let to = ledger.demotion_target(view.memory.pages, page).ok_or(Shortage::Room)?;
        let rate_per_sec = self.rate(level);
        let reason = match below {
            Some(_) => Reason::MakeRoom { rate_per_sec },
            None => Reason::Headroom { rate_per_sec },
        };
        let bytes = ledger.plan(view.memory.pages, page, to, reason, plan)?;
        self.levels.start_move(view.memory.pages, page);
        Ok(bytes)
    }

    /// Demotes until the reserve is free.
    fn refill(&mut self, view: &mut View<'_>, ledger: &mut Ledger, plan: &mut Plan) {
        while ledger.room(TierId::FAST) < self.knobs.reserve
            && self.demote(view, None, ledger, plan).is_ok()
        {}
    }

    /// Lower bound of the rate: one access in each scan that the level counts.
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
        self.learn(view);
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
            self.refill(view, &mut ledger, plan); // after the promotions: the reserve is for later ones
        }
        self.page_out(view);
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        HeatEstimate::exactly(f32::from(self.levels.level(memory.pages, page)))
    }

    fn wants(&self) -> Wants {
        Wants { pages_out: true, promotes_in_fault: true, ..self.scan.wants() }
    }

    fn knobs(&self) -> Vec<Knob> {
        [AutotieringKnobs::table(), scan_period::ScanPeriodKnobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value) || self.scan.knobs.set(knob, value)
    }
}
