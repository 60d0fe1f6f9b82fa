// SPDX-License-Identifier: Apache-2.0
//! Policies.
use serde::Serialize;

/// Why a page is moved. Every move carries one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Reason {
    /// Its accesses are expected to repay the move within the payback horizon.
    Hot {
        /// Accesses per second it is believed to get.
        rate_per_sec: f32,
    },
    /// It is the coldest found, and a hotter page needs its room.
    MakeRoom {
        /// Accesses per second it is believed to get.
        rate_per_sec: f32,
    },
    /// It is the coldest found, and new allocations need headroom.
    Headroom {
        /// Accesses per second it is believed to get.
        rate_per_sec: f32,
    },
}
