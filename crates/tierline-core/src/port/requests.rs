// SPDX-License-Identifier: Apache-2.0
//! Requests to a world on observation and allocation.

use serde::Serialize;

use crate::unit::{Bytes, Nanos};

/// How closely trackers should observe: a hint without guarantee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// Placement is settled: observe rarely, to detect a change.
    Calm,
    /// A sample of pages suggests a change: one full observation is needed, to confirm or to drop it.
    Suspicious,
    /// Placement is wrong or was just changed: observe closely.
    #[default]
    Alert,
    /// Placement is wrong, and more pages wait for a move than can be moved at once: observe now and then, as
    /// scans take time from moves.
    Moving,
}

/// How accesses are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// Samples taken by the processor.
    Samples {
        /// Sample one of this many loads that miss the caches.
        loads: u64,
        /// Sample one of this many stores; `None`: no stores.
        stores: Option<u64>,
        /// Sample more rarely if sampling takes more than this share of a core, in thousandths.
        cpu_permille: Option<u32>,
    },
    /// Pages are made to fault at their next access.
    HintFaults {
        /// Time in which all memory is armed once.
        pass: Nanos,
        /// Bytes armed per round.
        bytes: Bytes,
        /// Time between two rounds, at least.
        floor: Nanos,
        /// Arm pages in the fastest tier too.
        fast_too: bool,
    },
    /// Regions, each sampled by one random page at a time (DAMON).
    Regions {
        /// Time between two samplings of a region.
        sampling: Nanos,
        /// Time after which results are reported, and regions are merged and split.
        aggregation: Nanos,
        /// Regions of a program, at least and at most.
        count: [u32; 2],
    },
    /// A memory device below the fastest tier counts its accesses per page (NeoProf), and reports a page once
    /// it was accessed more often than `threshold` since the counters were cleared. Without such a device any
    /// other tracker is used.
    Counters {
        /// θ: pages with a higher count are reported.
        threshold: u32,
        /// Time between two readings of the reported pages.
        read: Nanos,
        /// Time between two readings of its histogram and its state monitor.
        update: Nanos,
        /// Time between two clearings of its counters.
        clear: Nanos,
    },
    /// The true rates themselves, known only to a model.
    TrueRates,
}

impl Tracking {
    /// The time between two rounds of arming, for a program with that much memory; `None` if nothing is armed.
    pub fn round(&self, memory: Bytes) -> Option<Nanos> {
        let Self::HintFaults { pass, bytes, floor, .. } = *self else { return None };
        let rounds = memory.0.div_ceil(bytes.0.max(1)).max(1);
        Some(Nanos(pass.0 / rounds).max(floor))
    }
}

/// Where new pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// To the fastest tier with room.
    FirstTouch,
    /// As the kernel: to the fastest tier with its low watermark free.
    Kernel {
        /// Whether a tier that fell to its low watermark gets new pages again only once its high watermark is
        /// free. Otherwise as soon as the low one is free: allocation and reclaim are decoupled (TPP section
        /// 5.2).
        coupled: bool,
        /// Whether the page cache and shared memory go below the fastest tier (TPP section 5.4).
        by_type: bool,
    },
}
