// SPDX-License-Identifier: Apache-2.0
//! Parts shared by several policies.

pub mod arrivals;
pub mod batch;
pub mod benefit;
pub mod candidates;
pub mod hand;
pub mod headroom;
pub mod ledger;
pub mod make_room;
pub mod on_fault;
pub mod persistence;
pub mod placement;
pub mod quantum;
pub mod recency;
pub mod sampling;
pub mod scan_period;
pub mod second_chance;
pub mod splitting;
#[cfg(test)]
pub(super) mod stage;
pub mod stall_cost;
pub mod top;
pub mod trial_splits;
pub mod tuner;
pub mod watermarks;
