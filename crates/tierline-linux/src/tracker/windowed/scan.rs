// SPDX-License-Identifier: Apache-2.0
//! A scan: what its windows have shown so far.

use std::time::Duration;

use tierline_core::unit::BASE_PER_HUGE;

use crate::tracker::access_bits::{HugeBatch, ReadCounts};
use crate::tracker::window::ratio;

/// Huge pages that were accessed in the window of base pages, of which at least one should be in windows of their own. If none
/// is, their program did not run then, as others had the CPU: they are watched again, this often. Ours.
const ENOUGH_HUGE: u32 = 16;
const WATCHED_AGAIN: u32 = 3;

/// A scan between the first reading and the last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    pub seen: ReadCounts,
    /// Of them, those of the processes in focus.
    pub in_focus: ReadCounts,
    /// How long the window was. If this thread moved pages for most of it, so that programs stood still, it does not show
    /// how long it should be. It moves none in a window that is waited for in place.
    pub waited: Duration,
    /// The mean window of base pages, and the samples of base pages.
    pub watched: Duration,
    pub base_samples: usize,
    /// Base pages of processes that rest.
    pub resting: u64,
    /// Huge pages watched again, those of them that were accessed, and the sum of their windows.
    pub huge_pages: u32,
    pub huge_accessed: u32,
    pub huge_watched: Duration,
    /// How often huge pages were watched again because no window showed an access.
    pub watched_again: u32,
}

impl Scan {
    /// Adds a process that was watched for `window`.
    pub fn add_space(&mut self, seen: ReadCounts, window: Duration, in_focus: bool) {
        self.seen += seen;
        self.in_focus += if in_focus { seen } else { ReadCounts::default() };
        let part = ratio(seen.present.max(1), self.seen.present.max(1));
        self.watched = self.watched.mul_f64(1.0 - part) + window.mul_f64(part);
    }

    pub fn add(&mut self, batch: HugeBatch) {
        self.huge_pages += batch.pages;
        self.huge_accessed += batch.accessed;
        self.huge_watched += batch.window.unwrap_or(self.watched) * batch.pages;
    }

    /// Whether the windows of huge pages show no more than that their program did not run.
    pub fn shows_no_run(&self) -> bool {
        self.huge_accessed == 0
            && self.huge_pages >= ENOUGH_HUGE
            && self.watched_again < WATCHED_AGAIN
    }

    /// What was seen, of huge pages in their own window.
    pub fn seen(&self) -> ReadCounts {
        let huge_accessed = u64::from(self.huge_accessed) * BASE_PER_HUGE;
        let accessed = self.seen.base_accessed() + huge_accessed;
        ReadCounts { accessed, huge_accessed, ..self.seen }
    }

    /// What the next window depends on: of the processes in focus in the window of base pages, or of all as
    /// [`WindowPace::adapt`] takes it.
    pub fn decisive(&self) -> [ReadCounts; 2] {
        match self.in_focus {
            ReadCounts { present: 0, .. } => [self.seen, self.seen()],
            in_focus => [in_focus; 2],
        }
    }
}
