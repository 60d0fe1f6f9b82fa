// SPDX-License-Identifier: Apache-2.0
//! The windows of scans that each see a page at most once.

use super::seconds;
use crate::port::PageSize;
use crate::unit::Nanos;

/// Shortest window.
const SHORTEST: Nanos = Nanos(1_000);

/// Scans that each see a page at most once.
#[derive(Clone, Copy, Debug)]
pub struct Scans {
    /// The advance of the evidence clock per scan: the window of the first scan.
    unit: Nanos,
    /// Scans per second of the evidence clock.
    pub per_sec: f32,
    /// The present window of base pages.
    window: Nanos,
    /// Seconds of the evidence clock per second of present windows.
    pub scale: f32,
    /// Seconds of the evidence clock that the mean windows cover.
    covered_seconds: f32,
    /// Those of each page size.
    pub base: Windows,
    pub huge: Windows,
}

/// The windows of one page size.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// The present window.
    pub seconds: f32,
    /// The mean window of the scans remembered.
    pub mean_seconds: f32,
    /// Scans of the mean window per second.
    pub ceiling_per_sec: f32,
    /// Watched seconds per second of the evidence clock, for the mean window.
    pub watched: f32,
}

impl Windows {
    fn new(seconds: f32) -> Self {
        let ceiling_per_sec = 1.0 / seconds;
        Self { seconds, mean_seconds: seconds, ceiling_per_sec, watched: 1.0 }
    }

    /// Adds the present window to the mean, as this share of it.
    fn advance(&mut self, share: f32, unit: Nanos) {
        self.mean_seconds += (self.seconds - self.mean_seconds) * share;
        self.ceiling_per_sec = 1.0 / self.mean_seconds;
        self.watched = self.mean_seconds / seconds(unit);
    }
}

impl Scans {
    /// Scans whose first window is this.
    pub fn new(window: Nanos) -> Self {
        let unit = window.max(SHORTEST);
        let of_size = Windows::new(seconds(unit));
        Self {
            unit,
            per_sec: 1.0 / seconds(unit),
            window: unit,
            scale: 1.0,
            covered_seconds: 0.0,
            base: of_size,
            huge: of_size,
        }
    }

    /// Sets the present windows by page size.
    pub fn set_windows(&mut self, base: Nanos, huge: Nanos) {
        self.window = base.max(SHORTEST);
        self.scale = seconds(self.unit) / seconds(self.window);
        self.base.seconds = seconds(self.window);
        self.huge.seconds = seconds(huge.max(SHORTEST));
    }

    /// The windows of a page size.
    pub fn of(&self, size: PageSize) -> &Windows {
        match size {
            PageSize::Base => &self.base,
            PageSize::Huge => &self.huge,
        }
    }

    /// The advance of the evidence clock for this watched time.
    pub fn evidence(&self, watched: Nanos) -> Nanos {
        let nanos = u128::from(watched.0) * u128::from(self.unit.0) / u128::from(self.window.0);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Adds present scans to the means; `memory_seconds` is in seconds of the evidence clock.
    pub fn advance(&mut self, evidence: Nanos, memory_seconds: f32) {
        let added = seconds(evidence);
        self.covered_seconds = (self.covered_seconds + added).min(memory_seconds).max(added);
        let share = added / self.covered_seconds;
        self.base.advance(share, self.unit);
        self.huge.advance(share, self.unit);
    }
}
