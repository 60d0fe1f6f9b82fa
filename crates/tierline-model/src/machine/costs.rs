// SPDX-License-Identifier: Apache-2.0
//! Costs of the operating system's part of tiering, apart from the copied bytes.
//!
//! These depend on kernels rather than on memory, so all machines share them unless their file states
//! otherwise. Sources: HeMem's simulator uses 2 us for a fault, 4 us for a shootdown, 1 to 2 us for a page
//! move; cori's uses 1 us for a migration. None is fitted.

use serde::{Deserialize, Serialize};
use tierline_core::port::PageKind;

/// Costs in ns, and the parameters of the copy engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// A first touch: fault and zeroing, apart from bandwidth.
    pub fault_ns: f64,
    /// A hint fault; paid by the faulting thread.
    pub hint_fault_ns: f64,
    /// One PEBS or IBS record: the assist and its share of the interrupt; paid by the sampled thread. From
    /// ARMS: 0.3 % of a program at one record per 10,000 misses (7.3), with about 100 ns per miss.
    pub sample_ns: f64,
    /// Unmapping, bookkeeping and remapping of a base page; paid by the mover.
    pub move_base_ns: f64,
    /// The same for a huge page.
    pub move_huge_ns: f64,
    /// Splitting a huge page; paid by the thread that splits it. 260 to 420 us with `process_madvise` on Linux
    /// 6.18 in a virtual machine (our measurement).
    pub split_ns: f64,
    /// A TLB shootdown; paid by the mover, which waits for it.
    pub shootdown_ns: f64,
    /// The interrupt of a TLB shootdown; paid by each core that runs the program.
    pub shootdown_victim_ns: f64,
    /// Pages per shootdown.
    pub shootdown_batch: f64,
    /// Lines that a copying thread keeps in flight: non-temporal stores after streaming loads.
    pub copy_in_flight: f64,
    /// Copying threads.
    pub copy_threads: f64,
    /// Writing a base page out and waiting for it; paid by the reclaimer, or by the allocating thread if no
    /// memory is free. Typical of a flash device (ours).
    pub page_out_ns: f64,
    /// Reading it back with read-ahead; paid by the waiting thread (ours).
    pub page_in_ns: f64,
    /// As `page_out_ns`, for a page without a file, which goes to swap.
    pub swap_out_ns: f64,
    /// As `page_in_ns`, from swap.
    pub swap_in_ns: f64,
    /// Clearing and reading the accessed bit of a page; paid by the scanner.
    pub scan_ns: f64,
}

impl Costs {
    /// Costs of writing out a page of this kind, and of reading it back.
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
