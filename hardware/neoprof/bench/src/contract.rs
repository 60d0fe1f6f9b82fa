// SPDX-License-Identifier: Apache-2.0
//! What registers.toml promises to a host that uses nothing but the bus: directed tests, each at several clock ratios. They
//! know nothing of the hardware's timing and do not use the model in lockstep.

use std::path::Path;

use anyhow::{Result, ensure};
use neoprof::driver::{Registers, Source};
use neoprof::{Config, Driver, NeoProf, registers as reg};

use crate::dut::{Dut, In, Out, Shape};

/// Periods of the memory's clock and of the core's, in steps.
const CLOCKS: [(u64, u64); 6] = [(1, 1), (4, 1), (1, 4), (3, 2), (2, 3), (8, 1)];

/// A promise and its test.
type Promise = (&'static str, fn(&mut Host) -> Result<()>);

const PROMISES: [Promise; 10] = [
    ("a histogram is announced when it is whole", histogram_is_whole),
    ("a driver that polls GET_NR_HIST_BIN gets the histogram", driver_reads_a_whole_histogram),
    ("a reset is reported until no old count is left", reset_is_reported),
    ("losses during a clearing are counted", losses_in_a_clearing_are_counted),
    ("the last of several intervals holds", last_interval_holds),
    ("a reset amid others is not lost", last_reset_holds),
    ("page ffffffff is told from none", last_page_is_a_page),
    ("slots of the hotlist without an entry read as 0", empty_slots_read_as_zero),
    ("requests in every cycle take each page once", pops_in_every_cycle),
    ("a count is as recent as promised, also if a clock stands still", counts_are_recent),
];

/// Runs every test at every clock ratio; returns the number of runs and a line for each failure.
pub fn run(library: &Path, shape: &Shape) -> Result<(usize, Vec<String>)> {
    let mut failures = Vec::new();
    let mut runs = 0;
    for (name, test) in PROMISES {
        for (mem, core) in CLOCKS {
            let mut host = Host::new(library, shape, mem, core)?;
            runs += 1;
            if let Err(error) = test(&mut host) {
                failures.push(format!("{name}, periods {mem}:{core}: {error}"));
            }
        }
    }
    Ok((runs, failures))
}

/// The hardware behind its bus, with accesses in the background.
pub struct Host {
    dut: Dut,
    config: Config,
    library: std::path::PathBuf,
    shape: Shape,
    mem: u64,
    core: u64,
    /// The clocks stand still in turns of so many steps; 0: never.
    turns: u64,
    steps: u64,
    /// Of each step: which clocks had an edge, and the accesses before it. Only if the clocks stand still in turns.
    past: Vec<(bool, bool, u64)>,
    /// The length of `past` before the edge at which the last request was accepted.
    accepted: usize,
    /// Pages accessed in turn at every edge of the memory's clock.
    traffic: Option<std::ops::Range<u32>>,
    next: u32,
    made: u64,
    lost: u64,
    /// Cycles of the core's clock between a request and the next.
    pause: u32,
}

impl Host {
    fn new(library: &Path, shape: &Shape, mem: u64, core: u64) -> Result<Self> {
        let mut host = Self {
            dut: Dut::new(library, 7)?,
            config: shape.model,
            library: library.to_owned(),
            shape: *shape,
            mem,
            core,
            turns: 0,
            steps: 0,
            past: Vec::new(),
            accepted: 0,
            traffic: None,
            next: 0,
            made: 0,
            lost: 0,
            pause: 0,
        };
        for _ in 0..8 {
            host.dut.step(&In { mem_edge: true, core_edge: true, reset: true, ..In::default() });
        }
        host.settle()?;
        Ok(host)
    }

    fn again(&self) -> Result<Self> {
        Self::new(&self.library, &self.shape, self.mem, self.core)
    }

    /// One step; returns the outputs and whether the core's clock had an edge.
    fn step(&mut self, request: Option<(bool, u32, u64)>) -> (Out, bool) {
        let turn = self.steps.checked_div(self.turns).map(|turns| turns % 2);
        let mem_edge = self.steps.is_multiple_of(self.mem) && turn != Some(1);
        let core_edge = self.steps.is_multiple_of(self.core) && turn != Some(0);
        self.past.extend(turn.map(|_| (mem_edge, core_edge, self.made)));
        self.steps += 1;
        let mut input = In { mem_edge, core_edge, ..In::default() };
        if let Some(pages) = &self.traffic {
            let pages = pages.clone();
            if !pages.contains(&self.next) && self.next != u32::MAX {
                self.next = pages.start;
            }
            (input.access, input.page) = (true, self.next);
        }
        if let Some((write, offset, data)) = request {
            (input.bus_valid, input.bus_write, input.bus_data) = (true, write, data);
            input.bus_addr = u16::try_from(offset).unwrap_or(u16::MAX);
        }
        let out = self.dut.step(&input);
        if mem_edge && input.access {
            self.made += 1;
            self.lost += u64::from(out.lost);
            // A lost access is made again.
            self.next = self.next.wrapping_add(u32::from(!out.lost));
        }
        (out, core_edge)
    }

    fn request(&mut self, write: bool, offset: u32, data: u64) -> Result<u64> {
        for _ in 0..self.pause {
            while !self.step(None).1 {}
        }
        loop {
            let (out, core_edge) = self.step(Some((write, offset, data)));
            if core_edge && out.ready {
                self.accepted = self.past.len().saturating_sub(1);
                break;
            }
        }
        for _ in 0..1000 {
            let (out, core_edge) = self.step(None);
            if core_edge && out.answer {
                return Ok(out.bus_read);
            }
        }
        anyhow::bail!("no answer at {offset:#x}")
    }

    fn get(&mut self, offset: u32) -> Result<u64> {
        self.request(false, offset, 0)
    }

    fn set(&mut self, offset: u32, data: u64) -> Result<()> {
        self.request(true, offset, data).map(drop)
    }

    /// Polls until `STATUS` reads idle.
    fn settle(&mut self) -> Result<()> {
        self.wait(60);
        for _ in 0..200_000 {
            if self.get(reg::STATUS)? & reg::STATUS_BUSY == 0 {
                self.wait(60);
                return Ok(());
            }
        }
        anyhow::bail!("STATUS.BUSY stays set")
    }

    fn wait(&mut self, edges: u64) {
        for _ in 0..edges * self.mem.max(self.core) {
            self.step(None);
        }
    }

    /// One access.
    fn once(&mut self, page: u32) {
        self.next = page;
        self.accesses(page..page, 1);
    }

    /// Accesses `pages` in turn, `times` accesses in all that are not lost.
    fn accesses(&mut self, pages: std::ops::Range<u32>, times: u64) {
        let want = self.made - self.lost + times;
        if !pages.is_empty() {
            self.next = pages.start;
        }
        self.traffic = Some(pages);
        while self.made - self.lost < want {
            self.step(None);
        }
        self.traffic = None;
    }
}

impl Registers for Host {
    fn read(&mut self, offset: u32) -> u64 {
        self.get(offset).unwrap_or(u64::MAX)
    }

    fn write(&mut self, offset: u32, value: u64) {
        let _ = self.set(offset, value);
    }
}

/// The histogram of the same accesses in the model.
fn histogram_of(config: Config, pages: std::ops::Range<u32>, times: u64) -> Vec<u64> {
    let mut model = NeoProf::new(config);
    Iterator::cycle(pages)
        .take(usize::try_from(times).unwrap_or(0))
        .for_each(|page| model.access(page, false));
    model.histogram().bins.map(u64::from).to_vec()
}

fn histogram_is_whole(host: &mut Host) -> Result<()> {
    for pause in [0, 1, 5] {
        host.pause = pause;
        host.set(reg::RESET, 1)?;
        host.settle()?;
        host.accesses(100..140, 300);
        host.settle()?;
        host.set(reg::SET_HIST_EN, 1)?;
        let mut polls = 0;
        while host.get(reg::GET_NR_HIST_BIN)? != 64 {
            polls += 1;
            ensure!(polls < 10_000, "no histogram");
        }
        let found = (0..64).map(|_| host.get(reg::GET_HIST)).collect::<Result<Vec<_>>>()?;
        let wrong = histogram_of(host.config, 100..140, 300)
            .iter()
            .zip(&found)
            .filter(|(want, found)| want != found)
            .count();
        ensure!(wrong == 0, "{wrong} of 64 bins wrong, sum {}", found.iter().sum::<u64>());
    }
    Ok(())
}

fn driver_reads_a_whole_histogram(host: &mut Host) -> Result<()> {
    // A fast bus, and one that is slower than the copy.
    for pause in [0, 300] {
        let mut fresh = host.again()?;
        fresh.pause = pause;
        let width = fresh.config.width() as u64;
        let mut driver = Driver::new(fresh, Source::Fifo)?;
        driver.registers().accesses(5..90, 1000);
        for _ in 0..2 {
            driver.request_histogram();
            let histogram = (0..10_000).find_map(|_| driver.histogram());
            let total = histogram.map(|histogram| histogram.total());
            ensure!(total == Some(width), "the bins' sum is {total:?}, not {width}");
        }
    }
    Ok(())
}

fn reset_is_reported(host: &mut Host) -> Result<()> {
    for (offset, data) in [(reg::RESET, 1), (reg::CHMU_CONF0, reg::CHMU_CONF0_RESET)] {
        host.set(reg::SAMPLE_INTERVAL, 1)?;
        host.settle()?;
        host.accesses(0..1 << 20, 4000);
        host.settle()?;
        let before = host.get(reg::GET_NR_SAMPLE)?;
        ensure!(host.get(reg::GET_NR_ACCESS)? == 4000);
        host.set(offset, data)?;
        let mut polls = 0;
        while host.get(reg::CHMU_STATUS)? & reg::CHMU_STATUS_IN_PROGRESS != 0 {
            polls += 1;
            ensure!(polls < 100_000, "IN_PROGRESS stays set");
        }
        let left = host.get(reg::GET_NR_ACCESS)?;
        ensure!(left == 0, "IN_PROGRESS is 0 after {polls} polls with {left} accesses counted");
        let samples = host.get(reg::GET_NR_SAMPLE)?;
        ensure!(samples < before, "IN_PROGRESS is 0 with {samples} samples of {before}");
    }
    Ok(())
}

fn losses_in_a_clearing_are_counted(host: &mut Host) -> Result<()> {
    host.traffic = Some(0..1 << 20);
    host.wait(500);
    host.set(reg::RESET, 1)?;
    // The memory's side starts to count anew within this time.
    host.wait(40);
    let before = host.lost;
    for _ in 0..200_000 {
        if host.get(reg::CHMU_STATUS)? & reg::CHMU_STATUS_IN_PROGRESS == 0 {
            break;
        }
    }
    host.traffic = None;
    let lost = host.lost - before;
    host.settle()?;
    let counted = host.get(reg::GET_NR_DROPPED)?;
    ensure!(counted >= lost, "{lost} accesses lost, {counted} counted");
    Ok(())
}

fn last_interval_holds(host: &mut Host) -> Result<()> {
    for gap in 0..12 {
        host.pause = 0;
        host.set(reg::SAMPLE_INTERVAL, 0xffff_ffff)?;
        host.settle()?;
        host.set(reg::SAMPLE_INTERVAL, 1000)?;
        host.pause = gap;
        host.set(reg::SAMPLE_INTERVAL, 3)?;
        host.settle()?;
        let before = host.get(reg::GET_NR_SAMPLE)?;
        host.wait(300);
        let samples = host.get(reg::GET_NR_SAMPLE)? - before;
        ensure!(samples >= 80, "{samples} samples in 300 cycles, {gap} cycles between the writes");
    }
    Ok(())
}

fn last_reset_holds(host: &mut Host) -> Result<()> {
    for gap in 0..12 {
        host.pause = 0;
        host.set(reg::SAMPLE_INTERVAL, 1)?;
        host.settle()?;
        host.set(reg::SAMPLE_INTERVAL, 0xffff_ffff)?;
        host.settle()?;
        host.wait(3000);
        let before = host.get(reg::GET_NR_SAMPLE)?;
        host.set(reg::RESET, 1)?;
        host.pause = gap;
        host.set(reg::RESET, 1)?;
        host.settle()?;
        let samples = host.get(reg::GET_NR_SAMPLE)?;
        ensure!(samples <= 2, "{samples} samples of {before} after two resets, {gap} cycles apart");
    }
    Ok(())
}

fn last_page_is_a_page(host: &mut Host) -> Result<()> {
    let none = host.get(reg::GET_HOT_PAGE)?;
    host.set(reg::SET_THRESHOLD, 0)?;
    host.once(u32::MAX);
    host.settle()?;
    let mut found = Vec::new();
    for _ in 0..host.get(reg::GET_NR_HOT_PAGE)? {
        found.push(host.get(reg::GET_HOT_PAGE)?);
    }
    ensure!(!found.contains(&none), "a page reads {none:#x}, as none does");
    Ok(())
}

fn empty_slots_read_as_zero(host: &mut Host) -> Result<()> {
    for slot in 0..1 << host.config.ring_log2 {
        let entry = host.get(reg::CHMU_HOTLIST + 8 * slot)?;
        ensure!(entry == 0, "slot {slot} reads {entry:#x} after power-up");
    }
    Ok(())
}

fn pops_in_every_cycle(host: &mut Host) -> Result<()> {
    host.set(reg::SET_THRESHOLD, 0)?;
    host.accesses(10..16, 6);
    host.settle()?;
    let mut found = Vec::new();
    for _ in 0..60 * host.core {
        let (out, core_edge) = host.step(Some((false, reg::GET_HOT_PAGE, 0)));
        if core_edge && out.answer {
            found.push(out.bus_read);
        }
    }
    found.truncate(6);
    ensure!(found == [10, 11, 12, 13, 14, 15], "read {found:?}");
    Ok(())
}

fn counts_are_recent(host: &mut Host) -> Result<()> {
    host.set(reg::SAMPLE_INTERVAL, 1)?;
    host.set(reg::RESET, 1)?;
    host.settle()?;
    let before = host.made;
    host.traffic = Some(0..1 << 20);
    for turns in [1, 5, 40, 100] {
        host.turns = turns * host.mem.max(host.core);
        for read in 0..200 {
            host.pause = read % 23;
            let found = host.get(reg::GET_RD_CNT)?;
            let arrived = arrived(&host.past[..host.accepted]).unwrap_or(before) - before;
            let made = host.made - before;
            ensure!(
                (arrived..=made).contains(&found),
                "{found} reads of {made}, not at least {arrived}; clocks stand still for {} steps",
                host.turns
            );
        }
    }
    Ok(())
}

/// Accesses that GET_RD_CNT promises to include: those before four edges of the core's clock, then four of the memory's, then
/// four of the core's.
fn arrived(past: &[(bool, bool, u64)]) -> Option<u64> {
    let mut parts = [false, true, false].iter().flat_map(|&mem| [mem; 4]).peekable();
    for &(mem_edge, core_edge, made) in past.iter().rev() {
        let Some(&mem) = parts.peek() else { break };
        if if mem { mem_edge } else { core_edge } {
            parts.next();
        }
        if parts.peek().is_none() {
            return Some(made);
        }
    }
    None
}

/// Prints what the ports show during a copy of the histogram, one line of JSON per cycle of the core's clock: accesses arrive in
/// every cycle; the host requests the copy, polls GET_NR_HIST_BIN, and reads bins.
pub fn print_waveform(library: &Path, shape: &Shape) -> Result<()> {
    let mut host = Host::new(library, shape, 1, 1)?;
    host.traffic = Some(0..64);
    host.wait(200);
    let mut requests = std::collections::VecDeque::from([(true, reg::SET_HIST_EN, 1)]);
    requests.extend([(false, reg::GET_NR_HIST_BIN, 0); 13]);
    requests.extend([(false, reg::GET_HIST, 0); 3]);
    let mut waiting = None;
    for cycle in 0..190 {
        let request = requests.front().copied().filter(|_| cycle >= 10 && cycle % 10 == 0);
        let (out, _) = host.step(request);
        if let Some((_, offset, _)) = request.filter(|_| out.ready) {
            waiting = Some(offset);
            requests.pop_front();
        }
        let (asked, answer) =
            (request.map(|(_, offset, _)| offset), waiting.filter(|_| out.answer));
        println!(
            r#"{{"cycle": {cycle}, "taken": {}, "ready": {}, "asked": {}, "answered": {}, "value": {}}}"#,
            out.taken,
            out.ready,
            asked.unwrap_or(0),
            answer.unwrap_or(0),
            out.bus_read
        );
    }
    Ok(())
}
