// SPDX-License-Identifier: Apache-2.0
//! Division of tiers: the worked scenarios, and properties over any claims.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const GB: u64 = 1 << 30;

/// All memory is equally hot, by GB.
static UNIFORM: LazyLock<Vec<HeatCurve>> =
    LazyLock::new(|| (0..100).map(|gb| HeatCurve::uniform(Bytes(gb * GB))).collect());

/// The first GB serve a share of all accesses, by GB.
fn skewed(memory: u64, hot: u64, share: f64) -> HeatCurve {
    HeatCurve::of_parts(vec![(Bytes(hot * GB), share), (Bytes((memory - hot) * GB), 1.0 - share)])
}

fn claim(tenant: u16, priority: u32, memory: u64, need: u64) -> Claim<'static> {
    let mut placement = TierBytes::default();
    placement[0] = Bytes(need * GB);
    Claim {
        tenant: TenantId(tenant),
        priority,
        weight: 1.0,
        has_slo: true,
        is_bandwidth: false,
        memory: Bytes(memory * GB),
        curve: &UNIFORM[usize::try_from(memory).unwrap()],
        need: placement,
        fast_cap: None,
    }
}

/// 0.5 % of a tier of 500 GB is a quarter of a program of 10 GB.
#[test]
fn a_limit_stays_if_it_is_near_for_the_tier_and_for_the_program() {
    let mut grant = Grant::default();
    grant.reserved[0] = Bytes(8 * GB);
    let stays = |present: u64, memory: u64| {
        grant.is_served_by(Bytes(present), TierId::FAST, Bytes(500 * GB), Bytes(memory * GB))
    };
    assert!(stays(8 * GB + GB / 40, 10), "by 0.25 % of its memory");
    assert!(!stays(8 * GB + GB / 10, 10), "by 1 %");
    assert!(stays(9 * GB, 7), "neither limits it");
    assert!(!stays(12 * GB, 7), "others have less room to grow");
}

fn in_gb(bytes: Bytes) -> u64 {
    bytes.0 / GB
}

/// Limits in the fastest tier, and what is short, by tenant.
fn fast(room: u64, claims: &[Claim<'_>]) -> Vec<(u16, u64, u64, u64)> {
    let grants = allocate(&[Bytes(room * GB)], claims, true);
    let mut fast: Vec<_> = grants
        .iter()
        .map(|g| (g.tenant.0, in_gb(g.reserved[0]), in_gb(g.lent[0]), in_gb(g.short)))
        .collect();
    fast.sort_unstable();
    fast
}

#[test]
fn the_least_important_is_short_and_the_rest_is_lent_by_priority() {
    let [a, b, c] = [claim(1, 3, 20, 12), claim(2, 2, 30, 15), claim(3, 1, 30, 15)];
    assert_eq!(fast(40, &[c, a, b]), [(1, 12, 0, 0), (2, 15, 0, 0), (3, 13, 0, 2)]);
    assert_eq!(fast(40, &[b, c]), [(2, 15, 10, 0), (3, 15, 0, 0)]);
    let grown = claim(1, 3, 30, 18);
    assert_eq!(fast(40, &[grown, b, c]), [(1, 18, 0, 0), (2, 15, 0, 0), (3, 7, 0, 8)]);
}

#[test]
fn an_unmet_slo_leaves_no_memory_idle() {
    // A cap keeps the first one from what it needs; the others get it.
    let capped = Claim { fast_cap: Some(Bytes(4 * GB)), ..claim(1, 2, 20, 12) };
    assert_eq!(fast(40, &[capped, claim(2, 1, 60, 10)]), [(1, 4, 0, 8), (2, 10, 26, 0)]);
}

#[test]
fn without_slos_the_weights_decide_up_to_all_memory() {
    let without = |tenant, weight, memory| Claim {
        has_slo: false,
        weight,
        ..claim(tenant, tenant.into(), memory, 0)
    };
    let all = [without(1, 1.0, 40), without(2, 2.0, 4), without(3, 3.0, 40)];
    assert_eq!(fast(40, &all), [(1, 0, 9, 0), (2, 0, 4, 0), (3, 0, 27, 0)]);
    // What nobody can use now is room to grow.
    let small = [without(1, 1.0, 5), without(2, 1.0, 5)];
    assert_eq!(fast(40, &small), [(1, 0, 20, 0), (2, 0, 20, 0)]);
}

#[test]
fn what_is_left_goes_where_it_spares_the_largest_part_of_accesses() {
    // Beyond 2 GB, the important one reads its memory rarely: 10 % of its accesses for 18 GB. The other one loses 10 %
    // for every GB that it lacks, whether it has a target or not.
    let cold_beyond = skewed(20, 2, 0.9);
    let important = Claim { curve: &cold_beyond, ..claim(1, 2, 20, 2) };
    for has_slo in [true, false] {
        let hot = Claim { has_slo, ..claim(2, 1, 10, 0) };
        assert_eq!(fast(15, &[important, hot]), [(1, 2, 3, 0), (2, 0, 10, 0)]);
        assert_eq!(fast(7, &[important, hot]), [(1, 2, 0, 0), (2, 0, 5, 0)]);
    }
    // What differs little is alike: then the important one comes first.
    let alike = [claim(1, 2, 11, 0), claim(2, 1, 10, 0)];
    assert_eq!(fast(12, &alike), [(1, 0, 11, 0), (2, 0, 1, 0)]);
}

#[test]
fn beyond_its_target_a_bandwidth_comes_last() {
    let hog = Claim { is_bandwidth: true, ..claim(1, 2, 10, 2) };
    assert_eq!(fast(20, &[hog, claim(2, 1, 30, 5)]), [(1, 2, 0, 0), (2, 5, 13, 0)]);
    assert_eq!(fast(40, &[hog, claim(2, 1, 30, 5)]), [(1, 2, 8, 0), (2, 5, 25, 0)]);
}

#[test]
fn what_the_second_tier_lacks_is_taken_of_the_first() {
    let mut claims = [claim(1, 2, 20, 0), claim(2, 1, 20, 0)];
    claims.iter_mut().for_each(|claim| claim.need[1] = Bytes(10 * GB));
    let grants = allocate(&[Bytes(4 * GB), Bytes(14 * GB)], &claims, false);
    let second = &grants[1];
    assert_eq!((in_gb(second.reserved[0]), in_gb(second.reserved[1])), (4, 4));
    assert_eq!(in_gb(second.short), 2);
}

#[test]
fn transfers_name_who_gives_and_who_gets() {
    let limits = |all: &[(u16, u64)]| -> Vec<(TenantId, Bytes)> {
        all.iter().map(|&(tenant, gb)| (TenantId(tenant), Bytes(gb * GB))).collect()
    };
    let of = |before, after| -> Vec<_> {
        let number = |tenant: Option<TenantId>| tenant.map_or(0, |tenant| tenant.0);
        let all = transfers(&limits(before), &limits(after));
        all.iter().map(|t| (number(t.from), number(t.to), in_gb(t.bytes))).collect()
    };
    assert_eq!(of(&[(1, 12), (2, 15), (3, 13)], &[(1, 18), (2, 15), (3, 7)]), [(3, 1, 6)]);
    let left = of(&[(1, 12), (2, 15), (3, 13)], &[(2, 25), (3, 15)]);
    assert_eq!(left, [(1, 2, 10), (1, 3, 2)]);
    assert_eq!(of(&[(2, 5)], &[(1, 8), (2, 3)]), [(2, 1, 2), (0, 1, 6)]);
    assert_eq!(of(&[(1, 8)], &[(1, 3)]), [(1, 0, 5)]);
}

prop_compose! {
    fn any_claim()(
        memory in 0u64..100,
        needs in prop::array::uniform2(0u64..60),
        has_slo: bool,
        weight in 1u32..9,
        cap in prop::option::of(0u64..40),
    ) -> Claim<'static> {
        let mut claim = claim(0, 0, memory, 0);
        for (need, gb) in claim.need.iter_mut().zip(needs).filter(|_| has_slo) {
            *need = Bytes(gb * GB);
        }
        let fast_cap = cap.map(|cap| Bytes(cap * GB));
        Claim { has_slo, weight: weight.into(), fast_cap, ..claim }
    }
}

/// Claims with tenants and priorities of their own.
fn claims() -> impl Strategy<Value = Vec<Claim<'static>>> {
    let numbered = |claims: Vec<Claim<'static>>| {
        let all = claims.into_iter().zip(1u16..);
        all.map(|(claim, at)| Claim { tenant: TenantId(at), priority: at.into(), ..claim })
            .collect()
    };
    prop::collection::vec(any_claim(), 1..12).prop_map(numbered)
}

proptest! {
    #[test]
    fn limits_never_exceed_a_tier_and_all_of_it_is_given(
        room in prop::array::uniform2(0u64..200), claims in claims(),
    ) {
        let room = room.map(|gb| Bytes(gb * GB));
        for lend in [false, true] {
            let grants = allocate(&room, &claims, lend);
            prop_assert_eq!(grants.len(), claims.len());
            for (tier, &room) in (0..).map(TierId).zip(&room) {
                let given: Bytes = grants.iter().map(|grant| grant.limit(tier)).sum();
                prop_assert!(given <= room, "{tier}: {given} of {room}");
                let capped = tier == TierId::FAST && claims.iter().all(|c| c.fast_cap.is_some());
                // Weights are rounded down to bytes.
                let all = room.0 - given.0 <= claims.len() as u64;
                prop_assert!(!lend || capped || all, "{tier}: {given} of {room}");
            }
        }
    }

    #[test]
    fn a_lower_priority_keeps_nothing_that_a_higher_one_needs(
        room in prop::array::uniform2(0u64..200), claims in claims(),
    ) {
        let grants = allocate(&room.map(|gb| Bytes(gb * GB)), &claims, true);
        for (at, grant) in grants.iter().enumerate() {
            let claim = claims.iter().find(|claim| claim.tenant == grant.tenant).unwrap();
            if grant.short == Bytes::ZERO || claim.fast_cap.is_some() {
                continue;
            }
            for lower in &grants[at + 1..] {
                prop_assert_eq!(lower.limit(TierId::FAST), Bytes::ZERO, "{:?}", grants);
            }
            // It lacks memory of the second tier only if it could use that.
            let needs_second = claim.need[1] > Bytes::ZERO && claim.need[0] <= grant.reserved[0];
            for lower in grants[at + 1..].iter().filter(|_| needs_second) {
                prop_assert_eq!(lower.limit(TierId(1)), Bytes::ZERO, "{:?}", grants);
            }
        }
    }

    #[test]
    fn nothing_is_lent_that_another_program_needs_clearly_more(
        room in 1u64..100, parts in prop::collection::vec((2u64..40, 1u64..20, 0.5..1.0f64), 2..8),
    ) {
        let curves: Vec<HeatCurve> =
            parts.iter().map(|&(memory, hot, share)| skewed(memory, hot.min(memory - 1), share)).collect();
        let claims: Vec<Claim<'_>> = (1u16..)
            .zip(parts.iter().zip(&curves))
            .map(|(id, (&(memory, _, _), curve))| Claim { curve, ..claim(id, id.into(), memory, 0) })
            .collect();
        let grants = allocate(&[Bytes(room * GB)], &claims, true);
        // Accesses that the next GB serves, and those that the last one does.
        let share = |grant: &Grant, more: i64| {
            let curve = &curves[usize::from(grant.tenant.0) - 1];
            let bytes = Bytes(grant.limit(TierId::FAST).0.saturating_add_signed(more << 20));
            (curve.share(bytes) - curve.share(grant.limit(TierId::FAST))).abs()
        };
        for (one, other) in grants.iter().flat_map(|a| grants.iter().map(move |b| (a, b))) {
            if one.limit(TierId::FAST) > Bytes(GB) {
                let (kept, lacked) = (share(one, -1), share(other, 1));
                prop_assert!(lacked <= kept * 1.6, "{one:?} keeps {kept}, {other:?} lacks {lacked}");
            }
        }
    }

    #[test]
    fn the_result_does_not_depend_on_the_order_of_arrival(
        room in prop::array::uniform2(0u64..200), claims in claims(), seed in any::<u64>(),
    ) {
        let room = room.map(|gb| Bytes(gb * GB));
        let mut shuffled = claims.clone();
        let mut rng = crate::rng::Rng::new(seed);
        for at in (1..shuffled.len()).rev() {
            let other = usize::try_from(rng.below(at as u64 + 1)).unwrap();
            shuffled.swap(at, other);
        }
        prop_assert_eq!(allocate(&room, &claims, true), allocate(&room, &shuffled, true));
    }

    #[test]
    fn transfers_add_up_to_the_changes(
        before in prop::collection::vec(0u64..50, 6), after in prop::collection::vec(0u64..50, 6),
    ) {
        let limits = |all: &[u64]| -> Vec<(TenantId, Bytes)> {
            all.iter().zip(1..).map(|(&gb, id)| (TenantId(id), Bytes(gb))).collect()
        };
        let all = transfers(&limits(&before), &limits(&after));
        for (at, id) in (0..6).zip(1..) {
            let tenant = Some(TenantId(id));
            let sum = |to: bool| -> u64 {
                let own = all.iter().filter(|t| if to { t.to == tenant } else { t.from == tenant });
                own.map(|t| t.bytes.0).sum()
            };
            prop_assert_eq!(before[at] + sum(true), after[at] + sum(false));
        }
    }
}
