// SPDX-License-Identifier: Apache-2.0
//! The configuration of a NeoProf: its dimensions and its switches.

/// Maximum number of lanes: there are seeds for this many.
pub const LANES_MAX: usize = 4;

/// Dimensions, and switches at power-up. The default is Table IV of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// log2 of the counters per lane, the paper's W: 6 to 24.
    pub width_log2: u32,
    /// Lanes, the paper's D: 1 to [`LANES_MAX`].
    pub depth: usize,
    /// Bits per counter, 4 to 16. Counters saturate; those of the authors' artifact wrap.
    pub counter_bits: u32,
    /// log2 of the capacity of the hot-page queue: 2 to 24.
    pub fifo_log2: u32,
    /// log2 of the entries of the CHMU hotlist, 2 to 12; one entry always stays free. Ours.
    pub ring_log2: u32,
    /// The state monitor samples one cycle in this many, at least 1. Ours (the artifact: 101).
    pub sample_interval: u32,
    /// Writes are not counted. Behaviour of the artifact; the paper says "each access".
    pub reads_only: bool,
    /// An access to the same page as the last counted access is not counted. Behaviour of the artifact.
    pub dedupe: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            width_log2: 19,
            depth: 2,
            counter_bits: 16,
            fifo_log2: 14,
            ring_log2: 10,
            sample_interval: 100,
            reads_only: false,
            dedupe: false,
        }
    }
}

impl Config {
    /// Counters per lane.
    pub fn width(&self) -> usize {
        1 << self.width_log2
    }

    /// The value at which counters saturate.
    pub fn counter_max(&self) -> u16 {
        u16::MAX >> (16 - self.counter_bits)
    }

    /// # Panics
    /// If a number is outside the range that its field documents.
    pub(crate) fn check(&self) {
        assert!((6..=24).contains(&self.width_log2), "width_log2 is {}", self.width_log2);
        assert!((1..=LANES_MAX).contains(&self.depth), "depth is {}", self.depth);
        assert!((4..=16).contains(&self.counter_bits), "counter_bits is {}", self.counter_bits);
        assert!((2..=24).contains(&self.fifo_log2), "fifo_log2 is {}", self.fifo_log2);
        assert!((2..=12).contains(&self.ring_log2), "ring_log2 is {}", self.ring_log2);
        assert!(self.sample_interval > 0, "sample_interval is 0");
    }
}
