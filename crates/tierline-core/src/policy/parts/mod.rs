// SPDX-License-Identifier: Apache-2.0
//! Parts that several policies are put together from.

pub mod ledger;
pub mod quantum;
pub mod residents;
