// SPDX-License-Identifier: Apache-2.0
//! One sample: the requested fields, in the kernel's fixed order.

use std::ops::BitOr;

use perf_event_open_sys::bindings as raw;

/// The fields of a sample (`PERF_SAMPLE_`); only those named here can be requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub(crate) u64);

impl Fields {
    /// The instruction.
    pub const IP: Self = Self(raw::PERF_SAMPLE_IP as u64);
    /// Process and thread.
    pub const TID: Self = Self(raw::PERF_SAMPLE_TID as u64);
    /// The time, in nanoseconds of the monotonic clock.
    pub const TIME: Self = Self(raw::PERF_SAMPLE_TIME as u64);
    /// The address accessed.
    pub const ADDR: Self = Self(raw::PERF_SAMPLE_ADDR as u64);
    /// The CPU.
    pub const CPU: Self = Self(raw::PERF_SAMPLE_CPU as u64);
    /// The trace event's own fields.
    pub const RAW: Self = Self(raw::PERF_SAMPLE_RAW as u64);
    /// The access's cost; for loads its latency in cycles.
    pub const WEIGHT: Self = Self(raw::PERF_SAMPLE_WEIGHT as u64);
    /// Where the data came from.
    pub const DATA_SRC: Self = Self(raw::PERF_SAMPLE_DATA_SRC as u64);
    /// Registers at the interrupt.
    pub const REGS_INTR: Self = Self(raw::PERF_SAMPLE_REGS_INTR as u64);

    /// True if `field` is among these.
    pub const fn has(self, field: Self) -> bool {
        self.0 & field.0 != 0
    }
}

impl BitOr for Fields {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What was recorded; a field that was not requested is zero or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The instruction.
    pub ip: u64,
    /// The process (thread group).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The time, in nanoseconds of the monotonic clock.
    pub time: u64,
    /// The address accessed.
    pub addr: u64,
    /// The CPU.
    pub cpu: u32,
    /// The trace event's own fields.
    pub raw: &'a [u8],
    /// The access's cost.
    pub weight: u64,
    /// Where the data came from: `union perf_mem_data_src`.
    pub data_src: u64,
    /// Registers of eight bytes each.
    pub registers: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Parses the body of a sample record with `fields` and `registers` registers. `None` if it is too short.
    pub fn parse(body: &'a [u8], fields: Fields, registers: u32) -> Option<Self> {
        let mut rest = Reader(body);
        let mut sample = Self::default();
        if fields.has(Fields::IP) {
            sample.ip = rest.word()?;
        }
        if fields.has(Fields::TID) {
            (sample.pid, sample.tid) = (rest.half()?, rest.half()?);
        }
        if fields.has(Fields::TIME) {
            sample.time = rest.word()?;
        }
        if fields.has(Fields::ADDR) {
            sample.addr = rest.word()?;
        }
        if fields.has(Fields::CPU) {
            (sample.cpu, _) = (rest.half()?, rest.half()?);
        }
        if fields.has(Fields::RAW) {
            // The size includes the padding that aligns the next field.
            let size = usize::try_from(rest.half()?).ok()?;
            sample.raw = rest.take(size)?;
        }
        if fields.has(Fields::WEIGHT) {
            sample.weight = rest.word()?;
        }
        if fields.has(Fields::DATA_SRC) {
            sample.data_src = rest.word()?;
        }
        // A word says whether registers follow; there are none if the CPU was in the kernel.
        if fields.has(Fields::REGS_INTR) && rest.word()? != 0 {
            sample.registers = rest.take(usize::try_from(registers).ok()? * 8)?;
        }
        Some(sample)
    }

    /// Register number `at` among those recorded.
    pub fn register(&self, at: usize) -> Option<u64> {
        self.registers.as_chunks().0.get(at).copied().map(u64::from_ne_bytes)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn half(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn fields_come_in_the_kernels_order() {
        let bytes = body(&[0x11, 7 | 8 << 32, 99, 0xabc, 3, 42, 0x55, 1, 70, 71]);
        let fields = [Fields::WEIGHT, Fields::DATA_SRC, Fields::REGS_INTR, Fields::CPU];
        let base = Fields::IP | Fields::TID | Fields::TIME | Fields::ADDR;
        let sample = Sample::parse(&bytes, fields.into_iter().fold(base, BitOr::bitor), 2);
        let sample = sample.expect("a sample");
        assert_eq!((sample.ip, sample.pid, sample.tid), (0x11, 7, 8));
        assert_eq!((sample.time, sample.addr, sample.cpu), (99, 0xabc, 3));
        assert_eq!((sample.weight, sample.data_src), (42, 0x55));
        assert_eq!(
            (sample.register(0), sample.register(1), sample.register(2)),
            (Some(70), Some(71), None)
        );
    }

    #[test]
    fn a_trace_events_own_fields_are_cut_out_by_their_size() {
        let mut bytes = body(&[5]);
        bytes.extend(12u32.to_ne_bytes());
        bytes.extend(*b"twelve bytes");
        let sample = Sample::parse(&bytes, Fields::TIME | Fields::RAW, 0).expect("a sample");
        assert_eq!((sample.time, sample.raw), (5, &b"twelve bytes"[..]));
    }

    #[test]
    fn a_short_body_is_no_sample() {
        let bytes = body(&[1]);
        assert_eq!(Sample::parse(&bytes, Fields::TIME | Fields::ADDR, 0), None);
        let mut lying = 4000u32.to_ne_bytes().to_vec();
        lying.extend([0; 12]);
        assert_eq!(Sample::parse(&lying, Fields::RAW, 0), None);
    }

    #[test]
    fn registers_that_are_not_there_are_none() {
        let bytes = body(&[0]);
        let sample = Sample::parse(&bytes, Fields::REGS_INTR, 4).expect("a sample");
        assert_eq!(sample.register(0), None);
    }
}
