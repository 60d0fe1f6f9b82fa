// SPDX-License-Identifier: Apache-2.0
//! autonuma: moves pages to the processors that access them (kernel.numa_balancing 1).
//!
//! What it does: arms pages of every tier for hint faults. A page below the fastest tier, where the processors
//! are, is migrated there at its second fault, if that leaves the high watermark free. Nothing is ever demoted:
//! the placement of new pages and the reclaimer, which pages out inactive file pages, are those of `paging`.
//! The scan period follows the share of faults in the fastest tier, and doubles while migrations fail.
//!
//! When it helps: while fast memory has room, and between sockets, its original purpose.
//!
//! When it hurts: once fast memory is full, almost nothing moves, yet pages keep faulting, even in fast memory.
//! A page accessed once per scan counts as much as a hot one.
//!
//! Knobs: two_faults (1), scan_period_min (1 s), scan_period_max (60 s), scan_size (256 MiB),
//! private_share (0).
//!
//! Where it comes from: Linux 6.3, kernel/sched/fair.c (`should_numa_migrate_memory`) and mm/migrate.c
//! (`numamigrate_isolate_page`). The kernel's test of the last faulting processor always passes, as all
//! processors are at the fastest tier; since 5.18 a page of a slower tier must have faulted before. Without
//! `two_faults` it is the older kernel, which migrates at the first fault, as described in TPP section 5.3.

use super::goal::pack::Pack;
use super::interface::Wants;
use super::parts::on_fault::{Fault, OnFault, Rules, TierWatermarks};
use super::parts::scan_period::{self, ScanPeriod};
use super::parts::watermarks::Watermarks;
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageTable;
use crate::telemetry::lru::{Lru, LruWord};
use crate::tier::TierId;
use crate::unit::Bytes;

knobs! {
    /// The knobs, without those of the scanner.
    pub struct AutonumaKnobs {
        /// A page is migrated at its second fault, not at its first.
        two_faults: bool = true, false, true;
    }
}

/// In a page's word, above the lists' bits: the page has faulted before.
const FAULTED: u64 = 1 << 35;

/// The rules.
#[derive(Debug, Default)]
pub struct Autonuma {
    knobs: AutonumaKnobs,
    scan: ScanPeriod,
}

/// The policy under a name.
pub fn autonuma(name: &'static str) -> OnFault<Autonuma> {
    OnFault::new(name, Autonuma::default(), Box::new(Pack))
}

impl Rules for Autonuma {
    fn judge_fault(&mut self, fault: &Fault, _lru: &mut Lru, pages: &mut PageTable) -> bool {
        self.scan.fault(fault.now, fault.tier == TierId::FAST);
        let word = pages.heat::<LruWord>(fault.page).0;
        pages.set_heat(fault.page, LruWord(word | FAULTED));
        fault.tier > TierId::FAST && (word & FAULTED != 0 || !self.knobs.two_faults)
    }

    fn no_room(&mut self) -> bool {
        self.scan.failed();
        false
    }

    fn watermarks(&self, capacity: Bytes) -> TierWatermarks {
        TierWatermarks::of(Watermarks::of(capacity))
    }

    fn demotes(&self) -> bool {
        false
    }

    fn wants(&self, _fast_too: bool) -> Wants {
        self.scan.wants()
    }

    fn knobs(&self) -> Vec<Knob> {
        [AutonumaKnobs::table(), scan_period::ScanPeriodKnobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value) || self.scan.knobs.set(knob, value)
    }
}
