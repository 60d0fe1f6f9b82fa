// SPDX-License-Identifier: Apache-2.0
//! Hardware and reference model side by side, cycle by cycle. The model takes the steps of an access in the cycles in which the
//! hardware takes them, so every register can be compared in every cycle, whatever is in progress. Only two things are taken
//! from the hardware: when an access leaves the crossing, and when a write reaches the memory's clock domain.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use neoprof::{Histogram, NO_PAGE, NeoProf, registers as reg};
use tierline_core::rng::Rng;

use crate::dut::{Dut, In, Out, Shape};

/// Cycles from the crossing to each step of an access, as documented in README.md.
mod cycle {
    /// At most so many from the memory's edge to the crossing's other side.
    pub const CROSS: u64 = 4;
    pub const SELECT: u64 = 1;
    pub const COUNT: u64 = 5;
    pub const COMPARE: u64 = 16;
    pub const DECIDE: u64 = 17;
    pub const REPORT: u64 = 18;
    pub const NOTIFY: u64 = 19;
    /// A limit is effective this long after its register.
    pub const LIMIT: u64 = 2;
    /// After the last access, the pipeline counts as empty.
    pub const PIPELINE: u64 = 28;
    /// A copy waits so long after the last access.
    pub const DRAIN: u64 = 32;
    /// From the acceptance of a request to its reading, further effects, and its answer.
    pub const READ: u64 = 3;
    pub const TAKE: u64 = 4;
    pub const RELEASE: u64 = 5;
    pub const ANSWER: u64 = 6;
    pub const COPY: u64 = 64;
    pub const SETTLE: u64 = 8;
}

/// A count of the memory's side has reached its register after so many edges of the core's clock, then of the memory's, then
/// of the core's: the word before it is acknowledged, then it crosses. A clock that stands still delays it.
const ARRIVAL: [u32; 3] = [4, 4, 4];
/// Steps that are remembered to find them; in more steps they may not be found.
const PAST: usize = 1024;

/// When the two clocks have edges.
#[derive(Clone, Copy, Debug)]
pub enum Clocks {
    /// Both in every step.
    Together,
    /// Of `of` steps, `mem` and `core`, at random.
    Random { mem: u64, core: u64, of: u64 },
    /// Every `mem` and `core` steps.
    Periods { mem: u64, core: u64 },
    /// In turns of up to 64 steps, one of them stands still, but for `of_eight` in eight steps at random.
    Stalls { of_eight: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub write: bool,
    pub offset: u32,
    pub data: u64,
}

/// Values that a register may have.
#[derive(Clone, Copy, Debug)]
struct Expected {
    low: u64,
    high: u64,
    /// These bits may also be set.
    free: u64,
    or_zero: bool,
}

impl Expected {
    fn exactly(value: u64) -> Self {
        Self { low: value, high: value, free: 0, or_zero: false }
    }

    fn allows(&self, value: u64) -> bool {
        (self.low..=self.high).contains(&(value & !(self.free & !self.low)))
            || self.or_zero && value == 0
    }
}

/// The request in progress.
#[derive(Clone, Copy, Debug)]
struct Progress {
    request: Request,
    accepted: u64,
    expected: Expected,
    takes: bool,
    releases: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    None,
    Taken,
    Selected,
    Counted,
    Hot,
    Reported,
    Withheld,
}

/// An access in the pipeline.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    fate: Fate,
    write: bool,
    hotlist: bool,
    page: u32,
    count: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Run,
    Drain,
    Clear,
    Copy,
    Settle,
}

/// A step: which clocks had an edge, and samples, reads, writes and dropped accesses before it.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    mem_edge: bool,
    core_edge: bool,
    counts: [u32; 4],
}

/// Hashes of all inputs and all outputs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    pub traffic: u64,
    pub results: u64,
}

impl Fingerprint {
    #[inline]
    fn add(&mut self, input: &In, out: &Out) {
        let flags =
            |flags: [bool; 7]| flags.iter().fold(0, |all, &flag| all << 1 | u64::from(flag));
        let In { mem_edge, core_edge, reset, access, write, bus_valid, bus_write, .. } = *input;
        let edges = flags([mem_edge, core_edge, reset, access, write, bus_valid, bus_write]);
        let Out { lost, clear, restart, answer, ready, taken, .. } = *out;
        let events = flags([lost, clear, restart, answer, ready, taken, false]);
        let mix = |hash: &mut u64, word: u64| {
            *hash = (*hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        };
        mix(
            &mut self.traffic,
            u64::from(input.page) << 32 | u64::from(input.bus_addr) << 8 | edges,
        );
        mix(&mut self.traffic, input.bus_data);
        mix(&mut self.results, u64::from(out.pause) << 32 | events);
        mix(&mut self.results, out.bus_read);
    }
}

const COUNTS: [u32; 4] =
    [reg::GET_NR_SAMPLE, reg::GET_RD_CNT, reg::GET_WR_CNT, reg::GET_NR_DROPPED];
const LINE: usize = 32;

pub struct Lockstep {
    dut: Dut,
    pub model: NeoProf,
    pub clocks: Clocks,
    pub rng: Rng,
    /// Edges of the core's clock.
    pub cycles: u64,
    pub comparisons: u64,
    pub mismatches: u64,
    pub first_mismatch: Option<String>,
    pub fingerprint: Fingerprint,
    steps: u64,
    mem_edges: u64,
    stalled: (u64, bool),
    /// Page, whether it is a write, and the core's edges before it came.
    crossing: VecDeque<(u32, bool, u64)>,
    /// The core's edges before the accesses last had to wait.
    waited: u64,
    crossing_capacity: u64,
    taken: u64,
    taken_at: [u64; 16],
    /// Accesses by the cycle in which they left the crossing.
    line: [Flight; LINE],
    limits: [(bool, u32); 4],
    phase: Phase,
    walk: u64,
    clear_cycles: u64,
    quiet: u64,
    want_copy: bool,
    /// As the status registers show it.
    was_busy: bool,
    was_clearing: bool,
    copied: Option<Histogram>,
    settled: bool,
    /// The first cycle with the copy in its registers.
    announced: u64,
    interval: u64,
    /// Intervals written, the first of them in force.
    intervals: VecDeque<u64>,
    restarts_due: bool,
    clears_due: bool,
    /// Two resets came so close that they may be one clearing or two.
    clears_maybe_due: bool,
    past: Box<[Past; PAST]>,
    /// The first step after the counts were last cleared.
    counts_from: u64,
    /// Requests not yet accepted; the second of a pair is the pause before it.
    pub queue: VecDeque<(Request, u32)>,
    progress: Option<Progress>,
    answers: u64,
    last_answer: u64,
    after_reset: bool,
}

impl Lockstep {
    pub fn new(dut: Dut, shape: &Shape, seed: u64) -> Result<Self> {
        let row_bits = shape.model.width_log2 - shape.bank_log2 - 5;
        let mut pair = Self {
            dut,
            model: NeoProf::new(shape.model),
            clocks: Clocks::Together,
            rng: Rng::new(seed),
            cycles: 0,
            comparisons: 0,
            mismatches: 0,
            first_mismatch: None,
            fingerprint: Fingerprint::default(),
            steps: 0,
            mem_edges: 0,
            stalled: (0, false),
            crossing: VecDeque::new(),
            waited: 0,
            crossing_capacity: 1 << shape.crossing_log2,
            taken: 0,
            taken_at: [0; 16],
            line: [Flight::default(); LINE],
            limits: [(false, u32::MAX); 4],
            phase: Phase::Clear,
            walk: 0,
            clear_cycles: 1 << row_bits.max(6),
            quiet: 0,
            want_copy: false,
            was_busy: true,
            was_clearing: true,
            copied: None,
            settled: false,
            announced: 0,
            interval: u64::from(shape.model.sample_interval),
            intervals: VecDeque::from([u64::from(shape.model.sample_interval)]),
            restarts_due: false,
            clears_due: true,
            clears_maybe_due: false,
            past: Box::new([Past::default(); PAST]),
            counts_from: 0,
            queue: VecDeque::new(),
            progress: None,
            answers: 0,
            last_answer: 0,
            after_reset: true,
        };
        for _ in 0..8 {
            pair.dut.step(&In { mem_edge: true, core_edge: true, reset: true, ..In::default() });
        }
        pair.after_reset = false;
        pair.settle()?;
        pair.freeze()?;
        Ok(pair)
    }

    fn edges(&mut self) -> (bool, bool) {
        self.steps += 1;
        match self.clocks {
            Clocks::Together => (true, true),
            Clocks::Random { mem, core, of } => {
                (self.rng.below(of) < mem, self.rng.below(of) < core)
            }
            Clocks::Periods { mem, core } => {
                (self.steps.is_multiple_of(mem), self.steps.is_multiple_of(core))
            }
            Clocks::Stalls { of_eight } => {
                if self.stalled.0 == 0 {
                    self.stalled = (1 + self.rng.below(64), !self.stalled.1);
                }
                self.stalled.0 -= 1;
                match self.stalled.1 {
                    true => (self.rng.below(8) < of_eight, true),
                    false => (true, self.rng.below(8) < of_eight),
                }
            }
        }
    }

    /// One step of the clocks, with at most one memory access. Returns whether the memory's clock had an edge.
    #[inline]
    fn step(&mut self, access: Option<(u32, bool)>) -> bool {
        let (mem_edge, core_edge) = self.edges();
        let mut input = In { mem_edge, core_edge, ..In::default() };
        if let Some((page, write)) = access {
            (input.access, input.page, input.write) = (true, page, write);
        }
        match self.queue.front() {
            Some((request, 0)) => {
                (input.bus_valid, input.bus_write) = (true, request.write);
                (input.bus_addr, input.bus_data) = (low16(request.offset), request.data);
            }
            Some(_) => {
                // Without bus_valid the rest has no meaning.
                (input.bus_write, input.bus_addr) = (true, low16(reg::RESET));
                input.bus_data = 1;
            }
            None => {}
        }
        let counts = self.counts();
        self.past[self.steps as usize % PAST] = Past { mem_edge, core_edge, counts };
        let out = self.dut.step(&input);
        self.fingerprint.add(&input, &out);
        if core_edge {
            self.core_edge(&out, input.bus_valid);
        }
        if mem_edge {
            self.mem_edge(&out, access);
        }
        mem_edge
    }

    fn mem_edge(&mut self, out: &Out, access: Option<(u32, bool)>) {
        self.mem_edges += 1;
        match access {
            Some((_, write)) if out.lost => {
                let recent = self.taken - self.taken_at[((self.mem_edges + 8) % 16) as usize];
                if (self.crossing.len() as u64) + recent < self.crossing_capacity {
                    self.wrong(|| "an access is lost although the crossing has room".to_owned());
                }
                self.model.lose_access(write);
            }
            Some(access) => {
                self.model.observe(access.1);
                self.crossing.push_back((access.0, access.1, self.cycles));
            }
            None => self.model.idle(1),
        }
        self.taken_at[(self.mem_edges % 16) as usize] = self.taken;
        if out.clear {
            self.model.reset_monitor();
            self.clears_maybe_due &= self.clears_due;
            self.clears_due = false;
            self.counts_from = self.steps + 1;
        }
        if out.restart {
            let interval = u64::from(out.pause) + 1;
            match self.intervals.iter().position(|&written| written == interval) {
                Some(at) => drop(self.intervals.drain(..at)),
                None => self.wrong(|| {
                    format!("the memory's side has an interval of {interval}, never written")
                }),
            }
            self.restarts_due &= interval != self.interval;
            self.model.write(reg::SAMPLE_INTERVAL, interval);
        }
    }

    fn core_edge(&mut self, out: &Out, bus_valid: bool) {
        let now = self.cycles;
        self.cycles += 1;
        self.limits[(now % 4) as usize] =
            (self.model.read(reg::CHMU_CONF0) & reg::CHMU_CONF0_ENABLE != 0, self.model.theta());

        // What the bus shows in this cycle.
        let age = self.progress.map(|progress| now - progress.accepted);
        if out.answer != (age == Some(cycle::ANSWER))
            || out.ready != (age.is_none_or(|age| age >= cycle::ANSWER))
        {
            self.wrong(|| {
                "an answer, or the readiness for a request, comes too early or too late".to_owned()
            });
        }
        if age == Some(cycle::ANSWER) {
            self.answered(out.bus_read);
        }
        match age {
            Some(cycle::READ) => self.read(),
            Some(cycle::TAKE) => self.judge_head(),
            _ => {}
        }
        let busy = self.phase != Phase::Run || self.want_copy || self.quiet != 0;
        let clearing = self.phase == Phase::Clear;

        // The edge at the end of this cycle.
        self.line[now as usize % LINE] = Flight::default();
        if out.taken {
            match self.crossing.pop_front() {
                Some((page, write, _)) if self.phase == Phase::Run => {
                    self.taken += 1;
                    let flight = Flight { fate: Fate::Taken, page, write, ..Flight::default() };
                    self.line[now as usize % LINE] = flight;
                }
                _ => self.wrong(|| {
                    "an access is taken that there is not, or that should wait".to_owned()
                }),
            }
        } else if self.phase != Phase::Run {
            self.waited = now;
        } else if let Some(&(.., came)) = self.crossing.front()
            && now > came.max(self.waited) + cycle::CROSS
        {
            self.wrong(|| "an access waits in the crossing without need".to_owned());
        }
        if age == Some(cycle::READ) {
            self.acknowledge();
        }
        if self.quiet != 0 {
            self.advance(now);
        }
        self.control(out.taken);
        match age {
            Some(cycle::READ) => self.take_effect(),
            Some(cycle::TAKE) => self.reset(),
            Some(cycle::RELEASE) => {
                self.take();
                self.release();
            }
            _ => {}
        }
        (self.was_busy, self.was_clearing) = (busy, clearing);

        if out.ready && bus_valid {
            let (request, _) = self.queue.pop_front().expect("it is valid");
            let expected = Expected::exactly(0);
            self.progress =
                Some(Progress { request, accepted: now, expected, takes: false, releases: false });
        } else if let Some((_, pause)) = self.queue.front_mut() {
            *pause = pause.saturating_sub(1);
        }
    }

    /// The steps of the accesses in the pipeline.
    fn advance(&mut self, now: u64) {
        let at = |age: u64| (now.wrapping_sub(age)) as usize % LINE;
        let flight = self.line[at(cycle::NOTIFY)];
        if flight.fate == Fate::Reported && flight.hotlist {
            self.model.notify();
        }
        let flight = self.line[at(cycle::REPORT)];
        match flight.fate {
            Fate::Reported => self.model.report(flight.page, flight.count, flight.hotlist),
            Fate::Withheld => self.model.withhold(flight.hotlist),
            _ => {}
        }
        let mut flight = self.line[at(cycle::DECIDE)];
        if flight.fate == Fate::Hot && self.model.is_new(flight.page) {
            if self.model.room(flight.hotlist) > 0 {
                self.model.mark(flight.page);
                flight.fate = Fate::Reported;
            } else {
                flight.fate = Fate::Withheld;
            }
            self.line[at(cycle::DECIDE)] = flight;
        }
        let (hotlist, theta) = self.limits[(now.wrapping_sub(cycle::LIMIT) % 4) as usize];
        let flight = &mut self.line[at(cycle::COMPARE)];
        if flight.fate == Fate::Counted && u32::from(flight.count) > theta {
            (flight.fate, flight.hotlist) = (Fate::Hot, hotlist);
        }
        let flight = &mut self.line[at(cycle::COUNT)];
        if flight.fate == Fate::Selected {
            flight.count = self.model.add(flight.page);
            flight.fate = Fate::Counted;
        }
        let flight = &mut self.line[at(cycle::SELECT)];
        if flight.fate == Fate::Taken && self.model.select(flight.page, flight.write) {
            flight.fate = Fate::Selected;
        }
    }

    /// Clearing and copying.
    fn control(&mut self, taken: bool) {
        self.quiet = if taken { cycle::PIPELINE } else { self.quiet.saturating_sub(1) };
        self.walk += 1;
        if std::mem::take(&mut self.settled) && !self.want_copy {
            self.announced = self.cycles;
            self.model.set_copy(self.copied);
        }
        let next = match self.phase {
            Phase::Run if self.want_copy => Phase::Drain,
            Phase::Drain if self.walk == cycle::DRAIN => {
                self.copied = Some(self.model.histogram());
                self.want_copy = false;
                Phase::Copy
            }
            Phase::Clear if self.walk == self.clear_cycles => Phase::Run,
            Phase::Copy if self.walk == cycle::COPY => Phase::Settle,
            Phase::Settle if self.walk == cycle::SETTLE => {
                self.settled = true;
                Phase::Run
            }
            same => same,
        };
        if next != self.phase {
            (self.phase, self.walk) = (next, 0);
        }
    }

    /// The request reads its register: what the answer must be.
    fn read(&mut self) {
        let Some(mut progress) = self.progress else { return };
        let Request { write, offset, .. } = progress.request;
        if write {
            return;
        }
        progress.expected = match offset {
            reg::GET_HOT_PAGE => {
                progress.takes = self.model.hot_len() > 0;
                Expected::exactly(NO_PAGE)
            }
            reg::SAMPLE_INTERVAL => Expected::exactly(self.interval),
            reg::GET_HIST if self.cycles == self.announced + 1 => Expected::exactly(0),
            reg::STATUS => {
                let busy = self.was_busy || self.clears_due || self.restarts_due;
                let free = reg::STATUS_BUSY;
                Expected { free, ..Expected::exactly(reg::STATUS_BUSY * u64::from(busy)) }
            }
            reg::CHMU_STATUS => {
                let clearing = (1 << 16) * u64::from(self.was_clearing || self.clears_due);
                Expected { free: 1 << 16, ..Expected::exactly(self.model.read(offset) | clearing) }
            }
            _ if COUNTS.contains(&offset) => self.count_range(offset),
            _ => Expected::exactly(self.model.read(offset)),
        };
        self.progress = Some(progress);
    }

    /// A hot page leaves the queue.
    fn take(&mut self) {
        if let Some(progress) = &mut self.progress
            && progress.takes
        {
            progress.expected = Expected::exactly(self.model.read(reg::GET_HOT_PAGE));
        }
    }

    /// HEAD moves over entries that there are, or not at all.
    fn judge_head(&mut self) {
        let ring = self.model.read(reg::CHMU_RING);
        let mask = (1 << self.model.config().ring_log2) - 1;
        if let Some(progress) = &mut self.progress
            && progress.request.write
            && progress.request.offset == reg::CHMU_RING
        {
            let (head, tail) = (ring & 0xffff, ring >> 16);
            let by = progress.request.data.wrapping_sub(head) & mask;
            progress.releases = by <= tail.wrapping_sub(head) & mask;
        }
    }

    /// Entries of the hotlist are released.
    fn release(&mut self) {
        if let Some(Progress { releases: true, request, .. }) = self.progress {
            self.model.write(reg::CHMU_RING, request.data);
        }
    }

    /// Flags are cleared before they are set.
    fn acknowledge(&mut self) {
        if let Some(Progress {
            request: Request { write: true, offset: reg::CHMU_STATUS, data },
            ..
        }) = self.progress
        {
            self.model.write(reg::CHMU_STATUS, data);
        }
    }

    fn take_effect(&mut self) {
        let Some(Progress { request: Request { write: true, offset, data }, .. }) = self.progress
        else {
            return;
        };
        match offset {
            reg::RESET | reg::CHMU_RING | reg::CHMU_STATUS => {}
            reg::CHMU_CONF0 => self.model.write(offset, data & !reg::CHMU_CONF0_RESET),
            reg::SET_HIST_EN if data & 1 == 1 => {
                self.want_copy = true;
                self.model.set_copy(None);
            }
            reg::SAMPLE_INTERVAL => {
                self.interval = (data & 0xffff_ffff).max(1);
                self.intervals.push_back(self.interval);
                self.restarts_due = true;
            }
            _ => self.model.write(offset, data),
        }
    }

    fn reset(&mut self) {
        let Some(Progress { request: Request { write: true, offset, data }, .. }) = self.progress
        else {
            return;
        };
        if offset == reg::RESET && data & 1 == 1
            || offset == reg::CHMU_CONF0 && data & reg::CHMU_CONF0_RESET != 0
        {
            self.model.reset_core();
            self.line = [Flight::default(); LINE];
            (self.phase, self.walk) = (Phase::Clear, 0);
            self.settled = false;
            self.clears_maybe_due |= self.clears_due;
            (self.want_copy, self.clears_due) = (false, true);
        }
    }

    fn answered(&mut self, found: u64) {
        let Some(progress) = self.progress.take() else { return };
        self.last_answer = found;
        self.answers += 1;
        let Request { write, offset, .. } = progress.request;
        if offset == reg::STATUS && found & reg::STATUS_BUSY == 0 {
            self.clears_maybe_due = false;
        }
        if !write {
            self.comparisons += 1;
            let expected = progress.expected;
            if !expected.allows(found) {
                self.wrong(|| {
                    format!("register {offset:#x} is {found:#x}, expected {expected:x?}")
                });
            }
        }
    }

    fn wrong(&mut self, what: impl FnOnce() -> String) {
        if self.after_reset {
            return;
        }
        self.mismatches += 1;
        let cycle = self.cycles;
        self.first_mismatch.get_or_insert_with(|| format!("cycle {cycle}: {}", what()));
    }

    fn counts(&self) -> [u32; 4] {
        let state = self.model.state();
        [state.samples, state.reads, state.writes, self.model.dropped()]
    }

    /// The latest step whose counts must have reached their registers before this step.
    fn arrived(&self) -> Option<u64> {
        let (mut part, mut edges) = (0, 0);
        for step in (self.steps.saturating_sub(PAST as u64 - 1)..self.steps).rev() {
            let Past { mem_edge, core_edge, .. } = self.past[step as usize % PAST];
            edges += u32::from(if part == 1 { mem_edge } else { core_edge });
            if edges == ARRIVAL[ARRIVAL.len() - 1 - part] {
                (part, edges) = (part + 1, 0);
            }
            if part == ARRIVAL.len() {
                return Some(step);
            }
        }
        None
    }

    /// A count of the memory's side is a little old; during a clearing it is 0.
    fn count_range(&self, offset: u32) -> Expected {
        if self.clears_due {
            return Expected::exactly(0);
        }
        let at = COUNTS.iter().position(|&count| count == offset).unwrap_or(0);
        let old = self.arrived().filter(|&step| step >= self.counts_from);
        Expected {
            low: old.map_or(0, |step| self.past[step as usize % PAST].counts[at].into()),
            high: self.past[self.steps as usize % PAST].counts[at].into(),
            free: 0,
            or_zero: old.is_none() || self.clears_maybe_due,
        }
    }

    /// Makes an access at the memory's next edge; the core's clock continues.
    #[inline]
    pub fn access(&mut self, access: Option<(u32, bool)>) {
        while !self.step(access) {}
    }

    /// Issues a request, without accesses, and returns the answer.
    fn request(&mut self, request: Request) -> Result<u64> {
        let before = self.answers + self.queue.len() as u64 + u64::from(self.progress.is_some());
        self.queue.push_back((request, 0));
        for _ in 0..100_000 {
            self.step(None);
            if self.answers > before {
                return Ok(self.last_answer);
            }
        }
        bail!("no answer from the bus at {:#x}", request.offset)
    }

    fn read_dut(&mut self, offset: u32) -> Result<u64> {
        self.request(Request { write: false, offset, data: 0 })
    }

    /// Waits until nothing is in progress and the monitors' counts have arrived.
    pub fn settle(&mut self) -> Result<()> {
        for _ in 0..100_000 {
            if self.read_dut(reg::STATUS)? & reg::STATUS_BUSY == 0 && self.crossing.is_empty() {
                let idle_since = self.steps;
                while self.was_busy || self.arrived().is_none_or(|step| step <= idle_since) {
                    self.step(None);
                }
                let idle =
                    self.read_dut(reg::STATUS)? | self.read_dut(reg::CHMU_STATUS)? & 0xffff_0000;
                if idle != 0 {
                    self.wrong(|| "an idle unit is busy".to_owned());
                }
                return Ok(());
            }
        }
        bail!("the hardware stays busy, or an access stays in the crossing")
    }

    /// Hot pages queued in the hardware.
    pub fn waiting(&mut self) -> Result<u64> {
        self.read_dut(reg::GET_NR_HOT_PAGE)
    }

    /// Reads a register, which is compared with the model's.
    pub fn compare(&mut self, offset: u32) -> Result<u64> {
        self.read_dut(offset)
    }

    /// Records whether a register has the expected value.
    pub fn check(&mut self, offset: u32, found: u64, expected: u64) {
        self.comparisons += 1;
        if found != expected {
            self.wrong(|| format!("register {offset:#x} is {found:#x}, expected {expected:#x}"));
        }
    }

    /// Writes a register and waits until it is effective.
    pub fn write(&mut self, offset: u32, data: u64) -> Result<()> {
        self.request(Request { write: true, offset, data })?;
        Ok(())
    }

    /// Stops sampling for four billion cycles, so that the samples can be compared.
    pub fn freeze(&mut self) -> Result<()> {
        self.write(reg::SAMPLE_INTERVAL, FROZEN)?;
        self.settle()
    }

    /// Compares every register whose reading has no side effect.
    pub fn compare_all(&mut self) -> Result<()> {
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
        self.compare(reg::CHMU_HOTLIST + 8 * u32::try_from(head)?)?;
        self.write(reg::CHMU_RING, tail)
    }
}

/// Registers whose reading has no side effect.
pub const PLAIN: [u32; 27] = [
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

const FROZEN: u64 = 0xffff_ffff;

fn low16(offset: u32) -> u16 {
    u16::try_from(offset).unwrap_or(u16::MAX)
}
