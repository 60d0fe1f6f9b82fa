// SPDX-License-Identifier: Apache-2.0
//! The host's driver. It works on any implementation of [`Registers`].

use std::fmt;

use crate::config::LANES_MAX;
use crate::device::{NO_PAGE, NeoProf};
use crate::histogram::{BINS, Histogram};
use crate::monitor::State;
use crate::registers as reg;

/// PCI vendor and device: an unassigned vendor, and `NP`. Ours; the paper's prototype has its manufacturer's.
pub const PCI_ID: (u16, u16) = (0x1234, 0x4e50);

/// Size of the register window in bytes.
pub const WINDOW_BYTES: usize = 0x1_0000;

/// A register window. Each register is an aligned word of 64 bits.
pub trait Registers {
    /// Reads the word at `offset`, with its side effects.
    fn read(&mut self, offset: u32) -> u64;

    /// Writes the word at `offset`.
    fn write(&mut self, offset: u32, value: u64);
}

impl Registers for NeoProf {
    fn read(&mut self, offset: u32) -> u64 {
        NeoProf::read(self, offset)
    }

    fn write(&mut self, offset: u32, value: u64) {
        NeoProf::write(self, offset, value);
    }
}

/// The list from which hot pages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// NeoMem's queue: one register; each read takes the oldest page.
    Fifo,
    /// The CHMU's ring buffer: read between head and tail, without side effects.
    Hotlist,
}

/// The registers are not those of a NeoProf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNeoProf {
    /// The value found in place of the shape.
    pub shape: u64,
    /// The value found in place of the version of the CHMU block.
    pub version: u64,
}

impl fmt::Display for NotNeoProf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, version } = self;
        write!(f, "not NeoProf registers: shape {shape:#x}, version {version:#x}")
    }
}

impl std::error::Error for NotNeoProf {}

/// Driver of one unit. Of the unit's state, only the threshold must be reset at the end: see
/// [`Driver::silence`].
#[derive(Debug)]
pub struct Driver<R: Registers> {
    registers: R,
    source: Source,
    width: u32,
    counter_bits: u32,
    ring_entries: u64,
    /// The state monitor's counts at the last call of [`Driver::state`].
    last_state: State,
    reads: u64,
}

impl<R: Registers> Driver<R> {
    /// Identifies the unit, clears it, and takes control. Initially no page is hot.
    ///
    /// # Errors
    /// If it is not a NeoProf that this driver supports.
    pub fn new(registers: R, source: Source) -> Result<Self, NotNeoProf> {
        let mut driver = Self {
            registers,
            source,
            width: 0,
            counter_bits: 0,
            ring_entries: 0,
            last_state: State::default(),
            reads: 0,
        };
        let (shape, version) = (driver.read(reg::SHAPE), driver.read(reg::CHMU_COMMON_CAP0));
        let (width, depth) = (shape & reg::SHAPE_WIDTH_LOG2, field(shape, reg::SHAPE_DEPTH));
        let bits = field(shape, reg::SHAPE_COUNTER_BITS);
        let known = version == (1 | 1 << 8)
            && (6..=24).contains(&width)
            && (1..=LANES_MAX as u64).contains(&depth)
            && (4..=16).contains(&bits);
        if !known {
            return Err(NotNeoProf { shape, version });
        }
        driver.width = 1 << width;
        driver.counter_bits = u32::try_from(bits).unwrap_or(16);
        driver.ring_entries = driver.read(reg::CHMU_CAP0) >> 48;
        driver.silence();
        driver.clear();
        Ok(driver)
    }

    /// Sets θ: a page is hot when it was accessed more than θ times since the last clearing.
    pub fn set_threshold(&mut self, theta: u32) {
        match self.source {
            Source::Fifo => self.write(reg::SET_THRESHOLD, theta.into()),
            Source::Hotlist => {
                let reached = u64::from(theta.saturating_add(1)) << 32;
                let conf = reg::CHMU_CONF0_TRACK_BOTH | reg::CHMU_CONF0_ENABLE | reached;
                self.write(reg::CHMU_CONF0, conf);
            }
        }
    }

    /// Sets the maximum threshold, as after power-up: no page is hot.
    pub fn silence(&mut self) {
        self.write(reg::CHMU_CONF0, 0);
        self.write(reg::SET_THRESHOLD, u32::MAX.into());
    }

    /// Clears counters, monitors and queued pages.
    pub fn clear(&mut self) {
        self.write(reg::RESET, 1);
        self.last_state = State::default();
    }

    /// Takes up to `most` hot pages, oldest first, as page numbers on the device in units of 4 KiB. Returns
    /// whether more may be queued.
    pub fn hot_pages(&mut self, most: usize, out: &mut Vec<u32>) -> bool {
        match self.source {
            Source::Fifo => self.pop(most, out),
            Source::Hotlist => self.walk_ring(most, out),
        }
    }

    fn pop(&mut self, most: usize, out: &mut Vec<u32>) -> bool {
        let waiting = usize::try_from(self.read(reg::GET_NR_HOT_PAGE)).unwrap_or(usize::MAX);
        for _ in 0..waiting.min(most) {
            match self.read(reg::GET_HOT_PAGE) {
                NO_PAGE => return false,
                page => out.push(low(page)),
            }
        }
        waiting > most
    }

    fn walk_ring(&mut self, most: usize, out: &mut Vec<u32>) -> bool {
        let ring = self.read(reg::CHMU_RING);
        let (mut head, tail) = (ring & reg::CHMU_RING_HEAD, field(ring, reg::CHMU_RING_TAIL));
        let entries = self.ring_entries.max(1);
        for _ in 0..most {
            if head == tail {
                break;
            }
            let offset = reg::CHMU_HOTLIST + 8 * low(head);
            out.push(low(self.read(offset) >> self.counter_bits));
            head = (head + 1) % entries;
        }
        if head != ring & reg::CHMU_RING_HEAD {
            self.write(reg::CHMU_RING, head);
        }
        head != tail
    }

    /// Requests a copy of the histogram. The unit needs a moment for it.
    pub fn request_histogram(&mut self) {
        self.write(reg::SET_HIST_EN, 1);
    }

    /// The requested copy; `None` while it is incomplete.
    pub fn histogram(&mut self) -> Option<Histogram> {
        (self.read(reg::GET_NR_HIST_BIN) == BINS as u64).then(|| {
            let bins = std::array::from_fn(|_| low(self.read(reg::GET_HIST)));
            Histogram { bins }
        })
    }

    /// Maximum error of a count, from a histogram of this unit.
    pub fn error_bound(&self, histogram: &Histogram) -> u32 {
        histogram.error_bound((1 << self.counter_bits) - 1)
    }

    /// The counts of the state monitor since the last call or clearing.
    pub fn state(&mut self) -> State {
        let now = State {
            samples: low(self.read(reg::GET_NR_SAMPLE)),
            reads: low(self.read(reg::GET_RD_CNT)),
            writes: low(self.read(reg::GET_WR_CNT)),
        };
        now.since(&std::mem::replace(&mut self.last_state, now))
    }

    /// Counters per lane.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Accesses counted since the last clearing; wraps.
    pub fn accesses(&mut self) -> u32 {
        low(self.read(reg::GET_NR_ACCESS))
    }

    /// Accesses lost between the unit's clock domains since the last clearing; wraps.
    pub fn dropped(&mut self) -> u32 {
        low(self.read(reg::GET_NR_DROPPED))
    }

    /// Number of register reads so far.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// The register window.
    pub fn registers(&mut self) -> &mut R {
        &mut self.registers
    }

    fn read(&mut self, offset: u32) -> u64 {
        self.reads += 1;
        self.registers.read(offset)
    }

    fn write(&mut self, offset: u32, value: u64) {
        self.registers.write(offset, value);
    }
}

/// Extracts a field by its mask.
fn field(word: u64, mask: u64) -> u64 {
    (word & mask) >> mask.trailing_zeros()
}

#[expect(clippy::cast_possible_truncation, reason = "the upper half of these registers is 0")]
fn low(word: u64) -> u32 {
    word as u32
}
