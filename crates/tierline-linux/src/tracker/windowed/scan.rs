// SPDX-License-Identifier: Apache-2.0
//! A scan: what its windows have shown so far.

use std::ops::Range;
use std::time::Duration;

use tierline_core::port::{Observations, PageAddress, PageSize, Sample, SpaceEvent, SpaceId, Vpn};
use tierline_core::unit::BASE_PER_HUGE;

use crate::tracker::access_bits::{HugeBatch, ReadCounts};
use crate::tracker::window::ratio;

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
    /// How often huge pages were watched again because their windows showed no access.
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

    /// Takes back what it has found of huge pages that were split before it ended: told of them as huge, the books would lose
    /// their base pages again.
    pub fn forget_huge(&self, split: &[PageAddress], found: &mut Observations) {
        let huge = found.samples.split_off(self.base_samples.min(found.samples.len()));
        for sample in huge {
            let run = sample.vpn.0..sample.vpn.0 + u64::from(sample.base_pages);
            let left = without(run, sample.space, split).into_iter().map(|run| Sample {
                vpn: Vpn(run.start),
                base_pages: u32::try_from(run.end - run.start).unwrap_or(sample.base_pages),
                ..sample
            });
            found.samples.extend(left);
        }
        for event in std::mem::take(&mut found.space_events) {
            let SpaceEvent::Sized(space, vpn, base_pages, PageSize::Huge) = event else {
                found.space_events.push(event);
                continue;
            };
            let left = without(vpn.0..vpn.0 + base_pages, space, split).into_iter().map(|run| {
                SpaceEvent::Sized(space, Vpn(run.start), run.end - run.start, PageSize::Huge)
            });
            found.space_events.extend(left);
        }
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

/// The parts of a run of huge pages that are in none of those that were split.
fn without(run: Range<u64>, space: SpaceId, split: &[PageAddress]) -> Vec<Range<u64>> {
    let of_run = split.iter().filter(|page| page.space == space && run.contains(&page.vpn.0));
    let mut gone: Vec<u64> = of_run.map(|page| page.vpn.0).collect();
    gone.sort_unstable();
    let from = [run.start].into_iter().chain(gone.iter().map(|vpn| vpn + BASE_PER_HUGE));
    let to = gone.iter().copied().chain([run.end]);
    from.zip(to).filter(|(from, to)| from < to).map(|(from, to)| from..to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(7);

    fn sample(vpn: u64, base_pages: u32) -> Sample {
        let (hits, exposure, tier, write) = (1.0, None, None, None);
        Sample { space: SPACE, vpn: Vpn(vpn), base_pages, hits, exposure, tier, write }
    }

    fn huge(vpn: u64) -> PageAddress {
        PageAddress { space: SPACE, vpn: Vpn(vpn), size: PageSize::Huge }
    }

    /// A base page, then huge pages 1, 2, 3 and 5. Pages 2 and 5 are split before the scan is reported.
    #[test]
    fn what_it_found_of_huge_pages_that_were_split_since_is_taken_back() {
        let scan = Scan { base_samples: 1, ..Scan::default() };
        let sized =
            |vpn, base_pages| SpaceEvent::Sized(SPACE, Vpn(vpn), base_pages, PageSize::Huge);
        let base = SpaceEvent::Sized(SPACE, Vpn(0), 512, PageSize::Base);
        let mut found = Observations {
            space_events: vec![base, sized(512, 5 * 512)],
            samples: vec![sample(8, 1), sample(512, 3 * 512), sample(5 * 512, 512)],
            ..Observations::default()
        };
        scan.forget_huge(&[huge(5 * 512), huge(2 * 512)], &mut found);
        assert_eq!(found.samples, [sample(8, 1), sample(512, 512), sample(3 * 512, 512)]);
        assert_eq!(found.space_events, [base, sized(512, 512), sized(3 * 512, 2 * 512)]);
    }
}
