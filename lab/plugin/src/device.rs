// SPDX-License-Identifier: Apache-2.0
//! NeoProf in the slow node's memory: the reference model of `crates/neoprof`, with the accesses that miss the
//! caches.
//!
//! It runs at 400 MHz (NeoMem, table III) of the modelled clock, so the guest's idle time is not included. Each
//! access takes one cycle: a line read, or a line written back.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neoprof::{Config, NO_PAGE, NeoProf, registers as reg};
use serde::Serialize;
use tierline_trace::cache::Effect;

use crate::args::Args;
use crate::vcpu::PAGE_BYTES;

/// Misses between two readings of the clock, which requires summing over all vCPUs.
const CLOCK_EVERY: u32 = 1024;

/// The unit, and statistics of its use.
pub struct Device {
    memory: Range<u64>,
    state: Mutex<Unit>,
}

struct Unit {
    unit: NeoProf,
    /// Cycles so far.
    cycles: u64,
    taken: u32,
    counts: DeviceUse,
    log: Option<BufWriter<File>>,
}

/// Statistics of its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceUse {
    /// Lines read from its memory.
    pub memory_reads: u64,
    /// Lines written to it.
    pub memory_writes: u64,
    /// Registers read.
    pub register_reads: u64,
    /// Of these, hot pages.
    pub hot_pages_read: u64,
    /// Registers written.
    pub register_writes: u64,
    /// Of these, clearings.
    pub clearings: u64,
    /// Cycles of its clock.
    pub cycles: u64,
}

/// An entry of the log: a little-endian u32. Its low two bits give the kind of entry, the rest is the page or
/// register. After a register follows its value, a little-endian u64. `hardware/neoprof/check --replay` reads
/// the log.
#[derive(Clone, Copy)]
enum LogEntry {
    MemoryRead = 0,
    MemoryWrite = 1,
    RegisterRead = 2,
    RegisterWrite = 3,
}

impl Device {
    /// The unit, if the arguments request it. It covers the slow node from its first byte to its last.
    ///
    /// # Errors
    /// If there is no slow node, or the log cannot be created.
    pub fn open(args: &Args) -> Result<Option<Device>, String> {
        if args.neoprof.is_none() {
            return Ok(None);
        }
        let ends = |of: fn(&Range<u64>) -> u64| args.slow.iter().map(of);
        let memory = ends(|r| r.start).min().zip(ends(|r| r.end).max());
        let (start, end) = memory.ok_or("`neoprof=`: expected a slow node (slow=LO-HI)")?;
        let log = args.neoprof_log.as_ref().map(|path| {
            let wrong = |error| format!("`neoprof_log={}`: {error}", path.display());
            File::create(path).map(BufWriter::new).map_err(wrong)
        });
        let state = Unit {
            unit: NeoProf::new(Config::default()),
            cycles: 0,
            taken: 0,
            counts: DeviceUse::default(),
            log: log.transpose()?,
        };
        Ok(Some(Device { memory: start..end, state: Mutex::new(state) }))
    }

    /// Counts the effect of an access at `phys`; `now` returns the modelled clock, ns.
    pub fn take(&self, phys: u64, effect: Effect, now: impl FnOnce() -> u64) {
        let page = |phys: u64| {
            let inside = self.memory.contains(&phys).then(|| phys - self.memory.start)?;
            u32::try_from(inside / PAGE_BYTES).ok()
        };
        let read = effect.read.then(|| page(phys)).flatten();
        let written = effect.written.and_then(page);
        if read.is_none() && written.is_none() {
            return;
        }
        let mut state = self.lock();
        read.into_iter().for_each(|page| state.access(page, false));
        written.into_iter().for_each(|page| state.access(page, true));
        state.taken += 1;
        if state.taken.is_multiple_of(CLOCK_EVERY) {
            state.run_to(now());
        }
    }

    /// Reads a register at `now` of the modelled clock, ns.
    pub fn read(&self, offset: u32, now: u64) -> u64 {
        let mut state = self.lock();
        state.run_to(now);
        let value = state.unit.read(offset);
        state.counts.register_reads += 1;
        let is_page =
            offset == reg::GET_HOT_PAGE && value != NO_PAGE || offset >= reg::CHMU_HOTLIST;
        state.counts.hot_pages_read += u64::from(is_page);
        state.log_register(LogEntry::RegisterRead, offset, value);
        value
    }

    /// Writes a register at `now` of the modelled clock, ns.
    pub fn write(&self, offset: u32, value: u64, now: u64) {
        let mut state = self.lock();
        state.run_to(now);
        state.unit.write(offset, value);
        state.counts.register_writes += 1;
        state.counts.clearings += u64::from(offset == reg::RESET && value & 1 == 1);
        state.log_register(LogEntry::RegisterWrite, offset, value);
    }

    /// Resets the unit, on a reset of the machine.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.unit.write(reg::RESET, 1);
        state.log_register(LogEntry::RegisterWrite, reg::RESET, 1);
    }

    /// The statistics so far.
    pub fn counts(&self) -> DeviceUse {
        let state = self.lock();
        DeviceUse { cycles: state.cycles, ..state.counts }
    }

    /// Writes the rest of the log.
    pub fn finish(&self) {
        let mut state = self.lock();
        let ended = state.log.as_mut().map_or(Ok(()), Write::flush);
        state.report_failure(ended);
    }

    fn lock(&self) -> MutexGuard<'_, Unit> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unit {
    fn access(&mut self, page: u32, write: bool) {
        self.unit.access(page, write);
        self.cycles += 1;
        let count =
            if write { &mut self.counts.memory_writes } else { &mut self.counts.memory_reads };
        *count += 1;
        self.log(if write { LogEntry::MemoryWrite } else { LogEntry::MemoryRead }, page, &[]);
    }

    /// Advances the unit to `now_ns` with idle cycles. After a burst the unit may already be ahead of the
    /// clock.
    fn run_to(&mut self, now_ns: u64) {
        let cycles = now_ns / 5 * 2;
        if cycles > self.cycles {
            self.unit.idle(cycles - self.cycles);
            self.cycles = cycles;
        }
    }

    fn log_register(&mut self, entry: LogEntry, offset: u32, value: u64) {
        self.log(entry, offset, &value.to_le_bytes());
    }

    fn log(&mut self, entry: LogEntry, what: u32, value: &[u8]) {
        let Some(log) = &mut self.log else { return };
        let word = (what << 2 | entry as u32).to_le_bytes();
        let written = log.write_all(&word).and_then(|()| log.write_all(value));
        self.report_failure(written);
    }

    fn report_failure(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            eprintln!("lab-plugin: cannot write NeoProf's log, which ends here: {error}");
            self.log = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(more: &str) -> Device {
        let words = ["out=o", "slow=8000-a000+20000-30000", "neoprof=socket", more];
        let args = Args::parse(words.into_iter().filter(|word| !word.is_empty())).unwrap();
        Device::open(&args).unwrap().unwrap()
    }

    const READ: Effect = Effect { read: true, written: None };

    #[test]
    fn it_counts_accesses_that_reach_its_memory() {
        let device = device("");
        device.write(reg::SET_THRESHOLD, 1, 0);
        for phys in [0x8000, 0x8040, 0x7fff, 0x3_0000, 0x2_0000] {
            device.take(phys, READ, || 0);
        }
        let back = Effect { read: true, written: Some(0x2_0fc0) };
        device.take(0x100, back, || 0);
        let pages = [(); 3].map(|()| device.read(reg::GET_HOT_PAGE, 0));
        assert_eq!(pages, [0, 0x18, NO_PAGE], "numbered from the node's first byte");
        let want = DeviceUse {
            memory_reads: 3,
            memory_writes: 1,
            register_reads: 3,
            hot_pages_read: 2,
            register_writes: 1,
            clearings: 0,
            cycles: 4,
        };
        assert_eq!(device.counts(), want);
    }

    #[test]
    fn its_clock_follows_the_modelled_clock() {
        let device = device("");
        device.write(reg::SAMPLE_INTERVAL, 1, 0);
        (0..10).for_each(|_| device.take(0x8000, READ, || 0));
        assert_eq!(device.read(reg::GET_NR_SAMPLE, 0), 10, "ahead of the clock");
        assert_eq!(device.read(reg::GET_NR_SAMPLE, 100), 40, "400 MHz");
        assert_eq!(device.read(reg::GET_RD_CNT, 100), 10);
    }

    #[test]
    fn the_log_records_everything_in_order() {
        let path = std::env::temp_dir().join(format!("lab-plugin-{}-neoprof", std::process::id()));
        let device = device(&format!("neoprof_log={}", path.display()));
        device.take(0x9000, Effect { read: true, written: Some(0x8000) }, || 0);
        device.write(reg::SET_THRESHOLD, 5, 0);
        device.read(reg::GET_NR_ACCESS, 0);
        device.finish();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut want = [1 << 2, 1, reg::SET_THRESHOLD << 2 | 3].map(u32::to_le_bytes).concat();
        want.extend(5u64.to_le_bytes());
        want.extend((reg::GET_NR_ACCESS << 2 | 2).to_le_bytes());
        want.extend(2u64.to_le_bytes());
        assert_eq!(bytes, want);
    }
}
