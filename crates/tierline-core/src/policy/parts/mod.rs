// SPDX-License-Identifier: Apache-2.0
//! Parts that several policies are put together from.

pub mod ledger;
pub mod on_fault;
pub mod placement;
pub mod quantum;
pub mod review;
pub mod scan_period;
pub mod tuner;
pub mod watermarks;
