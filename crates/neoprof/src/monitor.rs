// SPDX-License-Identifier: Apache-2.0
//! The two monitors at the memory controller (Section IV-A). The page monitor selects the accesses that are
//! counted; the state monitor measures how busy the device is.

/// Counts of the state monitor since the reset. They wrap: take differences with `wrapping_sub`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Cycles sampled.
    pub samples: u32,
    /// Sampled cycles with a read.
    pub reads: u32,
    /// Sampled cycles with a write.
    pub writes: u32,
}

impl State {
    /// B of Algorithm 1: the share of sampled cycles that carried data, 0 to 1. `None` before the first sample.
    pub fn utilisation(&self) -> Option<f64> {
        let busy = f64::from(self.reads) + f64::from(self.writes);
        (self.samples > 0).then(|| busy / f64::from(self.samples))
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            samples: self.samples.wrapping_sub(earlier.samples),
            reads: self.reads.wrapping_sub(earlier.reads),
            writes: self.writes.wrapping_sub(earlier.writes),
        }
    }
}

/// Samples one cycle in `interval`, starting with the first cycle after a reset.
#[derive(Clone, Debug)]
pub(crate) struct StateMonitor {
    interval: u64,
    /// Cycles until the next sample; 0 means the present cycle.
    wait: u64,
    pub(crate) state: State,
}

impl StateMonitor {
    pub(crate) fn new(interval: u32) -> Self {
        Self { interval: u64::from(interval.max(1)), wait: 0, state: State::default() }
    }

    /// Clears everything but the interval.
    pub(crate) fn reset(&mut self) {
        (self.wait, self.state) = (0, State::default());
    }

    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    /// Advances by `cycles`. Returns how many of them are sampled; wraps.
    #[inline]
    fn pass(&mut self, cycles: u64) -> u32 {
        if cycles <= self.wait {
            self.wait -= cycles;
            return 0;
        }
        let after_first = cycles - self.wait - 1;
        self.wait = self.interval - 1 - after_first % self.interval;
        #[expect(clippy::cast_possible_truncation, reason = "counts wrap")]
        let sampled = (1 + after_first / self.interval) as u32;
        self.state.samples = self.state.samples.wrapping_add(sampled);
        sampled
    }

    #[inline]
    pub(crate) fn accesses(&mut self, write: bool, cycles: u64) {
        let sampled = self.pass(cycles);
        let count = if write { &mut self.state.writes } else { &mut self.state.reads };
        *count = count.wrapping_add(sampled);
    }

    pub(crate) fn idle(&mut self, cycles: u64) {
        self.pass(cycles);
    }
}
