// SPDX-License-Identifier: Apache-2.0
//! Heat of stretches: where a tracker tells of memory in stretches, what is believed of a page is what is believed
//! of its stretch.
//!
//! A stretch's heat is a page's heat ([`super::hotness`]), kept once: it is renewed when looks at the stretch found
//! accesses. Borders move from report to report; a stretch takes over the heat of the one that held most of it. So a
//! report costs stretches, however much memory they cover.
//!
//! Policies act on pages, and hear of some at every report, as of a sampler's: of runs of a huge page's length,
//! spread evenly over each stretch, as many as it was accessed often, the next ones the next time. Ours.

use super::heat::Heat;
use crate::page::PageTable;
use crate::port::{Sample, SpaceId, Stretch, Vpn};
use crate::unit::BASE_PER_HUGE;

use super::hotness::Hotness;

/// Pages that policies hear of at a report, about. Ours: a few milliseconds' work.
const HEARD_OF: u64 = 1 << 17;

/// What is believed of stretches.
#[derive(Debug, Default)]
pub struct StretchHeat {
    /// In order, none overlapping another.
    known: Vec<Known>,
    reports: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    space: SpaceId,
    vpn: Vpn,
    end: Vpn,
    heat: Heat,
}

impl StretchHeat {
    /// Takes in a report of all stretches, each looked at so many times. `unseen` is the heat of what was not
    /// watched before.
    pub fn tell(&mut self, report: &[Stretch], looks: f64, unseen: Heat, hotness: &Hotness) {
        let heat = |stretch: &Stretch| {
            let before = self.mostly(stretch).unwrap_or(unseen);
            let hits = hits(stretch, looks);
            if hits > 0.0 { hotness.renewal(hits, None).of(before) } else { before }
        };
        let known = |stretch: &Stretch| Known {
            space: stretch.space,
            vpn: stretch.vpn,
            end: end(stretch),
            heat: heat(stretch),
        };
        let mut told: Vec<Known> = report.iter().map(known).collect();
        told.sort_unstable_by_key(|known| (known.space, known.vpn));
        self.known = told;
        self.reports += 1;
    }

    /// The heat of what most of a stretch was before.
    fn mostly(&self, stretch: &Stretch) -> Option<Heat> {
        let shared = |known: &Known| {
            known.end.min(end(stretch)).0.saturating_sub(known.vpn.max(stretch.vpn).0)
        };
        let from = self.at_or_after(stretch.space, stretch.vpn);
        let overlapping = self.known[from..]
            .iter()
            .take_while(|known| known.space == stretch.space && known.vpn < end(stretch));
        overlapping.max_by_key(|known| shared(known)).map(|known| known.heat)
    }

    /// The first entry that ends behind a page.
    fn at_or_after(&self, space: SpaceId, vpn: Vpn) -> usize {
        self.known.partition_point(|known| (known.space, known.end) <= (space, vpn))
    }

    /// The heat of the stretch that a page lies in; `None` where no stretch was told of.
    pub fn heat(&self, space: SpaceId, vpn: Vpn) -> Option<Heat> {
        let known = self.known.get(self.at_or_after(space, vpn))?;
        (known.space == space && known.vpn <= vpn).then_some(known.heat)
    }

    /// True where no tracker tells of stretches.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Appends what policies hear of the last report's pages. Each stands for those between it and the next.
    pub fn sample(&self, report: &[Stretch], looks: f64, pages: &PageTable, out: &mut Vec<Sample>) {
        let page = (pages.base_pages() / (pages.indices() as u64).max(1)).max(1);
        let hits_in = |stretch: &Stretch| stretch.frequency * as_f64(stretch.base_pages / page);
        let interval = report.iter().map(hits_in).sum::<f64>() / as_f64(HEARD_OF);
        for stretch in report.iter().filter(|stretch| stretch.frequency > 0.0) {
            let every = runs(interval / stretch.frequency);
            let step = usize::try_from(every).unwrap_or(usize::MAX);
            #[expect(clippy::cast_precision_loss, reason = "as many pages as one stands for")]
            let hits = hits(stretch, looks) * every as f32;
            let (first, last) = (stretch.vpn.0, end(stretch).0);
            // The first run behind the border whose turn it is.
            let run = first / BASE_PER_HUGE;
            let run = run + (self.reports % every + every - run % every) % every;
            for run in (run..last.div_ceil(BASE_PER_HUGE)).step_by(step) {
                let from = first.max(run * BASE_PER_HUGE);
                let to = last.min((run + 1) * BASE_PER_HUGE);
                out.push(Sample {
                    space: stretch.space,
                    vpn: Vpn(from),
                    base_pages: u32::try_from(to - from).unwrap_or(u32::MAX),
                    hits,
                    exposure: None,
                    tier: None,
                    write: None,
                });
            }
        }
    }
}

/// Every how many-th run: a power of two, so that from report to report all have their turn.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded up")]
fn runs(interval: f64) -> u64 {
    (interval as u64 + u64::from(interval.fract() > 0.0)).max(1).next_power_of_two()
}

#[expect(clippy::cast_precision_loss, reason = "a number of pages")]
fn as_f64(pages: u64) -> f64 {
    pages as f64
}

/// Looks that found an access.
#[expect(clippy::cast_possible_truncation, reason = "at most a few dozen")]
fn hits(stretch: &Stretch, looks: f64) -> f32 {
    (stretch.frequency * looks) as f32
}

fn end(stretch: &Stretch) -> Vpn {
    Vpn(stretch.vpn.0.saturating_add(stretch.base_pages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{PageKind, PageSize, Region, SpaceEvent};
    use crate::unit::Nanos;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SPACE: SpaceId = SpaceId(1);
    const LOOKS: f64 = 20.0;

    /// Stretches side by side, of so many base pages and so often accessed.
    fn report(stretches: &[(u64, f64)]) -> Vec<Stretch> {
        let mut vpn = 0;
        let mut next = |&(base_pages, frequency): &(u64, f64)| {
            let at = Vpn(vpn);
            vpn += base_pages;
            Stretch { space: SPACE, vpn: at, base_pages, frequency, age: Nanos::ZERO }
        };
        stretches.iter().map(&mut next).collect()
    }

    fn mapped(base_pages: u64, size: PageSize) -> PageTable {
        let mut pages = PageTable::default();
        let (start, kind) = (Vpn(0), PageKind::Anonymous);
        pages.apply(SpaceEvent::Mapped(Region { space: SPACE, start, base_pages, size, kind }));
        pages
    }

    /// Hears of so many reports, 100 ms each.
    fn told(reports: &[&[(u64, f64)]]) -> (StretchHeat, Hotness) {
        let (mut heat, mut hotness) = (StretchHeat::default(), Hotness::default());
        hotness.look_for(Nanos::from_millis(5), Nanos::from_millis(100));
        for stretches in reports {
            let unseen = hotness.newborn();
            hotness.advance(Nanos::from_millis(100));
            heat.tell(&report(stretches), LOOKS, unseen, &hotness);
        }
        (heat, hotness)
    }

    /// By hand: half of 20 looks and one in vain at 5 ms are -ln(1 - 10/21)/5 ms, 129 a second.
    #[test]
    fn a_page_is_as_hot_as_its_stretch() {
        let (heat, hotness) = told(&[&[(100, 0.5), (100, 0.0)]]);
        let rate = |vpn| Some(hotness.estimate(heat.heat(SPACE, Vpn(vpn))?).rate_per_sec());
        assert_eq!(rate(99), rate(0));
        assert!(rate(0).is_some_and(|rate| (125.0..133.0).contains(&rate)), "{:?}", rate(0));
        assert_eq!(rate(100), Some(0.0), "not accessed is not hot");
        assert_eq!(rate(200), None, "behind the last");
        assert_eq!(heat.heat(SpaceId(2), Vpn(0)), None);
    }

    #[test]
    fn heat_outlives_borders() {
        let (split, hotness) = told(&[&[(100, 0.6)], &[(30, 0.0), (70, 0.0)]]);
        assert_eq!(split.heat(SPACE, Vpn(0)), split.heat(SPACE, Vpn(99)));
        let hot = hotness.estimate(split.heat(SPACE, Vpn(0)).unwrap());
        assert!(hot.rate_per_sec() > 50.0, "{hot:?}");
        let (merged, hotness) = told(&[&[(70, 0.6), (30, 0.0)], &[(100, 0.0)]]);
        let most = hotness.estimate(merged.heat(SPACE, Vpn(99)).unwrap());
        assert_eq!(most, hot, "most of it was hot");
    }

    #[test]
    fn what_is_heard_of_is_bounded_however_much_memory_there_is() {
        let all = 1 << 31;
        for stretches in [&[(all, 1.0)][..], &[(all / 2, 1.0), (all / 2, 0.05)], &[(all, 0.05)]] {
            let (heat, _) = told(&[stretches]);
            let mut heard = Vec::new();
            heat.sample(&report(stretches), LOOKS, &mapped(all, PageSize::Base), &mut heard);
            let pages: u64 = heard.iter().map(|sample| u64::from(sample.base_pages)).sum();
            assert!(pages > 0 && pages <= 2 * HEARD_OF, "{pages}");
        }
    }

    #[test]
    fn huge_pages_are_heard_of_as_often_as_base_pages_that_are_as_many() {
        let (stretches, pages) = (&[(1 << 26, 0.5)][..], mapped(1 << 26, PageSize::Huge));
        let mut heard = Vec::new();
        told(&[stretches]).0.sample(&report(stretches), LOOKS, &pages, &mut heard);
        assert_eq!(heard.len(), (1 << 26) / 512, "131,072 pages are few enough");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// From report to report all have their turn, and in the end hits are heard of as they are.
        #[test]
        fn every_page_that_is_accessed_has_its_turn(
            sizes in prop::collection::vec((1u64..1 << 19, 0u32..=20), 1..6),
        ) {
            let stretches: Vec<_> =
                sizes.iter().map(|&(pages, hits)| (pages, f64::from(hits) / LOOKS)).collect();
            let pages = mapped(sizes.iter().map(|(pages, _)| pages).sum(), PageSize::Base);
            let report = report(&stretches);
            let (mut heat, _) = told(&[]);
            let mut runs = BTreeMap::new();
            let turns = 512;
            for _ in 0..turns {
                heat.reports += 1;
                let mut heard = Vec::new();
                heat.sample(&report, LOOKS, &pages, &mut heard);
                for sample in heard {
                    let (length, hits) = runs.entry(sample.vpn).or_insert((0, 0.0));
                    *length = u64::from(sample.base_pages);
                    *hits += f64::from(sample.hits);
                }
            }
            for stretch in &report {
                let of = runs.range(stretch.vpn..end(stretch));
                let length: u64 = of.clone().map(|(_, (length, _))| length).sum();
                let accessed = stretch.frequency > 0.0;
                prop_assert_eq!(length, if accessed { stretch.base_pages } else { 0 });
                let wanted = stretch.frequency * LOOKS * f64::from(turns);
                for (vpn, (_, hits)) in of {
                    prop_assert!((hits / wanted - 1.0).abs() < 1e-3, "{vpn:?}: {hits} {wanted}");
                }
            }
        }
    }
}
