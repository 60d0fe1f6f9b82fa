// SPDX-License-Identifier: Apache-2.0
//! trace: a recorded program in closed loop. Its accesses are work, and an epoch lasts until they are done.
//!
//! What it does: within an epoch, pages get their recorded shares of accesses. A number of misses is kept in
//! flight, with think time such that the epoch takes its recorded time if unloaded fast memory serves all
//! accesses; with slower or busier memory it takes longer. Epochs without accesses take their recorded time.
//! After the last epoch the first one follows. Throughput is recorded seconds per second: 1 is the recorded
//! speed, however epochs differ. Pages are allocated at the start of the first epoch that accesses them.
//! When it hurts: a trace does not contain the program's memory-level parallelism; with too many misses in
//! flight, slow memory looks better than it is. Memory that the trace never accesses does not exist here. For
//! traces of touched pages only, the number of accesses is estimated (`bound`).
//! Where it comes from: ours; the loop is that of Colloid's cores (SOSP'24, 2.2) with think time.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use tierline_core::port::{PageKind, PageSize};
use tierline_core::unit::{Bytes, Nanos};

use super::knob::{MAX_THREADS, program_knobs};
use super::order::Order;
use super::pattern::{Band, Pattern};
use super::program::{Layout, Memory, Phase, Placement, Program, Reach};
use crate::machine::{Machine, nanos};

/// The shortest epoch without accesses: a trace of empty epochs without a length must not stop the clock.
const SHORTEST_IDLE_NS: f64 = 10_000.0;

/// A source of trace data. The model does no I/O: the caller reads the file.
pub trait Recording: Send + Sync {
    /// Number of pages of this size that it accesses. They are numbered from 0.
    fn pages(&self, size: PageSize) -> u32;

    /// The size of its pages, or the next smaller supported size.
    fn size(&self) -> PageSize;

    /// Its epochs from the first one, with pages of this size.
    fn open(&self, size: PageSize) -> Box<dyn Epochs>;
}

/// A sequence of epochs.
pub trait Epochs {
    /// Reads the next epoch into `epoch`; false at the end.
    fn next(&mut self, epoch: &mut Recorded) -> bool;
}

/// A recorded epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Its length, ns; 0 if unknown.
    pub ns: f64,
    /// Whether counts are numbers of accesses; otherwise they only rank pages.
    pub counted: bool,
    /// Pages with lines read and written. No page appears twice.
    pub pages: Vec<(u32, f64, f64)>,
}

/// A recording and its replay settings.
#[derive(Clone)]
pub struct Trace {
    recording: Arc<dyn Recording>,
    bound: f64,
    stretch: f64,
}

impl Trace {
    /// The recording.
    pub fn recording(&self) -> &dyn Recording {
        self.recording.as_ref()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("bound", &self.bound).finish_non_exhaustive()
    }
}

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.recording, &other.recording)
            && (self.bound, self.stretch) == (other.bound, other.stretch)
    }
}

program_knobs! {
    /// Settings of a replay. One miss after the other, as on the modelled clock of converters; half of the
    /// time: ours.
    pub struct Replay {
        /// Threads.
        threads: f64 = 1.0, 0.001, MAX_THREADS;
        /// Minimum number of misses that a thread keeps in flight; more if the trace shows more.
        in_flight: f64 = 1.0, 0.001, 100.0;
        /// Share of time waiting for memory, for traces without numbers of accesses.
        bound: f64 = 0.5, 0.001, 1.0;
        /// Number of repetitions of each epoch: extends a short recording of a longer run.
        stretch: f64 = 1.0, 0.001, 1e9;
    }
}

impl Replay {
    /// The program that replays the recording, with pages of `size`.
    ///
    /// # Errors
    /// A message for an invalid setting.
    pub fn program(
        self,
        name: &str,
        recording: Arc<dyn Recording>,
        size: PageSize,
    ) -> Result<(Program, Trace), String> {
        let bytes = Bytes(u64::from(recording.pages(size)) * size.bytes().0);
        if bytes == Bytes::ZERO {
            return Err("it touches no pages of that size; try pages=huge".into());
        }
        let program = Program {
            name: name.into(),
            bytes,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: Reach::Fixed(self.in_flight, 0.0),
            writes_per_read: 0.0,
            reads_per_op: 1.0,
            unit: "recorded s",
            phases: vec![Phase::forever(vec![(bytes, 1.0)], Layout::Front)],
            placement: Placement::AsTouched,
            managed: true,
            memory: Memory::default(),
        };
        Ok((program, Trace { recording, bound: self.bound, stretch: self.stretch }))
    }
}

/// A replay in progress.
pub struct Player {
    trace: Trace,
    size: PageSize,
    /// Minimum number of misses that a thread keeps in flight.
    in_flight: f64,
    epochs: Box<dyn Epochs>,
    epoch: Recorded,
    ends: End,
    /// Reads of the epoch; time of all earlier epochs and of this one in fast memory, s.
    work: f64,
    done_s: f64,
    lasts_s: f64,
}

/// End of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// At a value of the program's clock of accesses.
    Reads(f64),
    /// At a time.
    At(Nanos),
}

/// A program's behaviour in an epoch.
pub struct Turn {
    /// The distribution of accesses.
    pub pattern: Pattern,
    /// The accessed pages.
    pub touched: Vec<u32>,
    /// Misses in flight per thread, and think time.
    pub reach: Reach,
    /// Lines written back per line read.
    pub writes_per_read: f64,
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").field("trace", &self.trace).field("ends", &self.ends).finish()
    }
}

impl Player {
    /// At the start of a trace. `reach` contains the minimum number of misses in flight per thread.
    pub fn new(trace: Trace, size: PageSize, reach: Reach) -> Self {
        let in_flight = if let Reach::Fixed(misses, _) = reach { misses } else { 1.0 };
        let epochs = trace.recording.open(size);
        let (epoch, ends) = (Recorded::default(), End::Reads(0.0));
        Self { trace, size, in_flight, epochs, epoch, ends, work: 0.0, done_s: 0.0, lasts_s: 0.0 }
    }

    /// Whether the epoch is over, at this time and after this many reads.
    pub fn is_over(&self, now: Nanos, reads: f64) -> bool {
        match self.ends {
            End::Reads(until) => reads >= until,
            End::At(time) => now >= time,
        }
    }

    /// Progress after this many reads, in recorded seconds. An idle epoch counts once it is over.
    pub fn progress_s(&self, reads: f64) -> f64 {
        match self.ends {
            End::Reads(until) if self.work > 0.0 => {
                self.done_s + self.lasts_s * (1.0 - (until - reads) / self.work)
            }
            _ => self.done_s,
        }
    }

    /// Time until the end of the epoch at this rate of reads, ns.
    pub fn left_ns(&self, now: Nanos, reads: f64, reads_per_ns: f64) -> f64 {
        match self.ends {
            End::Reads(until) if reads_per_ns > 0.0 => (until - reads) / reads_per_ns,
            End::Reads(_) => f64::INFINITY,
            End::At(time) => time.saturating_sub(now).as_secs_f64() * 1e9,
        }
    }

    /// The next epoch of a program with this many threads. `None` if the trace has no epochs.
    pub fn turn(
        &mut self,
        now: Nanos,
        reads: f64,
        threads: f64,
        machine: &Machine,
    ) -> Option<Turn> {
        if !self.epochs.next(&mut self.epoch) {
            self.epochs = self.trace.recording.open(self.size);
            self.epochs.next(&mut self.epoch).then_some(())?;
        }
        self.done_s += self.lasts_s;
        self.work = 0.0;
        let live = self.trace.recording.pages(self.size);
        let (pattern, sum) = pattern(&mut self.epoch.pages, live);
        let touched = self.epoch.pages.iter().map(|&(page, ..)| page).collect();
        if sum.total == 0.0 {
            let ns = (self.epoch.ns * self.trace.stretch).max(SHORTEST_IDLE_NS);
            self.lasts_s = ns * 1e-9;
            self.ends = End::At(now + nanos(ns));
            return Some(Turn {
                pattern,
                touched,
                reach: Reach::Fixed(0.0, 0.0),
                writes_per_read: 0.0,
            });
        }
        let unloaded_ns = machine.cores.path_ns + machine.tiers[0].queue.curve.unloaded_ns;
        let recorded_ns = self.epoch.ns * self.trace.stretch;
        // Number of lines that are waited for; a page that was only written had to be read first.
        let work = match self.epoch.counted || recorded_ns == 0.0 {
            true if sum.reads > 0.0 => sum.reads * self.trace.stretch,
            true => sum.total * self.trace.stretch,
            false => self.trace.bound * threads * self.in_flight * recorded_ns / unloaded_ns,
        };
        let in_flight = self.in_flight.max(work * unloaded_ns / (recorded_ns.max(1.0) * threads));
        let in_flight = if recorded_ns > 0.0 { in_flight } else { self.in_flight };
        let think_ns = (threads * in_flight * recorded_ns / work - unloaded_ns).max(0.0);
        // Reads beyond the end of the last epoch count for this one.
        let from = if let End::Reads(until) = self.ends { until } else { reads };
        self.ends = End::Reads(from + work);
        self.work = work;
        // Duration in unloaded fast memory; without think time if the recorded time is unknown.
        self.lasts_s = work * (unloaded_ns + think_ns) / (threads * in_flight) * 1e-9;
        let writes_per_read = match self.epoch.counted && sum.reads > 0.0 {
            true => (sum.total - sum.reads) / sum.reads,
            false => 0.0,
        };
        Some(Turn { pattern, touched, reach: Reach::Fixed(in_flight, think_ns), writes_per_read })
    }
}

/// Totals of an epoch.
struct Sum {
    reads: f64,
    total: f64,
}

/// Pages in bands of similar counts, most accessed first: a band spans a quarter of a power of two. All other
/// pages have a share of zero.
fn pattern(pages: &mut [(u32, f64, f64)], live: u32) -> (Pattern, Sum) {
    let count = |&(_, reads, writes): &(u32, f64, f64)| reads + writes;
    // The exponent and two bits of the fraction.
    let class = |page: &(u32, f64, f64)| count(page).to_bits() >> 50;
    pages.sort_unstable_by_key(|page| (Reverse(class(page)), page.0));
    let mut sum = Sum { reads: 0.0, total: 0.0 };
    let mut bands = Vec::new();
    let mut end = 0;
    for band in pages.chunk_by(|a, b| class(a) == class(b)) {
        end += u32::try_from(band.len()).unwrap_or(u32::MAX);
        let share: f64 = band.iter().map(count).sum();
        sum.total += share;
        sum.reads += band.iter().map(|page| page.1).sum::<f64>();
        bands.push(Band { end, share });
    }
    if sum.total == 0.0 {
        bands.clear();
        bands.push(Band { end: live, share: 1.0 });
    }
    bands.push(Band { end: live, share: 0.0 });
    let order = Order::listed(live, pages.iter().map(|&(page, ..)| page));
    (Pattern::new(order, bands), sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_recorded_and_the_rest_gets_none() {
        let mut pages = vec![(7, 10.0, 0.0), (2, 80.0, 10.0), (3, 0.0, 0.0)];
        let (pattern, sum) = pattern(&mut pages, 9);
        assert_eq!((sum.reads, sum.total), (90.0, 100.0));
        let density = |page| pattern.density(pattern.band(page));
        assert!((density(2) - 0.9).abs() < 1e-12 && (density(7) - 0.1).abs() < 1e-12);
        assert!([0, 1, 3, 4, 5, 6, 8].into_iter().all(|page| density(page) == 0.0));
    }
}
