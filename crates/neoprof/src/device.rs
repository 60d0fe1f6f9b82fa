// SPDX-License-Identifier: Apache-2.0
//! The complete unit: monitors, sketch, hot pages, and the registers.

use std::collections::VecDeque;

use crate::chmu::Chmu;
use crate::config::Config;
use crate::histogram::{BINS, Histogram};
use crate::monitor::{State, StateMonitor};
use crate::registers as reg;
use crate::sketch::Sketch;

/// Value of `GET_HOT_PAGE` when no page is queued. A page has 32 bits.
pub const NO_PAGE: u64 = u64::MAX;

/// One NeoProf unit.
#[derive(Clone, Debug)]
pub struct NeoProf {
    config: Config,
    sketch: Sketch,
    monitor: StateMonitor,
    last: Option<u32>,
    threshold: u32,
    hot: VecDeque<u32>,
    chmu: Chmu,
    copy: VecDeque<u32>,
    accesses: u32,
    withheld: u32,
    dropped: u32,
}

impl NeoProf {
    /// A unit after power-up. The threshold is at its maximum, so no page is hot.
    ///
    /// # Panics
    /// If a number of `config` is outside the range that its field documents.
    pub fn new(config: Config) -> Self {
        config.check();
        Self {
            sketch: Sketch::new(&config),
            monitor: StateMonitor::new(config.sample_interval),
            last: None,
            threshold: u32::MAX,
            hot: VecDeque::with_capacity(1 << config.fifo_log2),
            chmu: Chmu::new(config.ring_log2, config.counter_bits),
            copy: VecDeque::with_capacity(BINS),
            accesses: 0,
            withheld: 0,
            dropped: 0,
            config,
        }
    }

    /// The dimensions, and the present switches.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// One cycle of the device with an access to `page`, the page number on the device in units of 4 KiB.
    #[inline]
    pub fn access(&mut self, page: u32, write: bool) {
        self.monitor.accesses(write, 1);
        if self.select(page, write) {
            self.count(page);
        }
    }

    /// Equivalent to `n` calls of [`Self::access`], but faster.
    pub fn accesses(&mut self, page: u32, write: bool, n: u32) {
        self.monitor.accesses(write, u64::from(n));
        let counted = self.counted(page, write, n);
        let place = self.sketch.place(page);
        // Until the access that makes the page hot, only counters change. After it, again only counters change,
        // or each access finds the list full once more.
        let until_hot = self.theta().saturating_sub(u32::from(self.sketch.estimate(&place)));
        let before = until_hot.min(counted);
        self.sketch.add(&place, before);
        self.accesses = self.accesses.wrapping_add(before);
        if before == counted {
            return;
        }
        let withheld = self.withheld;
        self.count(page);
        let rest = counted - before - 1;
        self.sketch.add(&place, rest);
        self.accesses = self.accesses.wrapping_add(rest);
        if self.withheld != withheld {
            self.withheld = self.withheld.wrapping_add(rest);
        }
    }

    #[inline]
    fn count(&mut self, page: u32) {
        let estimate = self.add(page);
        if u32::from(estimate) > self.theta() {
            self.hot(page, estimate);
        }
    }

    /// The page is hot: reports it, unless it was reported before or the list is full.
    fn hot(&mut self, page: u32, count: u16) {
        if !self.is_new(page) {
            return;
        }
        let hotlist = self.chmu.enabled();
        if self.room(hotlist) == 0 {
            self.withhold(hotlist);
            return;
        }
        self.mark(page);
        self.report(page, count, hotlist);
        if hotlist {
            self.notify();
        }
    }

    // The steps of an access and of a reset. The hardware takes them in different cycles, between which registers may be written.

    /// Step of an access: the state monitor sees it.
    pub fn observe(&mut self, write: bool) {
        self.monitor.accesses(write, 1);
    }

    /// Step of an access: whether the page monitor passes it to the sketch.
    #[inline]
    pub fn select(&mut self, page: u32, write: bool) -> bool {
        self.counted(page, write, 1) == 1
    }

    /// Step of an access: counts it; returns the estimate.
    #[inline]
    pub fn add(&mut self, page: u32) -> u16 {
        self.accesses = self.accesses.wrapping_add(1);
        self.sketch.count(page)
    }

    /// Step of an access: whether the page, which is hot, was not reported before.
    pub fn is_new(&self, page: u32) -> bool {
        !self.sketch.all_hot(&self.sketch.place(page))
    }

    /// Step of an access: the number of pages for which the hotlist, or the queue, has room.
    pub fn room(&self, hotlist: bool) -> usize {
        if hotlist { self.chmu.room() } else { (1 << self.config.fifo_log2) - self.hot.len() }
    }

    /// Step of an access: the page will be reported, and not again.
    pub fn mark(&mut self, page: u32) {
        self.sketch.set_hot(&self.sketch.place(page));
    }

    /// Step of an access: appends the page to its list, which has room.
    pub fn report(&mut self, page: u32, count: u16, hotlist: bool) {
        if hotlist { self.chmu.push(page, count) } else { self.hot.push_back(page) }
    }

    /// Step of an access: after a report in the hotlist, compares its fill level.
    pub fn notify(&mut self) {
        self.chmu.notify();
    }

    /// Step of an access: the page's list is full.
    pub fn withhold(&mut self, hotlist: bool) {
        self.withheld = self.withheld.wrapping_add(1);
        self.chmu.overflow |= hotlist;
    }

    /// Copies the histogram, to be read by `GET_HIST`; `None` empties the copy.
    pub fn set_copy(&mut self, histogram: Option<Histogram>) {
        self.copy = histogram.map_or_else(VecDeque::new, |histogram| histogram.bins.into());
    }

    /// One cycle with an access that is lost between the clock domains of memory controller and core. The
    /// sketch does not count it.
    pub fn lose_access(&mut self, write: bool) {
        self.monitor.accesses(write, 1);
        self.dropped = self.dropped.wrapping_add(1);
    }

    /// `cycles` cycles without an access.
    pub fn idle(&mut self, cycles: u64) {
        self.monitor.idle(cycles);
    }

    /// Sets θ: a page is hot when its estimated count exceeds it. Clears nothing (the artifact resets
    /// everything).
    pub fn set_threshold(&mut self, theta: u32) {
        self.threshold = theta;
    }

    /// The active threshold: that of the CHMU while it is enabled.
    #[inline]
    pub fn theta(&self) -> u32 {
        if self.chmu.enabled() { self.chmu.theta() } else { self.threshold }
    }

    /// Takes the oldest hot page. Between two resets each page is reported once. A page that shares all its
    /// counters with reported pages is missed.
    pub fn pop_hot(&mut self) -> Option<u32> {
        self.hot.pop_front()
    }

    /// Number of queued hot pages.
    pub fn hot_len(&self) -> usize {
        self.hot.len()
    }

    /// The count of `page` in the sketch: never below the true count, unless saturated. Not a register.
    pub fn estimate(&self, page: u32) -> u16 {
        self.sketch.estimate(&self.sketch.place(page))
    }

    /// Histogram of the counters of the first lane. Reads the whole lane.
    pub fn histogram(&self) -> Histogram {
        Histogram::of(self.sketch.lane(0))
    }

    /// Maximum error of an estimate: [`Histogram::error_bound`].
    pub fn error_bound(&self) -> u32 {
        self.histogram().error_bound(self.config.counter_max().into())
    }

    /// The counts of the state monitor.
    pub fn state(&self) -> State {
        self.monitor.state
    }

    /// Accesses lost before the sketch since the reset; wraps.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Accesses counted by the sketch since the reset; wraps.
    pub fn counted_accesses(&self) -> u32 {
        self.accesses
    }

    /// Number of times that a hot page found the list full since the reset; wraps. Its hot bits stay clear, so
    /// a later access reports it (in the artifact it is lost until the reset).
    pub fn withheld(&self) -> u32 {
        self.withheld
    }

    /// The counters of one lane. Not a register.
    pub fn lane(&self, lane: usize) -> &[u16] {
        self.sketch.lane(lane)
    }

    /// Clears sketch, histogram, hot pages, hotlist and monitors. Keeps threshold and configuration.
    pub fn reset(&mut self) {
        self.reset_core();
        self.reset_monitor();
    }

    /// Step of a reset, at the core's clock: sketch, histogram, hot pages and hotlist.
    pub fn reset_core(&mut self) {
        self.sketch.clear();
        self.last = None;
        self.hot.clear();
        self.copy.clear();
        self.chmu.clear();
        self.accesses = 0;
        self.withheld = 0;
    }

    /// Step of a reset, at the memory's clock: state monitor and lost accesses.
    pub fn reset_monitor(&mut self) {
        self.monitor.reset();
        self.dropped = 0;
    }

    /// Reads the register at `offset`, with its side effects. 0 if there is no register.
    pub fn read(&mut self, offset: u32) -> u64 {
        let shape = || {
            u64::from(self.config.width_log2)
                | (self.config.depth as u64) << 8
                | u64::from(self.config.counter_bits) << 16
                | u64::from(self.config.fifo_log2) << 24
        };
        match offset {
            reg::SET_THRESHOLD => u64::from(self.threshold),
            reg::GET_NR_HOT_PAGE => self.hot.len() as u64,
            reg::GET_HOT_PAGE => self.pop_hot().map_or(NO_PAGE, u64::from),
            reg::GET_NR_SAMPLE => u64::from(self.monitor.state.samples),
            reg::GET_RD_CNT => u64::from(self.monitor.state.reads),
            reg::GET_WR_CNT => u64::from(self.monitor.state.writes),
            reg::GET_NR_HIST_BIN => self.copy.len() as u64,
            reg::GET_HIST => u64::from(self.copy.pop_front().unwrap_or(0)),
            reg::CONTROL => {
                let switch = |on, bit| if on { bit } else { 0 };
                switch(self.config.reads_only, reg::CONTROL_READS_ONLY)
                    | switch(self.config.dedupe, reg::CONTROL_DEDUPE)
            }
            reg::SAMPLE_INTERVAL => self.monitor.interval(),
            reg::GET_NR_ACCESS => u64::from(self.accesses),
            reg::GET_NR_DROPPED => u64::from(self.dropped),
            reg::GET_NR_WITHHELD => u64::from(self.withheld),
            reg::SHAPE => shape(),
            reg::CHMU_COMMON_CAP0 => 1 | 1 << 8,
            reg::CHMU_COMMON_CAP1 => 0x70,
            reg::CHMU_CAP0 => 0b11_1000 << 8 | self.chmu.entries() << 48,
            reg::CHMU_CAP1 => 1 << 4 | 1 << 32 | reg::CHMU_CAP1_ALWAYS_ON,
            reg::CHMU_CAP2 => u64::from(reg::CHMU_BITMAP - reg::CHMU_COMMON_CAP0),
            reg::CHMU_CAP3 => u64::from(reg::CHMU_HOTLIST - reg::CHMU_COMMON_CAP0),
            reg::CHMU_CONF0 => self.chmu.conf0,
            reg::CHMU_CONF1 => self.chmu.conf1,
            reg::CHMU_CONF2 => u64::from(self.chmu.notify),
            reg::CHMU_STATUS => {
                u64::from(self.chmu.enabled())
                    | u64::from(self.config.counter_bits) << 32
                    | u64::from(self.chmu.overflow) << 40
                    | u64::from(self.chmu.level) << 41
            }
            reg::CHMU_RING => self.chmu.indices(),
            reg::CHMU_BITMAP => self.chmu.bitmap,
            _ if offset >= reg::CHMU_HOTLIST && offset.is_multiple_of(8) => {
                self.chmu.entry(((offset - reg::CHMU_HOTLIST) / 8) as usize)
            }
            _ => 0,
        }
    }

    /// Writes the register at `offset`. Ignored if there is no writable register.
    pub fn write(&mut self, offset: u32, value: u64) {
        let low = (value & 0xffff_ffff) as u32;
        match offset {
            reg::RESET if value & 1 == 1 => self.reset(),
            reg::SET_THRESHOLD => self.threshold = low,
            reg::SET_HIST_EN if value & 1 == 1 => self.set_copy(Some(self.histogram())),
            reg::CONTROL => {
                self.config.reads_only = value & reg::CONTROL_READS_ONLY != 0;
                self.config.dedupe = value & reg::CONTROL_DEDUPE != 0;
            }
            reg::SAMPLE_INTERVAL => {
                let state = self.monitor.state;
                self.monitor = StateMonitor::new(low);
                self.monitor.state = state;
            }
            reg::CHMU_CONF0 => {
                const KEPT: u64 = 0xffff_ffff_0000_0000
                    | reg::CHMU_CONF0_ENABLE
                    | reg::CHMU_CONF0_TRACK_READS
                    | reg::CHMU_CONF0_TRACK_WRITES
                    | reg::CHMU_CONF0_TRACK_BOTH;
                self.chmu.conf0 = value & KEPT;
                if value & reg::CHMU_CONF0_RESET != 0 {
                    self.reset();
                }
            }
            reg::CHMU_CONF1 => self.chmu.conf1 = value,
            reg::CHMU_CONF2 => self.chmu.notify = (value & 0xffff) as u16,
            reg::CHMU_STATUS => {
                self.chmu.overflow &= value & reg::CHMU_STATUS_OVERFLOW == 0;
                self.chmu.level &= value & reg::CHMU_STATUS_LEVEL == 0;
            }
            reg::CHMU_RING => self.chmu.set_head((value & 0xffff) as u16),
            reg::CHMU_BITMAP => self.chmu.bitmap = value,
            _ => {}
        }
    }

    /// The page monitor: how many of `n` consecutive accesses are passed to the sketch.
    #[inline]
    fn counted(&mut self, page: u32, write: bool, n: u32) -> u32 {
        let tracked = if self.chmu.enabled() {
            self.chmu.tracks(page, write)
        } else {
            !(write && self.config.reads_only)
        };
        if !tracked || n == 0 {
            return 0;
        }
        let before = self.last.replace(page);
        match self.config.dedupe {
            true => u32::from(before != Some(page)),
            false => n,
        }
    }
}
