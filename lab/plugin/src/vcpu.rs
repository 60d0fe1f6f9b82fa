// SPDX-License-Identifier: Apache-2.0
//! Counts of one vCPU.
//!
//! Only the vCPU's thread writes. Others read, at markers and at exit. So the counters are atomics that are
//! loaded and stored, never read-modify-written: plain moves on every host, and a reader gets a recent value.

use std::cell::UnsafeCell;
use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::args::{Args, Costs};
use tierline_trace::cache::{Caches, Effect};

/// Page size of the per-page counts, independent of the guest's mappings.
pub const PAGE_BYTES: u64 = 4096;
/// Page frames with their own count: guest-physical addresses below 64 GiB. A table of zeroes takes memory only
/// where it is written.
const FRAMES: usize = 1 << 24;

#[derive(Default)]
struct Counter(AtomicU64);

impl Counter {
    #[inline]
    fn bump(&self) {
        self.0.store(self.get() + 1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Separate counts of loads and stores.
#[derive(Default)]
struct Pair {
    loads: Counter,
    stores: Counter,
}

impl Pair {
    #[inline]
    fn bump(&self, store: bool) {
        if store { self.stores.bump() } else { self.loads.bump() }
    }

    fn get(&self) -> Accesses {
        Accesses { loads: self.loads.get(), stores: self.stores.get() }
    }
}

/// One vCPU: its caches and counts.
// Two vCPUs share neither a cache line nor a pair of lines that the host fetches together.
#[repr(align(128))]
pub struct Vcpu {
    caches: UnsafeCell<Caches>,
    all: Pair,
    fast: Pair,
    slow: Pair,
    pages: Box<[AtomicU32]>,
    beyond: Counter,
}

// SAFETY: all fields except `caches` are atomics, and `caches` is accessed only in `access`, whose contract
// restricts it to one thread.
unsafe impl Sync for Vcpu {}

impl Vcpu {
    /// A vCPU without counts.
    pub fn new(args: &Args) -> Vcpu {
        Vcpu {
            caches: UnsafeCell::new(Caches::new(args.llc)),
            all: Pair::default(),
            fast: Pair::default(),
            slow: Pair::default(),
            pages: zeroed(FRAMES),
            beyond: Counter::default(),
        }
    }

    /// Counts one access to guest RAM at `phys`. Returns its effect on memory.
    ///
    /// # Safety
    ///
    /// No two calls for one vCPU may overlap.
    #[inline]
    pub unsafe fn access(&self, phys: u64, store: bool, slow: &[Range<u64>]) -> Effect {
        self.all.bump(store);
        // SAFETY: the caller never overlaps calls, and nothing else borrows the caches.
        let effect = unsafe { &mut *self.caches.get() }.access(phys, store);
        if effect.read {
            self.miss(phys, store, slow);
        }
        effect
    }

    fn miss(&self, phys: u64, store: bool, slow: &[Range<u64>]) {
        let node = if slow.iter().any(|r| r.contains(&phys)) { &self.slow } else { &self.fast };
        node.bump(store);
        let page = usize::try_from(phys / PAGE_BYTES).ok().and_then(|frame| self.pages.get(frame));
        match page {
            Some(page) => page.store(page.load(Relaxed).saturating_add(1), Relaxed),
            None => self.beyond.bump(),
        }
    }

    /// The counts so far; QEMU counts instructions.
    pub fn totals(&self, instructions: u64, all_instructions: u64) -> Totals {
        let (all, fast, slow) = (self.all.get(), self.fast.get(), self.slow.get());
        Totals { instructions, all_instructions, all, fast, slow }
    }
}

// The allocator cannot provide zeroed atomics directly, and writing 64 MiB of zeroes per vCPU would allocate
// that memory.
fn zeroed(len: usize) -> Box<[AtomicU32]> {
    let plain = Box::into_raw(vec![0u32; len].into_boxed_slice());
    // SAFETY: AtomicU32 has the size, alignment and bit validity of u32, and the box was just given up.
    unsafe { Box::from_raw(plain as *mut [AtomicU32]) }
}

/// Separate counts of loads and stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accesses {
    /// Reads.
    pub loads: u64,
    /// Writes; an atomic read-modify-write is a load and a store.
    pub stores: u64,
}

impl Accesses {
    /// Loads and stores together.
    pub fn sum(self) -> u64 {
        self.loads + self.stores
    }
}

impl AddAssign for Accesses {
    fn add_assign(&mut self, other: Accesses) {
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

/// The counts of one or several vCPUs at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions started by instrumented code.
    pub instructions: u64,
    /// Instructions started by any code, the guest's kernel included.
    pub all_instructions: u64,
    /// All accesses to guest RAM.
    pub all: Accesses,
    /// Misses served by the fast node.
    pub fast: Accesses,
    /// Misses served by the slow node.
    pub slow: Accesses,
}

impl Totals {
    /// The modelled clock.
    pub fn modelled_ps(&self, costs: Costs) -> u64 {
        self.instructions * costs.insn_ps
            + self.fast.sum() * costs.fast_ps
            + self.slow.sum() * costs.slow_ps
    }

    /// Share of misses served by the fast node; none without a miss.
    pub fn fast_share(&self) -> Option<f64> {
        let misses = self.fast.sum() + self.slow.sum();
        (misses > 0).then(|| self.fast.sum() as f64 / misses as f64)
    }
}

impl AddAssign<&Totals> for Totals {
    fn add_assign(&mut self, other: &Totals) {
        self.instructions += other.instructions;
        self.all_instructions += other.all_instructions;
        self.all += other.all;
        self.fast += other.fast;
        self.slow += other.slow;
    }
}

/// Misses per page frame, over all vCPUs.
#[derive(Debug, PartialEq, Eq)]
pub struct Pages {
    /// From frame 0 to the last frame with a miss.
    pub misses: Vec<u32>,
    /// Misses at addresses beyond the table.
    pub beyond: u64,
}

impl Pages {
    /// Sums the tables of the vCPUs.
    pub fn sum(vcpus: &[Vcpu]) -> Pages {
        let mut misses = Vec::new();
        for vcpu in vcpus {
            let end = vcpu.pages.iter().rposition(|n| n.load(Relaxed) > 0).map_or(0, |i| i + 1);
            misses.resize(end.max(misses.len()), 0);
            for (sum, n) in misses.iter_mut().zip(&vcpu.pages) {
                *sum = u32::saturating_add(*sum, n.load(Relaxed));
            }
        }
        Pages { misses, beyond: vcpus.iter().map(|vcpu| vcpu.beyond.get()).sum() }
    }

    /// Pages with at least one miss.
    pub fn distinct(&self) -> usize {
        self.misses.iter().filter(|&&n| n > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        Args::parse(["out=o", "slow=100000-200000", "insn_ps=1", "fast_ps=10", "slow_ps=100"])
            .unwrap()
    }

    fn access(vcpu: &Vcpu, phys: u64, store: bool) {
        // SAFETY: in a test the vCPU is not shared.
        unsafe { vcpu.access(phys, store, &args().slow) };
    }

    #[test]
    fn nodes_and_kinds() {
        let vcpu = Vcpu::new(&args());
        access(&vcpu, 0x0f_ffc0, false);
        access(&vcpu, 0x10_0000, true);
        access(&vcpu, 0x1f_ffff, false);
        access(&vcpu, 0x20_0000, true);
        access(&vcpu, 0x20_0008, false);
        let totals = vcpu.totals(7, 9);
        assert_eq!(totals.all, Accesses { loads: 3, stores: 2 });
        assert_eq!(totals.fast, Accesses { loads: 1, stores: 1 });
        assert_eq!(totals.slow, Accesses { loads: 1, stores: 1 });
        assert_eq!(totals.modelled_ps(args().costs), 7 + 20 + 200);
        assert_eq!(totals.all_instructions, 9);
        assert_eq!(totals.fast_share(), Some(0.5));
    }

    #[test]
    fn no_misses_give_no_share() {
        assert_eq!(Totals::default().fast_share(), None);
    }

    #[test]
    fn pages_add_up_over_vcpus() {
        let vcpus = [Vcpu::new(&args()), Vcpu::new(&args())];
        for vcpu in &vcpus {
            access(vcpu, PAGE_BYTES, false);
            access(vcpu, PAGE_BYTES + 64, false);
            access(vcpu, PAGE_BYTES + 64, false);
        }
        access(&vcpus[1], 3 * PAGE_BYTES, true);
        access(&vcpus[1], FRAMES as u64 * PAGE_BYTES, true);
        let pages = Pages::sum(&vcpus);
        assert_eq!(pages, Pages { misses: vec![0, 4, 0, 1], beyond: 1 });
        assert_eq!(pages.distinct(), 2);
    }

    #[test]
    fn totals_add_up() {
        let one =
            Totals { instructions: 1, all: Accesses { loads: 2, stores: 3 }, ..Totals::default() };
        let mut sum = one;
        sum += &one;
        assert_eq!((sum.instructions, sum.all), (2, Accesses { loads: 4, stores: 6 }));
    }
}
