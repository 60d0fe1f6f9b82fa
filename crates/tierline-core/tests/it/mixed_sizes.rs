// SPDX-License-Identifier: Apache-2.0
//! A lowered limit of a tenant with huge and base pages, and with pages of a file that another one uses; none are accessed.

use tierline_core::engine::Engine;
use tierline_core::policy::POLICIES;
use tierline_core::port::{
    Attention, Capabilities, Observations, Order, Outcome, PageKind, PageSize, Region, Residence,
    SpaceEvent, SpaceId, Telemetry, TenantId, TenantTelemetry, TierTelemetry, Vpn, World,
};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};

use crate::contract::{RATE, TICK};
use crate::toy::{machine, offers_moves_only};

const SPACE: SpaceId = SpaceId(1);
const TENANT: TenantId = TenantId(1);
const ROOM: u64 = 8 * BASE_PER_HUGE;

/// All of a program's memory is fast at first: so many pages of each size.
struct MixedSizes {
    huge: u64,
    base: u64,
    /// Base pages of a file that count as the use of another tenant.
    others: u64,
    is_mapped: bool,
    /// Base pages in fast memory, in either size.
    fast: u64,
}

impl MixedSizes {
    fn regions(&self) -> [Region; 3] {
        let region = |start, base_pages, size, kind| Region {
            space: SPACE,
            start: Vpn(start),
            base_pages,
            size,
            kind,
        };
        let huge = self.huge * BASE_PER_HUGE;
        [
            region(0, huge, PageSize::Huge, PageKind::Anonymous),
            region(1 << 20, self.base, PageSize::Base, PageKind::Anonymous),
            region(1 << 21, self.others, PageSize::Base, PageKind::File),
        ]
    }
}

impl World for MixedSizes {
    fn observe(&mut self, _now: Nanos, out: &mut Observations) {
        if std::mem::replace(&mut self.is_mapped, true) {
            return;
        }
        out.space_events.push(SpaceEvent::Owned(SPACE, TENANT));
        for region in self.regions().into_iter().filter(|region| region.base_pages > 0) {
            let (vpn, base_pages) = (region.start, u32::try_from(region.base_pages).unwrap());
            out.space_events.push(SpaceEvent::Mapped(region));
            out.residence.push(Residence { space: SPACE, vpn, base_pages, tier: TierId::FAST });
        }
    }

    fn measure(&mut self, _now: Nanos) -> Telemetry {
        let free = |used| TierTelemetry {
            free: Bytes::from_base_pages(ROOM - used),
            ..TierTelemetry::default()
        };
        let all = self.huge * BASE_PER_HUGE + self.base + self.others;
        let used = |base_pages| Some(Bytes::from_base_pages(base_pages));
        let tenant = TenantTelemetry {
            tenant: TENANT,
            used: vec![used(self.fast - self.others), used(all - self.fast)],
            used_files: vec![Bytes::ZERO; 2],
            ..TenantTelemetry::default()
        };
        Telemetry {
            tiers: vec![free(self.fast), free(all - self.fast)],
            tenants: vec![tenant],
            ..Telemetry::default()
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::of([])
    }

    fn act(&mut self, _now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        for m in orders.iter().filter_map(Order::as_move) {
            assert_eq!((m.from, m.to), (TierId::FAST, TierId(1)), "nothing is accessed");
            assert!(m.vpn < Vpn(1 << 21), "it is another's page");
            self.fast -= m.size.base_pages();
            out.push(Outcome::Done);
        }
        Nanos(2_000) * orders.len() as u64
    }

    fn set_attention(&mut self, _attention: Attention) {}

    offers_moves_only!();
}

/// Base pages in fast memory after a limit is set, without another's.
fn used(huge: u64, base: u64, others: u64, limit: u64) -> u64 {
    let fast = huge * BASE_PER_HUGE + base + others;
    let mut world = MixedSizes { huge, base, others, is_mapped: false, fast };
    let mut engine =
        Engine::new(machine(&[ROOM, ROOM]), Limits::default(), (POLICIES[0].make)(), RATE);
    engine.limits.set(TENANT, TierId::FAST, Some(Bytes::from_base_pages(limit)));
    (0..60).for_each(|tick| _ = engine.tick(TICK * tick, &mut world));
    world.fast - others
}

#[test]
fn a_lowered_limit_takes_no_page_that_is_larger_than_what_is_above_it() {
    for limit in [0, 100, 500, 700, 1_000, 1_400, 1_900, 2_035, 2_047] {
        assert_eq!(used(2, 1_024, 0, limit), limit, "some pages are small");
    }
    assert_eq!(used(4, 0, 0, 1_030), 1_024, "all pages are huge");
    assert_eq!(used(4, 0, 0, 100), 0);
}

/// A program maps files that count as the use of others, as libraries do: they are no help against its excess.
#[test]
fn a_lowered_limit_takes_no_page_that_counts_as_the_use_of_another() {
    assert_eq!(used(0, 1_024, 900, 300), 300);
    assert_eq!(used(2, 0, 1_024, 1_000), 512, "a huge page for a few above the limit");
}
