// SPDX-License-Identifier: Apache-2.0
//! Splitting of huge pages whose accesses go to few of their base pages.
//!
//! The other base pages of such a page waste fast memory, or would. After the split, each base page of the hot
//! spot gets an equal part of the page's rate, and the others start without a hit.
//!
//! Source: MEMTIS for splitting skewed huge pages; how they are found ([`HotSpots`], [`TrialSplits`]) is ours.

use crate::page::PageIdx;
use crate::policy::parts::trial_splits::{TrialSplits, has_parts};
use crate::policy::view::View;
use crate::port::{PageSize, SpaceId, Vpn};
use crate::telemetry::hot_spots::{HotSpot, HotSpots};

/// Base pages of a huge page.
const HUGE: u32 = 512;

/// A huge page whose split was requested in the last tick, and the accesses of a base page of its hot spot.
#[derive(Clone, Copy, Debug)]
struct Requested {
    space: SpaceId,
    vpn: Vpn,
    spot: HotSpot,
    part_per_sec: f32,
}

/// The hot spots found, and the splits requested for them.
#[derive(Debug, Default)]
pub struct Splitting {
    spots: HotSpots,
    requested: Vec<Requested>,
    trials: TrialSplits,
}

impl Splitting {
    /// Takes in the hits of a tick. If fast memory is full, requests the split of huge pages with a hot spot,
    /// at most `at_most` of them.
    pub fn request(&mut self, view: &mut View<'_>, fast_is_full: bool, at_most: usize) {
        for hit in view.evidence.hits {
            let spot = hit.base_page.and_then(|within| self.spots.hit(hit.page, within));
            let (Some(spot), Some(at)) = (spot, view.memory.pages.locate(hit.page)) else {
                continue;
            };
            let refused = view.memory.pages.state(hit.page).is_refused();
            if fast_is_full
                && !refused
                && view.orders.split.len() < at_most
                && !view.orders.split.contains(&hit.page)
            {
                let (space, vpn) = (at.space, at.vpn);
                let rate_per_sec = view.estimate(hit.page).rate_per_sec();
                let part_per_sec = rate_per_sec / f32::from(spot.base_pages());
                view.orders.split.push(hit.page);
                self.requested.push(Requested { space, vpn, spot, part_per_sec });
            }
        }
        self.trials.request(view, fast_is_full, at_most);
    }

    /// The base pages of the huge pages that were split as requested, with their share of the rate.
    pub fn take_parts(&mut self, view: &mut View<'_>) -> Vec<PageIdx> {
        let mut all = Vec::new();
        for Requested { space, vpn, spot, part_per_sec } in std::mem::take(&mut self.requested) {
            if has_parts(view, space, vpn) {
                let first = all.len();
                view.memory.pages.for_each(space, vpn, HUGE, |part| all.push(part));
                set_rate(view, &all[first..], spot, part_per_sec);
            }
        }
        for (space, vpn, few) in self.trials.judge(view) {
            let first = all.len();
            view.memory.pages.for_each(space, vpn, HUGE, |part| all.push(part));
            set_rate(view, &all[first..], few.spot, few.part_per_sec);
            set_rate(view, &all[first..], few.rest, few.rest_per_sec);
        }
        all
    }
}

/// Sets the rate of some of the base pages of a huge page that was split.
fn set_rate(view: &mut View<'_>, parts: &[PageIdx], of: HotSpot, per_sec: f32) {
    let heat = view.memory.hotness.heat_of_rate(per_sec, PageSize::Base);
    for (_, &part) in parts.iter().enumerate().filter(|(within, _)| of.holds(*within)) {
        view.memory.pages.set_heat(part, heat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::telemetry::Hit;
    use crate::tier::TierId;

    /// Enough hits of base pages 3 and 5 for a decision.
    fn hits(page: PageIdx) -> Vec<Hit> {
        let within = |i: u16| Some(if i.is_multiple_of(2) { 3 } else { 5 });
        (0..64).map(|i| Hit { base_page: within(i), ..Stage::hit(page) }).collect()
    }

    fn stage() -> (Stage, PageIdx) {
        let mut stage = Stage::of_huge_pages(2, TierId(1));
        let page = stage.all[0];
        stage.set_rates(&[100.0, 0.0]);
        stage.hits = hits(page);
        (stage, page)
    }

    #[test]
    fn a_split_is_requested_once_and_only_where_fast_memory_is_full() {
        for (full, at_most, requested) in [(true, 4, 1), (false, 4, 0), (true, 0, 0)] {
            let (mut stage, page) = stage();
            Splitting::default().request(&mut stage.view(), full, at_most);
            assert_eq!(stage.split, vec![page; requested], "full: {full}, at most {at_most}");
        }
    }

    #[test]
    fn the_rate_of_a_split_page_goes_to_its_hot_base_pages() {
        let (mut stage, page) = stage();
        let mut splitting = Splitting::default();
        splitting.request(&mut stage.view(), true, 4);
        assert!(stage.pages.split(page));
        let parts = splitting.take_parts(&mut stage.view());
        assert_eq!(parts.len(), 512);
        let view = stage.view();
        let rate = |within: usize| view.estimate(parts[within]).rate_per_sec();
        assert!((rate(3) - 50.0).abs() < 2.0 && (rate(5) - 50.0).abs() < 2.0, "{}", rate(3));
        assert!(rate(4) < 1.0 && rate(511) < 1.0);
    }

    #[test]
    fn a_page_that_was_not_split_has_no_parts() {
        let (mut stage, _) = stage();
        let mut splitting = Splitting::default();
        splitting.request(&mut stage.view(), true, 4);
        assert!(splitting.take_parts(&mut stage.view()).is_empty());
    }
}
