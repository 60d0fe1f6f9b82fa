// SPDX-License-Identifier: Apache-2.0
//! Hardware and reference model side by side. The model counts an access immediately, the hardware some cycles
//! later. So registers are compared when nothing is in progress; hot pages, which have a fixed order, at any
//! time.

use anyhow::{Result, bail, ensure};
use neoprof::{NO_PAGE, NeoProf, registers as reg};
use tierline_core::rng::Rng;

use crate::dut::{Dut, In, Out, Shape};

/// The two clocks: of `of` steps, the memory's clock has an edge in `mem` and the core's in `core`, at random;
/// or both in every step.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    pub mem: u64,
    pub core: u64,
    pub of: u64,
}

/// Both clocks have an edge in every step.
pub const TOGETHER: Clocks = Clocks { mem: 1, core: 1, of: 1 };

#[derive(Clone, Copy, Debug)]
struct Request {
    write: bool,
    offset: u32,
    data: u64,
}

pub struct Lockstep {
    dut: Dut,
    pub model: NeoProf,
    pub clocks: Clocks,
    pub rng: Rng,
    /// A write that takes effect in the memory's clock domain; the model applies it then.
    pending: Option<(u32, u64)>,
    /// Edges of the core's clock.
    pub cycles: u64,
    pub comparisons: u64,
    pub mismatches: u64,
    pub first_mismatch: Option<String>,
    crossing: usize,
}

impl Lockstep {
    pub fn new(dut: Dut, shape: &Shape, seed: u64) -> Result<Self> {
        let mut pair = Self {
            dut,
            model: NeoProf::new(shape.model),
            clocks: TOGETHER,
            rng: Rng::new(seed),
            pending: None,
            cycles: 0,
            comparisons: 0,
            mismatches: 0,
            first_mismatch: None,
            crossing: 1 << shape.crossing_log2,
        };
        for _ in 0..8 {
            pair.dut.step(&In { mem_edge: true, core_edge: true, reset: true, ..In::default() });
        }
        // Power-up clears the unit; at its end the state monitor restarts.
        pair.pending = Some((reg::RESET, 1));
        pair.settle()?;
        pair.freeze()?;
        Ok(pair)
    }

    /// One step of the clocks, with at most one memory access.
    fn step(&mut self, access: Option<(u32, bool)>, request: Option<Request>) -> (Out, bool, bool) {
        let Clocks { mem, core, of } = self.clocks;
        let (mem_edge, core_edge) = match of {
            1 => (true, true),
            _ => (self.rng.below(of) < mem, self.rng.below(of) < core),
        };
        let mut input = In { mem_edge, core_edge, ..In::default() };
        if let Some((page, write)) = access {
            (input.access, input.page, input.write) = (true, page, write);
        }
        if let Some(request) = request {
            (input.bus_valid, input.bus_write, input.bus_data) =
                (true, request.write, request.data);
            input.bus_addr = u16::try_from(request.offset).unwrap_or(u16::MAX);
        }
        let out = self.dut.step(&input);
        self.cycles += u64::from(core_edge);
        if mem_edge {
            match access {
                Some((_, write)) if out.lost => self.model.lose_access(write),
                Some((page, write)) => self.model.access(page, write),
                None => self.model.idle(1),
            }
            if out.restart
                && let Some((offset, data)) = self.pending.take()
            {
                self.model.write(offset, data);
            }
        }
        (out, mem_edge, core_edge)
    }

    /// Makes an access at the memory's next edge; the core's clock continues.
    #[inline]
    pub fn access(&mut self, access: Option<(u32, bool)>) {
        while !self.step(access, None).1 {}
    }

    /// A bus request, without accesses.
    fn request(&mut self, request: Request) -> Result<u64> {
        while !self.step(None, Some(request)).2 {}
        for _ in 0..1000 {
            let (out, _, core_edge) = self.step(None, None);
            if core_edge && out.answer {
                return Ok(out.bus_read);
            }
        }
        bail!("no answer from the bus at {:#x}", request.offset)
    }

    fn read_dut(&mut self, offset: u32) -> Result<u64> {
        self.request(Request { write: false, offset, data: 0 })
    }

    /// Waits until nothing is in progress and the monitors' counts have arrived.
    pub fn settle(&mut self) -> Result<()> {
        for _ in 0..40 {
            self.step(None, None);
        }
        for _ in 0..100_000 {
            if self.read_dut(reg::STATUS)? & reg::STATUS_BUSY == 0 && self.pending.is_none() {
                // The counts arrive by a handshake between registers of both clocks.
                for _ in 0..60 * self.clocks.of {
                    self.step(None, None);
                }
                return Ok(());
            }
        }
        bail!("the hardware stays busy")
    }

    /// Hot pages queued in the hardware.
    pub fn waiting(&mut self) -> Result<u64> {
        self.read_dut(reg::GET_NR_HOT_PAGE)
    }

    /// Reads a register of both and compares the values.
    pub fn compare(&mut self, offset: u32) -> Result<u64> {
        let found = self.read_dut(offset)?;
        let expected = self.model.read(offset);
        self.check(offset, found, expected);
        Ok(found)
    }

    /// Records whether a register has the expected value.
    pub fn check(&mut self, offset: u32, found: u64, expected: u64) {
        self.comparisons += 1;
        if found != expected {
            self.mismatches += 1;
            let cycle = self.cycles;
            self.first_mismatch.get_or_insert_with(|| {
                format!("cycle {cycle}: register {offset:#x} is {found:#x}, expected {expected:#x}")
            });
        }
    }

    /// Takes a hot page while accesses are in progress. The model is ahead, so the hardware may have none yet.
    pub fn pop_live(&mut self) -> Result<()> {
        ensure!(self.live_is_exact(), "pages may be withheld");
        let found = self.read_dut(reg::GET_HOT_PAGE)?;
        if found != u64::from(NO_PAGE) {
            let expected = self.model.read(reg::GET_HOT_PAGE);
            self.check(reg::GET_HOT_PAGE, found, expected);
        }
        Ok(())
    }

    /// Whether the list cannot become full before the hardware has caught up with the model.
    pub fn live_is_exact(&self) -> bool {
        self.model.hot_len() + self.crossing + 64 < 1 << self.model.config().fifo_log2
    }

    /// Writes a register of both.
    pub fn write(&mut self, offset: u32, data: u64) -> Result<()> {
        let at_memory = match offset {
            reg::SAMPLE_INTERVAL => true,
            reg::RESET => data & 1 == 1,
            reg::CHMU_CONF0 => data & reg::CHMU_CONF0_RESET != 0,
            _ => false,
        };
        if at_memory {
            self.pending = Some((offset, data));
        }
        self.request(Request { write: true, offset, data })?;
        if at_memory {
            self.settle()?;
        } else {
            self.model.write(offset, data);
        }
        Ok(())
    }

    /// Stops sampling for four billion cycles, so that the samples can be compared.
    pub fn freeze(&mut self) -> Result<()> {
        self.write(reg::SAMPLE_INTERVAL, FROZEN)
    }

    /// Compares every register whose reading has no side effect.
    pub fn compare_all(&mut self) -> Result<()> {
        const PLAIN: [u32; 27] = [
            reg::SET_THRESHOLD,
            reg::GET_NR_HOT_PAGE,
            reg::GET_NR_SAMPLE,
            reg::GET_RD_CNT,
            reg::GET_WR_CNT,
            reg::GET_NR_HIST_BIN,
            reg::CONTROL,
            reg::SAMPLE_INTERVAL,
            reg::STATUS,
            reg::GET_NR_ACCESS,
            reg::GET_NR_DROPPED,
            reg::GET_NR_WITHHELD,
            reg::SHAPE,
            reg::CHMU_COMMON_CAP0,
            reg::CHMU_COMMON_CAP1,
            reg::CHMU_CAP0,
            reg::CHMU_CAP1,
            reg::CHMU_CAP2,
            reg::CHMU_CAP3,
            reg::CHMU_CONF0,
            reg::CHMU_CONF1,
            reg::CHMU_CONF2,
            reg::CHMU_STATUS,
            reg::CHMU_RING,
            reg::CHMU_BITMAP,
            reg::RESET,
            reg::SET_HIST_EN,
        ];
        for offset in PLAIN {
            self.compare(offset)?;
        }
        // A random offset, mostly without a register.
        let nowhere = 8 * u32::try_from(self.rng.below(0x140)).unwrap_or(0);
        if ![reg::GET_HOT_PAGE, reg::GET_HIST].contains(&nowhere) {
            self.compare(nowhere)?;
        }
        Ok(())
    }

    /// Compares the entries of the hotlist and takes them.
    pub fn take_hotlist(&mut self) -> Result<()> {
        let ring = self.compare(reg::CHMU_RING)?;
        let (mut head, tail) = (ring & 0xffff, ring >> 16 & 0xffff);
        let entries = 1 << self.model.config().ring_log2;
        while head != tail {
            self.compare(reg::CHMU_HOTLIST + 8 * u32::try_from(head)?)?;
            head = (head + 1) % entries;
        }
        self.write(reg::CHMU_RING, tail)
    }
}

const FROZEN: u64 = 0xffff_ffff;
