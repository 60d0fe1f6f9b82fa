// SPDX-License-Identifier: Apache-2.0
//! How a world is asked to observe and to allocate.

use serde::Serialize;

use crate::unit::{Bytes, Nanos};

/// How closely the trackers should look: a hint, never a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// Placement is settled: look rarely, to notice a change.
    Calm,
    /// Placement is off or was just changed: look closely.
    #[default]
    Alert,
    /// Placement is off, and more pages are known to be in the wrong place than can be moved at once:
    /// look now and then, as looking takes time from moving.
    Moving,
}

/// How accesses are to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Samples by the processor.
    Samples {
        /// One of so many loads that miss the caches.
        loads: u64,
        /// One of so many stores; `None`: no stores.
        stores: Option<u64>,
        /// Sample more rarely where sampling takes more than this of a core, in thousandths.
        cpu_permille: Option<u32>,
    },
    /// Pages are made to fault at their next access.
    HintFaults {
        /// Time in which all memory is armed once.
        pass: Nanos,
        /// Bytes armed in one round.
        bytes: Bytes,
        /// Time between two rounds, at least.
        floor: Nanos,
        /// Pages in the fastest tier too.
        fast_too: bool,
    },
    /// Memory in stretches, each by a random page at a time (DAMON).
    Stretches {
        /// Time between two looks at a stretch.
        sampling: Nanos,
        /// Time after which what was seen is told, and stretches are merged and split.
        aggregation: Nanos,
        /// Stretches of a program, at least and at most.
        count: [u32; 2],
    },
    /// A memory device below the fastest tier counts its accesses by page (NeoProf), and names a page once it was
    /// accessed more often than `threshold` since the counters were cleared. Without such a device: in any other way.
    Counters {
        /// θ: a page that was counted more often is named.
        threshold: u32,
        /// Time between two readings of the pages that it names.
        read: Nanos,
        /// Time between two readings of its histogram and its state monitor.
        update: Nanos,
        /// Time between two clearings of its counters.
        clear: Nanos,
    },
    /// The true rates themselves, which only a model can tell.
    Truth,
}

impl Watch {
    /// The time between two rounds of arming, for a program with that much memory; `None` where none are armed.
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
    /// As the kernel does: to the fastest tier with room above its low watermark.
    Kernel {
        /// A tier that fell to its low watermark gets new pages again only once its high one is free. Else
        /// as soon as the low one is: allocation and reclaim are decoupled (TPP section 5.2).
        coupled: bool,
        /// The page cache and shared memory go below the fastest tier (TPP section 5.4).
        by_type: bool,
    },
}
