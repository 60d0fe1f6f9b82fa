// SPDX-License-Identifier: Apache-2.0
//! Workloads: programs as distributions of accesses, with what their cores can have in flight.

pub mod order;
pub mod pattern;

pub use order::Order;
pub use pattern::{Band, Census, Pattern};
