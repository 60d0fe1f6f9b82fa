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

    /// Entries between head and tail.
    fn fill(&self) -> u16 {
        self.tail.wrapping_sub(self.head) & self.mask()
    }

    /// Entries for which there is room.
    pub(crate) fn room(&self) -> usize {
        usize::from(self.mask() - self.fill())
    }

    /// Appends a hot page; there is room.
    pub(crate) fn push(&mut self, page: u32, count: u16) {
        self.ring[usize::from(self.tail)] = u64::from(page) << self.counter_bits | u64::from(count);
        self.tail = (self.tail + 1) & self.mask();
    }

    /// After a push: sets the level flag if the fill level was reached.
    pub(crate) fn notify(&mut self) {
        self.level |= self.notify != 0 && self.fill() >= self.notify;
    }

    pub(crate) fn clear(&mut self) {
        (self.head, self.tail, self.overflow, self.level) = (0, 0, false, false);
    }

    pub(crate) fn indices(&self) -> u64 {
        u64::from(self.head) | u64::from(self.tail) << 16
    }

    /// Releases the entries before `head`; ignored if there are fewer.
    pub(crate) fn set_head(&mut self, head: u16) {
        if head.wrapping_sub(self.head) & self.mask() <= self.fill() {
            self.head = head & self.mask();
        }
    }

    /// The entry in a slot, 0 if there is none.
    pub(crate) fn entry(&self, slot: usize) -> u64 {
        let after = u16::try_from(slot).map(|slot| slot.wrapping_sub(self.head) & self.mask());
        match (self.ring.get(slot), after) {
            (Some(&entry), Ok(after)) if after < self.fill() => entry,
            _ => 0,
        }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.ring.len() as u64
    }

    fn mask(&self) -> u16 {
        u16::try_from(self.ring.len() - 1).unwrap_or(u16::MAX)
    }
}
