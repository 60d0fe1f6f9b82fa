// SPDX-License-Identifier: Apache-2.0
//! What the operating system's part of tiering costs, apart from the bytes it moves.
//!
//! These are properties of kernels rather than of memory, so all machines share them unless their file
//! says otherwise. Sources: HeMem's own simulator takes 2 us a fault, 4 us a shootdown, 1 to 2 us a page
//! move; cori's takes 1 us a migration. None is fitted.

use serde::{Deserialize, Serialize};
use tierline_core::port::PageKind;

/// Costs in ns, and the copy engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// A first touch: fault and zeroing aside from bandwidth.
    pub fault_ns: f64,
    /// A hint fault, to the thread that takes it.
    pub hint_fault_ns: f64,
    /// One PEBS or IBS record, to the thread that is sampled: the assist and its share of the interrupt.
    /// From ARMS: 0.3 % of a program at one miss in 10,000 (7.3), with about 100 ns a miss.
    pub sample_ns: f64,
    /// Unmapping, bookkeeping and remapping of a moved base page, to the mover.
    pub move_base_ns: f64,
    /// The same of a huge page.
    pub move_huge_ns: f64,
    /// Splitting a huge page, to who splits it: 260 to 420 us with `process_madvise` on Linux 6.18 in a virtual
    /// machine (our measurement).
    pub split_ns: f64,
    /// A TLB shootdown, to the mover that waits for it.
    pub shootdown_ns: f64,
    /// The interrupt of a TLB shootdown, to each core that runs the program.
    pub shootdown_victim_ns: f64,
    /// Pages whose shootdowns go together.
    pub shootdown_batch: f64,
    /// Lines that a copying thread keeps in flight: non-temporal stores behind streaming loads.
    pub copy_in_flight: f64,
    /// Copying threads.
    pub copy_threads: f64,
    /// Writing a base page out and waiting for it: to the reclaimer, or to the thread that allocates where nothing
    /// is free. A flash device takes about so long (ours).
    pub page_out_ns: f64,
    /// Reading it back, and what is read ahead with it, to the thread that waits for it (ours).
    pub page_in_ns: f64,
    /// As `page_out_ns`, of a page that has no file to go back to and goes to swap.
    pub swap_out_ns: f64,
    /// As `page_in_ns`, from swap.
    pub swap_in_ns: f64,
    /// Clearing and reading the accessed bit of a page, to the scanner.
    pub scan_ns: f64,
}

impl Costs {
    /// Writing out a page of that kind, and reading it back.
    pub fn paging(&self, kind: PageKind) -> [f64; 2] {
        match kind {
            PageKind::File => [self.page_out_ns, self.page_in_ns],
            PageKind::Anonymous | PageKind::Shared => [self.swap_out_ns, self.swap_in_ns],
        }
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            fault_ns: 2_000.0,
            hint_fault_ns: 1_500.0,
            sample_ns: 300.0,
            move_base_ns: 1_500.0,
            move_huge_ns: 5_000.0,
            split_ns: 300_000.0,
            shootdown_ns: 4_000.0,
            shootdown_victim_ns: 1_000.0,
            shootdown_batch: 32.0,
            copy_in_flight: 16.0,
            copy_threads: 1.0,
            page_out_ns: 100_000.0,
            page_in_ns: 100_000.0,
            swap_out_ns: 100_000.0,
            swap_in_ns: 100_000.0,
            scan_ns: 10.0,
        }
    }
}
