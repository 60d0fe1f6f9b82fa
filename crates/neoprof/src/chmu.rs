// SPDX-License-Identifier: Apache-2.0
//! The hotlist of a CXL hotness monitoring unit (CHMU): a ring buffer that the host reads without side effects.
//! The layout follows public driver drafts, not the CXL specification.

use crate::registers as reg;

/// The unit's configuration and its ring.
#[derive(Clone, Debug)]
pub(crate) struct Chmu {
    pub(crate) conf0: u64,
    pub(crate) conf1: u64,
    pub(crate) notify: u16,
    pub(crate) bitmap: u64,
    pub(crate) overflow: bool,
    pub(crate) level: bool,
    head: u16,
    tail: u16,
    ring: Vec<u64>,
    counter_bits: u32,
}

impl Chmu {
    pub(crate) fn new(ring_log2: u32, counter_bits: u32) -> Self {
        let ring = vec![0; 1 << ring_log2];
        Self {
            conf0: 0,
            conf1: 0,
            notify: 0,
            bitmap: u64::MAX,
            overflow: false,
            level: false,
            head: 0,
            tail: 0,
            ring,
            counter_bits,
        }
    }

    pub(crate) fn enabled(&self) -> bool {
        self.conf0 & reg::CHMU_CONF0_ENABLE != 0
    }

    /// The threshold as NeoProf defines it: a count must exceed it. The CHMU's must be reached.
    pub(crate) fn theta(&self) -> u32 {
        ((self.conf0 >> 32) as u32).max(1) - 1
    }

    pub(crate) fn tracks(&self, page: u32, write: bool) -> bool {
        let one = if write { reg::CHMU_CONF0_TRACK_WRITES } else { reg::CHMU_CONF0_TRACK_READS };
        self.conf0 & (one | reg::CHMU_CONF0_TRACK_BOTH) != 0
            && page >> 22 == 0
            && self.bitmap >> (page >> 16) & 1 == 1
    }

    /// Appends a hot page. If the ring is full, sets the overflow flag and returns false.
    pub(crate) fn push(&mut self, page: u32, count: u16) -> bool {
        let next = (self.tail + 1) & self.mask();
        if next == self.head {
            self.overflow = true;
            return false;
        }
        self.ring[usize::from(self.tail)] = u64::from(page) << self.counter_bits | u64::from(count);
        self.tail = next;
        let fill = self.tail.wrapping_sub(self.head) & self.mask();
        self.level |= self.notify != 0 && fill >= self.notify;
        true
    }

    pub(crate) fn clear(&mut self) {
        (self.head, self.tail, self.overflow, self.level) = (0, 0, false, false);
    }

    pub(crate) fn indices(&self) -> u64 {
        u64::from(self.head) | u64::from(self.tail) << 16
    }

    pub(crate) fn set_head(&mut self, head: u16) {
        self.head = head & self.mask();
    }

    pub(crate) fn entry(&self, index: usize) -> Option<u64> {
        self.ring.get(index).copied()
    }

    pub(crate) fn entries(&self) -> u64 {
        self.ring.len() as u64
    }

    fn mask(&self) -> u16 {
        u16::try_from(self.ring.len() - 1).unwrap_or(u16::MAX)
    }
}
