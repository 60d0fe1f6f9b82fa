// SPDX-License-Identifier: Apache-2.0
//! The Count-Min sketch with hot bits (Section IV-B). The hardware clears it by valid bits; here counters are
//! set to zero, with the same result for every reader.

use crate::config::{Config, LANES_MAX};
use crate::hash::Tables;

#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    width_log2: u32,
    depth: usize,
    max: u16,
    tables: Tables,
    /// All lanes, one after the other.
    counters: Vec<u16>,
    /// One bit for each counter, in the same order.
    hot: Vec<u64>,
}

/// The indices of a page's counters, one per lane. The first `depth` are used.
pub(crate) type Place = [usize; LANES_MAX];

impl Sketch {
    pub(crate) fn new(config: &Config) -> Self {
        let entries = config.width() * config.depth;
        Self {
            width_log2: config.width_log2,
            depth: config.depth,
            max: config.counter_max(),
            tables: Tables::new(config.depth, config.width_log2),
            counters: vec![0; entries],
            hot: vec![0; entries / 64],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.counters.fill(0);
        self.hot.fill(0);
    }

    #[inline]
    pub(crate) fn place(&self, page: u32) -> Place {
        let mut place = [0; LANES_MAX];
        for pair in 0..self.depth.div_ceil(2) {
            let [a, b] = self.tables.indices(pair, page);
            place[2 * pair] = (2 * pair) << self.width_log2 | a;
            place[2 * pair + 1] = (2 * pair + 1) << self.width_log2 | b;
        }
        place
    }

    /// Adds one access to `page`; returns the estimate after it.
    #[inline]
    pub(crate) fn count(&mut self, page: u32) -> u16 {
        match self.depth {
            2 => self.count_in::<2>(page),
            1 => self.count_in::<1>(page),
            3 => self.count_in::<3>(page),
            _ => self.count_in::<4>(page),
        }
    }

    /// [`Self::count`] for a depth known at compile time: this is the whole cost of an access.
    #[inline]
    fn count_in<const D: usize>(&mut self, page: u32) -> u16 {
        let mut least = u16::MAX;
        for lane in 0..D {
            let index = self.tables.indices(lane / 2, page)[lane % 2];
            let counter = &mut self.counters[lane << self.width_log2 | index];
            *counter += u16::from(*counter < self.max);
            least = least.min(*counter);
        }
        least
    }

    /// Adds `n` accesses.
    pub(crate) fn add(&mut self, place: &Place, n: u32) {
        for &at in &place[..self.depth] {
            let counter = &mut self.counters[at];
            let room = self.max - *counter;
            *counter += u16::try_from(n).map_or(room, |n| n.min(room));
        }
    }

    pub(crate) fn estimate(&self, place: &Place) -> u16 {
        place[..self.depth].iter().map(|&at| self.counters[at]).min().unwrap_or(0)
    }

    pub(crate) fn all_hot(&self, place: &Place) -> bool {
        place[..self.depth].iter().all(|&at| self.hot[at / 64] >> (at % 64) & 1 == 1)
    }

    pub(crate) fn set_hot(&mut self, place: &Place) {
        for &at in &place[..self.depth] {
            self.hot[at / 64] |= 1 << (at % 64);
        }
    }

    pub(crate) fn lane(&self, lane: usize) -> &[u16] {
        &self.counters[lane << self.width_log2..][..1 << self.width_log2]
    }
}
