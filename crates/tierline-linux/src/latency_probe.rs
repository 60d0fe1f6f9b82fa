// SPDX-License-Identifier: Apache-2.0
//! Loaded latency of a tier, measured by timing loads: for machines without the CPU's counters.
//!
//!
//! What it measures: the time of one dependent load that misses every cache and hits the TLB, from
//! the CPU that the caller runs on, under the tier's present load. Each round visits lines of a 4 MiB
//! buffer on one of the tier's nodes in random order; the address of each line is read from the line
//! before. The lines are flushed first (`clflush`), so a buffer smaller than the last level cache is
//! enough; it is in huge pages if the kernel provides them. In an emulator without caches it measures
//! the emulator.
//!
//! What it costs: a round of 512 loads takes 512 times the latency - 50 to 200 us - and about as long
//! for flushing. The default of 4 rounds a second is 2048 loads a second, below 0.2 % of one CPU per
//! tier, and 4 MiB of memory.

use std::io;
use std::ptr::NonNull;
use std::time::Instant;

use tierline_core::tier::NodeId;
use tierline_core::unit::{BASE_PAGE, Bytes, Nanos};

use crate::error::{Error, Result};
use crate::mover::{KernelSyscall, MoveSyscall};

/// Size of the buffer.
pub const BUFFER: Bytes = Bytes::from_mib(4);
/// Dependent loads in one round.
pub const LOADS: usize = 512;
/// The median is taken over this many rounds.
const KEPT: usize = 9;
const LINE: usize = 64;
const HUGE: usize = 2 << 20;
/// `MPOL_BIND` of the kernel's `mempolicy.h`.
const MPOL_BIND: i32 = 2;

/// Measures one node.
#[derive(Debug)]
pub struct LatencyProbe {
    buffer: Buffer,
    node: NodeId,
    /// Line numbers in the order of the chase; each round uses a slice of it.
    order: Vec<usize>,
    next: usize,
    rounds: Vec<Nanos>,
}

impl LatencyProbe {
    /// A probe of `node`: allocates the buffer there and checks its node.
    ///
    /// # Errors
    /// `Error::Missing` on a CPU whose caches cannot be flushed, or if the buffer is on another node;
    /// `Error::Call` if memory or the binding is refused.
    pub fn new(node: NodeId) -> Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(missing(node, "only x86-64 has a cache flush that programs may use"));
        }
        let buffer = Buffer::on(node, BUFFER)?;
        buffer.check(node)?;
        let lines = usize::try_from(BUFFER.0).unwrap_or(0) / LINE;
        Ok(Self { buffer, node, order: shuffled(lines), next: 0, rounds: Vec::new() })
    }

    /// The node it measures.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Does one round and returns the median time per load of the last nine rounds.
    pub fn measure(&mut self) -> Nanos {
        if self.next + LOADS > self.order.len() {
            self.next = 0;
        }
        let lines = &self.order[self.next..self.next + LOADS];
        self.next += LOADS;
        let took = self.buffer.chase(lines);
        if self.rounds.len() == KEPT {
            self.rounds.remove(0);
        }
        self.rounds.push(took);
        median(&self.rounds)
    }
}

/// Reads memory of one node, as fast as one thread can.
#[derive(Debug)]
pub struct Reader {
    buffer: Buffer,
    next: usize,
}

impl Reader {
    /// Bytes read in one call.
    const PART: usize = 1 << 20;

    /// A reader of this much memory on `node`.
    ///
    /// # Errors
    /// As [`LatencyProbe::new`].
    pub fn new(node: NodeId, length: Bytes) -> Result<Self> {
        let buffer = Buffer::on(node, length)?;
        buffer.check(node)?;
        Ok(Self { buffer, next: 0 })
    }

    /// Reads the next part, one word of each line. Returns its size.
    pub fn read_part(&mut self) -> Bytes {
        let lines = Self::PART.min(self.buffer.length) / LINE;
        if (self.next + lines) * LINE > self.buffer.length {
            self.next = 0;
        }
        let mut sum = 0usize;
        for line in self.next..self.next + lines {
            // SAFETY: `at` checks that the line is in the buffer, which is mapped, ours alone, and aligned.
            sum = sum.wrapping_add(unsafe { self.buffer.at(line).cast::<usize>().read_volatile() });
        }
        std::hint::black_box(sum);
        self.next += lines;
        Bytes((lines * LINE) as u64)
    }
}

fn median(rounds: &[Nanos]) -> Nanos {
    let mut sorted = rounds.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// The numbers below `count` in an order that prefetchers cannot predict; the same each time.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (at as u64 + 1)).unwrap_or(0);
        order.swap(at, other);
    }
    order
}

/// A private mapping, aligned to a huge page inside a larger one.
#[derive(Debug)]
struct Buffer {
    mapping: NonNull<u8>,
    mapped: usize,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the buffer alone and may be used from any thread, one at a time.
unsafe impl Send for Buffer {}

impl Buffer {
    fn on(node: NodeId, length: Bytes) -> Result<Self> {
        let length = usize::try_from(length.0).unwrap_or(HUGE);
        let mapped = length + HUGE;
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses overlaps no memory of ours.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), mapped, prot, flags, -1, 0) };
        let mapping = match NonNull::new(at.cast::<u8>()) {
            Some(mapping) if at != libc::MAP_FAILED => mapping,
            _ => return Err(call("mmap of the probe buffer")),
        };
        let skip = mapping.as_ptr().align_offset(HUGE);
        // SAFETY: `skip` is below 2 MiB, and the mapping is 2 MiB longer than the buffer.
        let start = unsafe { mapping.add(skip) };
        let buffer = Self { mapping, mapped, start, length };
        buffer.bind(node)?;
        // SAFETY: the whole buffer is mapped, and advice about page size changes no contents.
        // After a refusal, base pages are used.
        unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_HUGEPAGE) };
        // SAFETY: the whole buffer is mapped, writable and ours alone.
        unsafe { start.as_ptr().write_bytes(1, length) };
        Ok(buffer)
    }

    fn bind(&self, node: NodeId) -> Result<()> {
        let mut mask = [0u64; 16];
        let word = usize::from(node.0) / 64;
        let Some(word) = mask.get_mut(word) else {
            return Err(missing(node, "the node's number is above 1023"));
        };
        *word = 1 << (node.0 % 64);
        // SAFETY: the range is our own mapping, and the kernel reads 1024 bits of `mask`, which has that
        // length and lives until the call returns. (The kernel uses one bit less than the given number.)
        let answer = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.length,
                MPOL_BIND,
                mask.as_ptr(),
                1025usize,
                0,
            )
        };
        if answer == 0 { Ok(()) } else { Err(call(&format!("mbind to node {}", node.0))) }
    }

    fn check(&self, node: NodeId) -> Result<()> {
        let start = self.start.as_ptr() as u64;
        let pages: Vec<u64> = (0..Bytes(self.length as u64).base_pages())
            .map(|page| start + page * BASE_PAGE.0)
            .collect();
        let mut status = vec![-1; pages.len()];
        let answer =
            KernelSyscall::default().move_pages(std::process::id(), &pages, None, &mut status, 0);
        answer.map_err(|errno| Error::Call {
            call: "move_pages on the probe buffer".into(),
            source: io::Error::from_raw_os_error(errno),
        })?;
        match status.iter().find(|code| **code != i32::from(node.0)) {
            None => Ok(()),
            Some(code) => Err(missing(node, &format!("the kernel put a page of it on {code}"))),
        }
    }

    /// Links `lines` to a chain, flushes them, and walks it. Returns the time of one step.
    fn chase(&mut self, lines: &[usize]) -> Nanos {
        for pair in lines.windows(2) {
            self.line(pair[0], pair[1]);
        }
        let Some(&first) = lines.first() else { return Nanos::ZERO };
        lines.iter().for_each(|&line| flush(self.at(line)));
        fence();
        let began = Instant::now();
        let mut line = first;
        for _ in 1..lines.len() {
            // SAFETY: `line` was written by `self.line` above as the number of a line of the buffer.
            line = unsafe { self.at(line).cast::<usize>().read_volatile() };
        }
        std::hint::black_box(line);
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Nanos(took / lines.len().saturating_sub(1).max(1) as u64)
    }

    fn line(&mut self, line: usize, next: usize) {
        // SAFETY: `at` checks that the line is in the buffer, which is aligned for a usize.
        unsafe { self.at(line).cast::<usize>().write_volatile(next) };
    }

    fn at(&self, line: usize) -> *mut u8 {
        assert!((line + 1) * LINE <= self.length);
        // SAFETY: the line is in the buffer (asserted).
        unsafe { self.start.as_ptr().add(line * LINE) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `on`, is unmapped once, and no pointer into it remains.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(target_arch = "x86_64")]
fn flush(line: *mut u8) {
    // SAFETY: SSE2 is part of x86-64, and flushing a mapped line changes no contents.
    unsafe { std::arch::x86_64::_mm_clflush(line) };
}

#[cfg(not(target_arch = "x86_64"))]
fn flush(_line: *mut u8) {}

#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: SSE2 is part of x86-64, and a fence changes no contents.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

fn call(what: &str) -> Error {
    Error::Call { call: what.into(), source: io::Error::last_os_error() }
}

fn missing(node: NodeId, why: &str) -> Error {
    Error::Missing {
        what: format!("a latency probe on node {}", node.0),
        why: why.into(),
        hint: "run without loaded latency: placement then uses the firmware's figures".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_visits_every_line_once() {
        let mut order = shuffled(1000);
        assert_ne!(order[..4], [0, 1, 2, 3]);
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn the_median_ignores_an_interrupt() {
        assert_eq!(median(&[Nanos(90), Nanos(100_000), Nanos(95)]), Nanos(95));
        assert_eq!(median(&[]), Nanos::ZERO);
    }

    #[test]
    fn node_0_is_measured_if_the_sandbox_permits_binding() {
        let Ok(mut probe) = LatencyProbe::new(NodeId(0)) else { return };
        let latency = (0..5).map(|_| probe.measure()).next_back().expect("five rounds");
        assert!(latency > Nanos(5) && latency < Nanos::from_millis(1), "{latency}");
    }
}
