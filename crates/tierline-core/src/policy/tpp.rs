// SPDX-License-Identifier: Apache-2.0
//! tpp: promotes active pages when they fault, and demotes inactive pages early, before room is needed.
//!
//! What it does: a page below the fastest tier that faults is promoted if it is on the active list; an inactive
//! one becomes active, and is promoted if it faults again. A reclaimer demotes inactive pages, private and
//! file, from the fastest tier whenever less than 2 % of it is free, to the nearest tier with room, and pages
//! out if there is none. New pages are placed there while the kernel's low watermark is free, promotions down
//! to its min. With colloid as its goal, colloid's text applies.
//!
//! When it helps: programs that allocate much, and working sets that fit fast memory.
//!
//! When it hurts: a page with two accesses, however far apart, is hot: if the hot pages do not fit, pages are
//! promoted and demoted without end, and nothing limits their rate. A page is observed once per scan.
//!
//! Knobs: demote_scale (2 %), decoupled (1), active_lru (1), by_type (0), three_faults (0), scan_period_min (1 s),
//! scan_period_max (60 s), scan_size (256 MiB), private_share (0); with colloid heat_test (0). Without decoupled, the
//! kernel's own watermarks apply to everything.
//!
//! On Linux: the tracker's budget sets how often pages are observed, instead of the scan period; the
//! reclaimer reads and clears the accessed bits of single pages.
//!
//! Where it comes from: TPP (ASPLOS 2023), sections 5.1 to 5.5; min is the kernel's (5.13). `by_type` is for
//! programs whose file pages are known to be cold (5.4), so it is off. `three_faults` is the public patch, in
//! which the first fault only marks a page referenced. Demoted pages are not armed at once. The scan period is the
//! kernel's, in which a promoted page counts as a local fault; NeoMem (table V) states 1 to 3 s for TPP.

use super::goal::Goal;
use super::interface::Wants;
use super::parts::on_fault::{Fault, OnFault, Rules, TierWatermarks};
use super::parts::scan_period::{ScanPeriod, ScanPeriodKnobs};
use super::parts::watermarks::Watermarks;
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageTable;
use crate::port::Allocation;
use crate::telemetry::lru::Lru;
use crate::tier::TierId;
use crate::unit::Bytes;

knobs! {
    /// The knobs, without those of the scanner.
    pub struct TppKnobs {
        /// Free share of a tier below which the reclaimer demotes.
        demote_scale: f64 = 0.02, 0.001, 0.2;
        /// Demotion keeps more free than allocation needs; otherwise both use the kernel's high watermark.
        decoupled: bool = true, false, true;
        /// Only pages on the active list are promoted; otherwise every page that faults.
        active_lru: bool = true, false, true;
        /// New file pages and shared memory are placed below the fastest tier.
        by_type: bool = false, false, true;
        /// A page becomes active at its second fault, as in the public patch.
        three_faults: bool = false, false, true;
    }
}

/// The rules.
#[derive(Debug, Default)]
pub struct Tpp {
    knobs: TppKnobs,
    scan: ScanPeriod,
}

/// The policy under a name, with a goal.
pub fn tpp(name: &'static str, goal: Box<dyn Goal>) -> OnFault<Tpp> {
    OnFault::new(name, Tpp::default(), goal)
}

impl Rules for Tpp {
    fn judge_fault(&mut self, fault: &Fault, lru: &mut Lru, pages: &mut PageTable) -> bool {
        let is_slow = fault.tier > TierId::FAST;
        let active = lru.is_active(pages, fault.page);
        let is_hot = active || is_slow && !self.knobs.active_lru;
        self.scan.fault(fault.now, is_hot || !is_slow);
        if is_slow && !is_hot {
            match self.knobs.three_faults {
                true => lru.mark_accessed(pages, fault.page),
                false => lru.activate(pages, fault.page),
            }
        }
        is_hot
    }

    fn no_room(&mut self) -> bool {
        self.scan.failed();
        true
    }

    fn watermarks(&self, capacity: Bytes) -> TierWatermarks {
        let kernel = Watermarks::of(capacity);
        if !self.knobs.decoupled {
            return TierWatermarks::of(kernel);
        }
        let demote = capacity.part(self.knobs.demote_scale).max(kernel.high * 2).min(capacity);
        TierWatermarks { wake: demote, stop: demote, floor: kernel.min }
    }

    fn wants(&self, fast_too: bool) -> Wants {
        Wants {
            tracking: Some(self.scan.tracking(fast_too)),
            allocation: Some(Allocation::Kernel {
                coupled: !self.knobs.decoupled,
                by_type: self.knobs.by_type,
            }),
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        [TppKnobs::table(), ScanPeriodKnobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value) || self.scan.knobs.set(knob, value)
    }
}
