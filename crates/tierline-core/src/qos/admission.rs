// SPDX-License-Identifier: Apache-2.0
//! A plan: which applications would be admitted, and with what, before anything is touched (`tierline qos
//! plan`). The controller reaches the same state if all run as profiled.
//!
//! As Mercury (4.3.1): an application that cannot meet its SLO in isolation is refused; the others get what
//! they need by priority, and run on less as best effort. A BI application gets no more fast bandwidth than is
//! healthy while a more important LS application is there.

use serde::Serialize;

use super::allocation::{Claim, Grant, allocate};
use super::application::{Application, Refusal, Slo};
use super::heat_curve::as_f64;
use super::need::{ApplicationProfile, Need};
use super::thresholds::Thresholds;
use crate::tier::Tiers;
use crate::unit::Bytes;

/// An application that would be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Admission {
    /// What its SLO takes in isolation.
    pub need: Need,
    /// What it would get.
    pub grant: Grant,
    /// Its fast memory is less than it needs, as its traffic would hurt a more important application.
    pub held_back: bool,
}

/// The plan for these applications, in their order.
pub fn plan(
    tiers: &Tiers,
    thresholds: &Thresholds,
    applications: &[(Application, ApplicationProfile)],
) -> Vec<Result<Admission, Refusal>> {
    let mut claims = Vec::new();
    let mut planned: Vec<Result<Admission, Refusal>> = Vec::new();
    for (at, (application, profile)) in applications.iter().enumerate() {
        let others = applications[..at].iter().map(|(other, _)| other);
        let need = application.check(others).and_then(|()| profile.need(application.slo, tiers));
        planned.push(need.map(|need| {
            let claim = claim(application, profile, &need);
            claims.push(claim);
            let grant = Grant { tenant: claim.tenant, ..Grant::default() };
            Admission { need, grant, held_back: false }
        }));
    }
    cap_bandwidth(thresholds, applications, &mut claims);
    let faster = tiers.len().saturating_sub(1);
    let room: Vec<Bytes> = tiers.iter().take(faster).map(|(_, tier)| tier.capacity).collect();
    let mut grants = allocate(&room, &claims, true);
    grants.sort_by_key(|grant| grant.tenant);
    for planned in planned.iter_mut().flatten() {
        let find = |all: &[Grant]| all.binary_search_by_key(&planned.grant.tenant, |g| g.tenant);
        if let Ok(at) = find(&grants) {
            planned.grant = grants[at];
        }
    }
    let capped = claims.iter().filter(|claim| claim.fast_cap.is_some());
    for claim in capped {
        let own = planned.iter_mut().flatten().find(|one| one.grant.tenant == claim.tenant);
        own.into_iter().for_each(|one| one.held_back = one.grant.short > Bytes::ZERO);
    }
    planned
}

fn claim<'a>(application: &Application, profile: &'a ApplicationProfile, need: &Need) -> Claim<'a> {
    let Application { tenant, priority, weight, slo, .. } = *application;
    let (curve, need) = (&profile.curve, need.placement);
    let (has_slo, is_bandwidth) = (slo.is_some(), application.is_bandwidth());
    let memory = curve.memory();
    Claim { tenant, priority, weight, has_slo, is_bandwidth, memory, curve, need, fast_cap: None }
}

/// Limits the fast memory of BI applications so that their traffic in the fastest tier stays healthy while a
/// more important LS application is there.
fn cap_bandwidth(
    thresholds: &Thresholds,
    applications: &[(Application, ApplicationProfile)],
    claims: &mut [Claim<'_>],
) {
    let Some(healthy) = thresholds.fast else { return };
    let mut left = as_f64(Bytes(healthy.0));
    let mut order: Vec<&(Application, ApplicationProfile)> = applications.iter().collect();
    order.sort_by_key(|(application, _)| std::cmp::Reverse(application.priority));
    let mut guarded = false;
    for (application, profile) in order {
        let Some(Slo::Bandwidth(target)) = application.slo else {
            guarded |= application.slo.is_some();
            continue;
        };
        let claim = claims.iter_mut().find(|claim| claim.tenant == application.tenant);
        let Some(claim) = claim.filter(|_| guarded) else { continue };
        let target = as_f64(Bytes(target.0));
        let traffic = target * profile.curve.share(claim.need[0]);
        if traffic > left {
            claim.fast_cap = Some(claim.need[0].part((left / traffic).max(0.0)));
        }
        left = (left - traffic).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::TenantId;
    use crate::tier::Tier;
    use crate::unit::{BytesPerSec, Nanos};

    const GB: u64 = 1 << 30;

    fn machine() -> Tiers {
        let tier = |name: &str, gb, ns| Tier {
            name: name.into(),
            nodes: Vec::new(),
            capacity: Bytes(gb * GB),
            latency: Some(Nanos(ns)),
            bandwidth: None,
        };
        Tiers(vec![tier("fast", 40, 100), tier("slow", 200, 250)])
    }

    fn application(
        tenant: u16,
        priority: u32,
        gb: u64,
        slo: Slo,
    ) -> (Application, ApplicationProfile) {
        let memory = Bytes(gb * GB);
        let (tenant, slo) = (TenantId(tenant), Some(slo));
        let application = Application { tenant, slo, priority, weight: 1.0, cores: 4.0, memory };
        (application, ApplicationProfile::unknown(memory))
    }

    fn gb(bytes: Bytes) -> u64 {
        (bytes.0 + GB / 2) / GB
    }

    #[test]
    fn an_impossible_one_is_refused_and_nobody_else_is_touched() {
        let a = application(1, 3, 20, Slo::Latency(Nanos(160)));
        let impossible = application(2, 9, 20, Slo::Latency(Nanos(90)));
        let plans = plan(&machine(), &Thresholds::default(), &[a.clone(), impossible]);
        assert!(matches!(plans[1], Err(Refusal::Impossible { .. })), "{plans:?}");
        let alone = plan(&machine(), &Thresholds::default(), &[a]);
        assert_eq!(plans[0], alone[0]);
        assert_eq!(gb(alone[0].unwrap().grant.reserved[0]), 12);
    }

    #[test]
    fn a_second_one_with_the_same_priority_is_refused() {
        let all = [1, 2].map(|tenant| application(tenant, 3, 20, Slo::Latency(Nanos(160))));
        let plans = plan(&machine(), &Thresholds::default(), &all);
        assert!(plans[0].is_ok());
        assert!(matches!(plans[1], Err(Refusal::Priority { priority: 3, .. })), "{plans:?}");
    }

    /// 70 GB/s with half of 40 GB fast would be 35 GB/s of fast traffic, of 21 GB/s that are healthy.
    #[test]
    fn bandwidth_that_would_hurt_a_more_important_one_is_not_given() {
        let hog = |priority| {
            let slo = Slo::Bandwidth(BytesPerSec(70_000_000_000));
            let (application, profile) = application(2, priority, 40, slo);
            // 122.5 GB/s all fast; 175 ns on average are 70 GB/s.
            let bandwidth = Some(BytesPerSec(122_500_000_000));
            (application, ApplicationProfile { bandwidth, ..profile })
        };
        let fast = Some(BytesPerSec(21_000_000_000));
        let thresholds = Thresholds { fast, slow: None };
        let ls = application(1, 5, 10, Slo::Latency(Nanos(200)));
        let below = plan(&machine(), &thresholds, &[ls.clone(), hog(4)]);
        let below = below[1].unwrap();
        assert_eq!((gb(below.grant.reserved[0]), below.held_back), (12, true));
        let above = plan(&machine(), &thresholds, &[ls, hog(6)]);
        let above = above[1].unwrap();
        assert_eq!((gb(above.grant.reserved[0]), above.held_back), (20, false));
    }
}
