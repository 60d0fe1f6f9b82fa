// SPDX-License-Identifier: Apache-2.0
//! The measured cost of orders, and how many fit into one tick at that cost.

use crate::port::{Order, Outcome, PageSize};
use crate::unit::{Bytes, Nanos};

/// Longest measured time of one tick's orders of one kind: trackers must be read in between, and what programs allocate must
/// be noticed. Ours.
const MAX_BUSY: Nanos = Nanos::from_millis(50);
/// Cost of moving one base page before it was measured: several times that of current machines, so that only
/// clearly hot pages move at first. Ours.
const ASSUMED_COST: Nanos = Nanos(10_000);
/// The first batch is small: it measures the cost.
const FIRST_BATCH: Bytes = PageSize::Huge.bytes();
/// Weight of the newest batch in a measured cost. Ours.
const COST_WEIGHT: f64 = 0.25;
/// The same for latencies: each direction is measured half as often. Ours.
const LATENCY_WEIGHT: f64 = 0.1;
/// Smaller batches are not averaged: their cost is mostly that of the call.
const COST_MIN_PAGES: u64 = 32;

/// Time that moving one page took, from batches of one page size; base pages first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// To faster memory.
    pub up: [Option<Nanos>; 2],
    /// To slower memory.
    pub down: [Option<Nanos>; 2],
}

/// The measured costs.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// Cost of one base page, moved as a base page or as part of a huge page.
    each: [Option<Nanos>; 2],
    latency: Latencies,
    /// Cost of moving one base page in recent batches, including batches of both sizes.
    pace: Option<Nanos>,
    /// Cost of paging out one base page.
    page_out: Option<Nanos>,
    /// Cost of splitting one huge page.
    split: Option<Nanos>,
}

impl Costs {
    /// Cost of moving one base page, by the size of the page that moves.
    pub fn per_base_page(&self) -> [Nanos; 2] {
        self.each.map(|cost| cost.unwrap_or(ASSUMED_COST))
    }

    /// Recent time of moving one page.
    pub fn latency(&self) -> Latencies {
        self.latency
    }

    /// Bytes that can be moved in one tick.
    pub fn bytes_per_tick(&self) -> Bytes {
        let in_time = within(self.pace).map_or(FIRST_BATCH, Bytes::from_base_pages);
        in_time.max(PageSize::Huge.bytes())
    }

    /// Base pages that can be paged out in one tick.
    pub fn page_outs_per_tick(&self) -> u64 {
        within(self.page_out).unwrap_or(FIRST_BATCH.base_pages()).max(PageSize::Huge.base_pages())
    }

    /// Huge pages that can be split in one tick.
    pub fn splits_per_tick(&self) -> usize {
        usize::try_from(within(self.split).unwrap_or(1).max(1)).unwrap_or(usize::MAX)
    }

    /// Learns from a batch of orders of one kind, which took `spent`. One of which most pages did not move shows how long orders
    /// take, but not what moving a page costs: refusals are quick, and calls wait while a process forks.
    pub fn learn(&mut self, orders: &[Order], outcomes: &[Outcome], spent: Nanos) {
        let count = orders.len() as u64;
        let base_pages: u64 = orders.iter().map(|order| order.page().size.base_pages()).sum();
        debug_assert!(base_pages >= count && count > 0, "{count} orders of {base_pages} pages");
        match orders[0] {
            Order::PageOut(_) => {
                average_in(&mut self.page_out, Nanos(spent.0 / base_pages), COST_WEIGHT);
            }
            Order::Split(_) => average_in(&mut self.split, Nanos(spent.0 / count), COST_WEIGHT),
            Order::Move(first) | Order::MoveShared(first) if base_pages >= COST_MIN_PAGES => {
                let new = Nanos(spent.0 / base_pages);
                average_in(&mut self.pace, new, COST_WEIGHT);
                let done = outcomes.iter().filter(|outcome| **outcome == Outcome::Done).count();
                let of_one_size = orders.iter().all(|order| order.page().size == first.size);
                if of_one_size && done * 2 > orders.len() {
                    let size = size_index(first.size);
                    average_in(&mut self.each[size], new, COST_WEIGHT);
                    let Latencies { up, down } = &mut self.latency;
                    let latency = if first.to < first.from { up } else { down };
                    average_in(&mut latency[size], Nanos(spent.0 / count), LATENCY_WEIGHT);
                }
            }
            Order::Move(_) | Order::MoveShared(_) => {}
        }
    }
}

/// How many fit into a tick at this cost.
fn within(cost: Option<Nanos>) -> Option<u64> {
    cost.map(|cost| MAX_BUSY.0 / cost.0.max(1))
}

/// Averages a new measurement in; the first is taken as it is.
fn average_in(average: &mut Option<Nanos>, new: Nanos, weight: f64) {
    debug_assert!((0.0..=1.0).contains(&weight), "a weight is a share: {weight}");
    let mixed = |old: Nanos| {
        let (old, new) = (old.as_secs_f64(), new.as_secs_f64());
        Nanos::from_secs_f64(old + weight * (new - old))
    };
    *average = Some(average.map_or(new, mixed));
}

/// The index of a page size in a table of two.
pub(crate) fn size_index(size: PageSize) -> usize {
    match size {
        PageSize::Base => 0,
        PageSize::Huge => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Move, Reason, SpaceId, Vpn};
    use crate::tier::TierId;

    /// Pages of a process that forks take long to be refused: that is not what moving them costs.
    #[test]
    fn refused_pages_do_not_show_what_moving_costs() {
        let (space, vpn, size, reason) =
            (SpaceId(1), Vpn(7), PageSize::Base, Reason::Hot { rate_per_sec: 1.0 });
        let order =
            Order::Move(Move { space, vpn, size, from: TierId(1), to: TierId::FAST, reason });
        let (mut costs, orders) = (Costs::default(), [order; 64]);
        costs.learn(&orders, &[Outcome::Done; 64], Nanos(64 * 20_000));
        let (cost, in_a_tick) = (costs.per_base_page(), costs.bytes_per_tick());
        costs.learn(&orders, &[Outcome::Shared; 64], Nanos::from_millis(64));
        assert_eq!((costs.per_base_page(), cost[0]), (cost, Nanos(20_000)));
        assert!(costs.bytes_per_tick() < in_a_tick, "a tick must not take longer for that");
    }
}
