// SPDX-License-Identifier: Apache-2.0
//! Orders by tenant, action, reason and outcome, counted from the engine's events.

use std::collections::BTreeMap;

use tierline_core::event::Event;
use tierline_core::port::{Order, SpaceId};
use tierline_core::unit::Bytes;

/// The kind of an order: its tenant, action, reason and outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderKind {
    /// The tenant that owns the memory, by its index in `Manager::tenants`.
    pub tenant: usize,
    /// `promote`, `demote`, `page_out` or `split`.
    pub action: &'static str,
    /// The reason given by the policy; `unstated` if none.
    pub reason: &'static str,
    /// Its outcome.
    pub outcome: &'static str,
}

/// Bytes ordered since the start, by kind of order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderTally(BTreeMap<OrderKind, Bytes>);

impl OrderTally {
    /// Counts the orders among `events`.
    pub fn add(&mut self, events: &[Event], tenant_of: impl Fn(SpaceId) -> usize) {
        for event in events {
            if let Some((kind, bytes)) = order(event, &tenant_of) {
                *self.0.entry(kind).or_default() += bytes;
            }
        }
    }

    /// Forgets the orders of a tenant that was removed.
    pub fn forget(&mut self, tenant: usize) {
        self.0.retain(|kind, _| kind.tenant != tenant);
    }

    /// All kinds of orders so far, with their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (OrderKind, Bytes)> + '_ {
        self.0.iter().map(|(kind, bytes)| (*kind, *bytes))
    }
}

fn order(event: &Event, tenant_of: impl Fn(SpaceId) -> usize) -> Option<(OrderKind, Bytes)> {
    let (page, action, reason, outcome) = match *event {
        Event::Move { moved, outcome, .. } => {
            let action = if moved.to < moved.from { "promote" } else { "demote" };
            (Order::Move(moved).page(), action, moved.reason.name(), outcome)
        }
        Event::PageOut { page, outcome, .. } => (page, "page_out", "unstated", outcome),
        Event::Split { page, outcome, .. } => (page, "split", "unstated", outcome),
        Event::PingPong { .. } | Event::Attend { .. } => return None,
    };
    let tenant = tenant_of(page.space);
    Some((OrderKind { tenant, action, reason, outcome: outcome.name() }, page.size.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::port::{Attention, Move, Outcome, PageAddress, PageSize, Reason, Vpn};
    use tierline_core::tier::TierId;
    use tierline_core::unit::Nanos;

    fn moved(space: u32, from: u8, to: u8, size: PageSize, outcome: Outcome) -> Event {
        let reason = Reason::Hot { rate_per_sec: 1.0 };
        let (from, to) = (TierId(from), TierId(to));
        let moved = Move { space: SpaceId(space), vpn: Vpn(0), size, from, to, reason };
        Event::Move { at: Nanos::ZERO, moved, outcome }
    }

    #[test]
    fn orders_are_summed_by_tenant_action_reason_and_outcome() {
        let page = PageAddress { space: SpaceId(7), vpn: Vpn(0), size: PageSize::Huge };
        let events = [
            moved(7, 1, 0, PageSize::Base, Outcome::Done),
            moved(7, 1, 0, PageSize::Huge, Outcome::Done),
            moved(8, 1, 0, PageSize::Base, Outcome::Busy),
            moved(7, 0, 1, PageSize::Base, Outcome::Done),
            Event::PageOut { at: Nanos::ZERO, page, outcome: Outcome::Done },
            Event::Split { at: Nanos::ZERO, page, outcome: Outcome::Refused },
            Event::Attend { at: Nanos::ZERO, attention: Attention::Calm },
        ];
        let mut tally = OrderTally::default();
        tally.add(&events, |space| usize::from(space == SpaceId(8)));
        let kinds: Vec<_> = tally
            .iter()
            .map(|(k, bytes)| (k.tenant, k.action, k.reason, k.outcome, bytes.base_pages()))
            .collect();
        assert_eq!(
            kinds,
            [
                (0, "demote", "hot", "done", 1),
                (0, "page_out", "unstated", "done", 512),
                (0, "promote", "hot", "done", 513),
                (0, "split", "unstated", "refused", 512),
                (1, "promote", "hot", "busy", 1),
            ]
        );
    }

    #[test]
    fn a_reason_has_the_same_name_as_in_events() {
        let rate_per_sec = 1.0;
        for reason in [
            Reason::Hot { rate_per_sec },
            Reason::MakeRoom { rate_per_sec },
            Reason::Headroom { rate_per_sec },
            Reason::Balance { rate_per_sec },
            Reason::Limit { rate_per_sec },
            Reason::Placed { rate_per_sec },
        ] {
            let written = serde_json::to_value(reason).expect("JSON");
            assert_eq!(written["why"], reason.name());
        }
    }
}
