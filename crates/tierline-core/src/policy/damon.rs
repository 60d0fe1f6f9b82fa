// SPDX-License-Identifier: Apache-2.0
//! damon: migrates regions by how often they were accessed, and for how long.
//!
//! What it does: applies two schemes to DAMON's regions. Hot regions, accessed in at least 5 % of the
//! samplings, are promoted until 99.7 % of the fastest tier is used. Cold regions, with no access, are demoted
//! from there until 0.5 % is free. Each scheme tries at most 200 MB a second: hot regions by highest frequency
//! first, cold ones by age, oldest first. Within a region, only pages found accessed are promoted, and only the
//! others demoted.
//!
//! When it helps: memory that is hot in long regions; a tick's cost grows with regions, not with pages.
//!
//! When it hurts: hot pages scattered among cold ones, as every region then looks warm. Regions of equal heat
//! are not distinguished, and no promoted page is compared with a demoted one. Only the model reports regions
//! yet: on Linux this policy moves nothing.
//!
//! Knobs: tuner (2: temporal; 1: consist; 0: none), used (0.997), free (0.005), quota (200 MB),
//! quota_time (0: any), interval (1 s), hot_access (0.05), cold_age (0), weight_access (1), weight_age (1),
//! young (1), sampling (5 ms), aggregation (100 ms), regions_min (10), regions_max (1000).
//!
//! Where it comes from: DAMOS migrate_hot and migrate_cold (Linux 7.2, mm/damon) with the goals and quotas of
//! damo 3.4's scripts/mem_tier.sh, which also lets the kernel tune the sampling and aggregation times. HMSDK 4
//! is tuner=0, quota=50e9, interval=20, quota_time=1, cold_age=30, sampling=0.1, aggregation=2,
//! regions_min=100, regions_max=10000. Its contexts are of physical memory, one for each node, so a region
//! is in one tier; here only a region's pages in the tier concerned count.

use std::collections::VecDeque;

use super::interface::{Policy, Wants};
use super::parts::ledger::Ledger;
use super::parts::quantum::Quantum;
use super::parts::tuner::{ByteQuota, MET, Tuner};
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageIdx;
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::{Allocation, ObservedRegion, PageSize, Reason, Tracking, Vpn};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs.
    pub struct DamonKnobs {
        /// How quotas follow the goals: 0 not at all, 1 consist, 2 temporal.
        tuner: u32 = 2, 0, 2;
        /// Goal of promotions: used share of the fastest tier.
        used: f64 = 0.997, 0.5, 1.0;
        /// Goal of demotions: free share of the fastest tier.
        free: f64 = 0.005, 0.0, 0.5;
        /// Bytes that each scheme tries per interval, at most.
        quota: Bytes = Bytes(200_000_000), Bytes::from_mib(1), Bytes(100_000_000_000);
        /// Time that each scheme may use per interval, by the measured cost of moves; 0: no bound.
        quota_time: Nanos = Nanos::ZERO, Nanos::ZERO, Nanos::from_secs(10);
        /// Time between two rounds of the schemes.
        interval: Nanos = Nanos::from_secs(1), Nanos::from_millis(100), Nanos::from_secs(60);
        /// Share of samplings that find an access in a hot region, at least.
        hot_access: f64 = 0.05, 0.01, 1.0;
        /// Age of a cold region, at least.
        cold_age: Nanos = Nanos::ZERO, Nanos::ZERO, Nanos::from_secs(600);
        /// Weight of the access frequency in a region's score.
        weight_access: u32 = 1, 0, 100;
        /// Weight of the age in a region's score.
        weight_age: u32 = 1, 0, 100;
        /// The accessed bit of each page is checked before it is moved.
        young: bool = true, false, true;
        /// Time between two samplings of a region.
        sampling: Nanos = Nanos::from_millis(5), Nanos::from_millis(1), Nanos::from_secs(1);
        /// Time after which regions are evaluated, merged and split.
        aggregation: Nanos = Nanos::from_millis(100), Nanos::from_millis(10), Nanos::from_secs(10);
        /// Regions per program, at least.
        regions_min: u32 = 10, 3, 1000;
        /// Regions per program, at most.
        regions_max: u32 = 1000, 10, 100_000;
    }
}

/// The best score.
const BEST: u64 = 99;
/// Bits of an age in seconds.
const AGES: u32 = 32;
/// Pages checked per tick by a scheme, at most.
const CHECKS: u32 = 1 << 16;

/// A scheme: its remaining quota in this interval, and its regions.
#[derive(Clone, Debug, Default)]
struct Scheme {
    quota: ByteQuota,
    left: Bytes,
    /// Regions, by descending priority.
    work: VecDeque<ObservedRegion>,
}

/// The policy.
#[derive(Debug, Default)]
pub struct Damon {
    knobs: DamonKnobs,
    observed_regions: Vec<ObservedRegion>,
    interval: Quantum,
    cold: Scheme,
    hot: Scheme,
}

impl Damon {
    /// How hot a region is, 0 to 99: the weighted mean of its frequency and of the bit length of its age, which
    /// counts up from the middle if the region is accessed and down if not.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share in hundredths"
    )]
    fn score(&self, observed: &ObservedRegion) -> u64 {
        let (access, age) = (u64::from(self.knobs.weight_access), u64::from(self.knobs.weight_age));
        let frequency = (observed.frequency.clamp(0.0, 1.0) * 100.0) as u64;
        let seconds = observed.age.0 / 1_000_000_000;
        let order = (u64::BITS - seconds.leading_zeros()).min(AGES);
        let order = if frequency == 0 { AGES - order } else { AGES + order };
        let old = u64::from(order) * 100 / u64::from(AGES) / 2;
        (access * frequency + age * old) / (access + age).max(1) * BEST / 100
    }

    /// Grants each scheme its quota, and selects its regions.
    fn begin(&mut self, view: &View<'_>) {
        let capacity = view.machine.tiers[TierId::FAST].capacity.0.max(1);
        let free = view.machine.telemetry.tiers[TierId::FAST.index()].free.0.min(capacity);
        let in_bp = |bytes: u64| u128::from(bytes) * u128::from(MET) / u128::from(capacity);
        let most = self.most(view);
        let tuner = match self.knobs.tuner {
            0 => Tuner::None,
            1 => Tuner::Consist,
            _ => Tuner::Temporal,
        };
        self.hot.left =
            self.hot.quota.next(tuner, towards(in_bp(capacity - free), self.knobs.used), most);
        self.cold.left = self.cold.quota.next(tuner, towards(in_bp(free), self.knobs.free), most);
        let (hot_access, cold_age) = (self.knobs.hot_access, self.knobs.cold_age);
        let mut ranked: Vec<(u64, &ObservedRegion)> =
            self.observed_regions.iter().map(|observed| (self.score(observed), observed)).collect();
        ranked.sort_by_key(|(score, _)| *score);
        let cold = ranked.iter().filter(|(_, s)| s.frequency <= 0.0 && s.age >= cold_age);
        let cold = cold.map(|(_, observed)| **observed).collect();
        ranked.sort_by_key(|(score, _)| BEST - score);
        let hot = ranked.iter().filter(|(_, s)| s.frequency >= hot_access);
        self.hot.work = hot.map(|(_, observed)| **observed).collect();
        self.cold.work = cold;
    }

    /// Most bytes in one interval, by size and by time.
    fn most(&self, view: &View<'_>) -> Bytes {
        if self.knobs.quota_time == Nanos::ZERO {
            return self.knobs.quota;
        }
        let cost =
            view.machine.costs.per_base_page().into_iter().max().unwrap_or(Nanos(1)).max(Nanos(1));
        self.knobs.quota.min(Bytes::from_base_pages(self.knobs.quota_time.0 / cost.0))
    }

    /// Plans the moves of pages whose accessed bit agrees with the scheme.
    fn apply(&self, view: &View<'_>, found: &[(PageIdx, Option<bool>)], plan: &mut Plan) {
        let mut ledger = Ledger::new(view, view.machine.budget, |_| Bytes::ZERO);
        for up in [false, true] {
            for &(page, accessed) in found {
                let tier = view.memory.pages.state(page).tier();
                let (Some(tier), Some(_)) = (tier, view.memory.pages.locate(page)) else {
                    continue;
                };
                if (tier > TierId::FAST) != up || accessed == Some(!up) {
                    continue;
                }
                let (to, reason) = match up {
                    true => (Some(TierId::FAST), Reason::Hot { rate_per_sec: self.seen_rate() }),
                    false => (
                        ledger.demotion_target(view.memory.pages, page),
                        Reason::Headroom { rate_per_sec: 0.0 },
                    ),
                };
                if let Some(to) = to {
                    let _ = ledger.plan(view.memory.pages, page, to, reason, plan);
                }
            }
        }
    }

    /// The assumed rate of a promoted page: one access in each sampling that a hot region needs.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    fn seen_rate(&self) -> f32 {
        (self.knobs.hot_access / self.knobs.sampling.as_secs_f64()) as f32
    }
}

/// A goal's score: the present value over the wanted one, in ten-thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "ten-thousandths"
)]
fn towards(bp: u128, goal: f64) -> u64 {
    (bp as f64 / goal.max(1e-4)) as u64
}

impl Scheme {
    /// The next pages in its regions that are in the wrong tier, within its quota.
    fn next(&mut self, view: &View<'_>, up: bool, out: &mut Vec<PageIdx>) {
        let mut checks = CHECKS;
        while let Some(observed) = self.work.front_mut() {
            if observed.base_pages == 0 {
                self.work.pop_front();
                continue;
            }
            if checks == 0 || self.left == Bytes::ZERO {
                return;
            }
            checks -= 1;
            let page = view.memory.pages.find(observed.space, observed.vpn);
            let size = page.and_then(|page| view.memory.pages.locate(page)).map(|at| at.size);
            let base_pages = size.unwrap_or(PageSize::Base).base_pages();
            observed.vpn = Vpn(observed.vpn.0 + base_pages);
            observed.base_pages = observed.base_pages.saturating_sub(base_pages);
            let Some(page) = page else { continue };
            let state = view.memory.pages.state(page);
            let elsewhere = state.tier().is_some_and(|tier| (tier > TierId::FAST) == up);
            if elsewhere && !state.is_refused() {
                self.left = self.left.saturating_sub(Bytes::from_base_pages(base_pages));
                out.push(page);
            }
        }
    }
}

impl Policy for Damon {
    fn name(&self) -> &'static str {
        "damon"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        if !view.evidence.observed_regions.is_empty() {
            self.observed_regions = view.evidence.observed_regions.to_vec();
        }
        if self.interval.due(view.now, self.knobs.interval).is_some() {
            self.begin(view);
        }
        let mut wanted = Vec::new();
        self.cold.next(view, false, &mut wanted);
        self.hot.next(view, true, &mut wanted);
        if !self.knobs.young {
            let found: Vec<_> = wanted.into_iter().map(|page| (page, None)).collect();
            return self.apply(view, &found, plan);
        }
        self.apply(view, view.evidence.answers, plan);
        let within = self.knobs.aggregation;
        view.orders.questions.extend(wanted.into_iter().map(|page| (page, within)));
    }

    fn wants(&self) -> Wants {
        let DamonKnobs { sampling, aggregation, regions_min, regions_max, .. } = self.knobs;
        Wants {
            quantum: Some(self.knobs.aggregation.min(self.knobs.interval)),
            tracking: Some(Tracking::Regions {
                sampling,
                aggregation,
                count: [regions_min, regions_max],
            }),
            allocation: Some(Allocation::FirstTouch),
            own_heat: true,
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        DamonKnobs::table()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::SpaceId;

    fn score(frequency: f64, seconds: u64) -> u64 {
        let age = Nanos::from_secs(seconds);
        let observed =
            ObservedRegion { space: SpaceId(1), vpn: Vpn(0), base_pages: 1, frequency, age };
        Damon::default().score(&observed)
    }

    /// By hand from mm/damon/ops-common.c: 8 s are 4 binary digits, (32 + 4)·100/32/2 = 56, and
    /// (100 + 56)/2·99/100 = 77; 30 s are 5 digits, (32 − 5)·100/32/2 = 42, and 42/2·99/100 = 20.
    #[test]
    fn scores_are_the_kernels() {
        assert_eq!(score(1.0, 8), 77);
        assert_eq!(score(0.0, 30), 20);
        assert_eq!(score(0.0, 0), 24);
        assert!(score(0.0, 300) < score(0.0, 30), "a longer idle time is colder");
        assert!(score(0.5, 300) > score(0.5, 30), "a longer hot time is hotter");
    }

    /// By hand: 90 % used of a goal of 99.7 % is 9027 ten-thousandths; 1 % free of 0.5 % is twice the goal.
    #[test]
    fn a_goals_score_is_the_present_over_the_wanted_value() {
        assert_eq!(towards(9_000, 0.997), 9_027);
        assert_eq!(towards(100, 0.005), 20_000);
        assert_eq!(towards(49, 0.005), 9_800);
    }
}
