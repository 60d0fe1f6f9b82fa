// SPDX-License-Identifier: Apache-2.0
//! linux: promotes pages that fault soon after they were armed (kernel.numa_balancing 2).
//!
//! What it does: promotes a page below the fastest tier if it faults within a threshold of one second. The
//! threshold adapts once a minute so that promotions stay near a rate limit; while the fastest tier has much
//! room, every faulting page is promoted. A promotion must leave the high watermark free; otherwise it wakes
//! the reclaimer, which demotes inactive pages until the promotion watermark is free. With colloid as its goal
//! it is what that paper calls TPP, with the latency test of its code.
//!
//! When it helps: strongly skewed accesses; and any kernel since 6.1 has it.
//!
//! When it hurts: the default rate limit is 64 GB/s, so the threshold only rises, and warm pages are promoted
//! and demoted again and again; a page is observed once per scan, so a new hot set takes minutes to find.
//!
//! Knobs: hot_threshold (1 s), rate_limit (64 GB/s), adjust_period (60 s), scan_period (60 s), scan_size
//! (256 MiB); with colloid heat_test (0).
//!
//! Where it comes from: Linux 6.3, kernel/sched/fair.c, mm/memory-tiers.c, mm/vmscan.c. The scan period stays
//! at its maximum, its value for private pages, instead of following the share of local and of shared faults.

use super::goal::Goal;
use super::interface::Wants;
use super::parts::on_fault::{Fault, OnFault, Rules, TierWatermarks, hint_faults};
use super::parts::watermarks::Watermarks;
use crate::knob::Knob;
use crate::knobs;
use crate::page::PageTable;
use crate::port::Allocation;
use crate::telemetry::fault_latency::{self, FaultLatency};
use crate::telemetry::lru::Lru;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The knobs, without those of the threshold.
    pub struct LinuxKnobs {
        /// Time in which all memory is armed once.
        scan_period: Nanos = Nanos::from_secs(60), Nanos::from_secs(1), Nanos::from_secs(60);
        /// Memory armed per round.
        scan_size: Bytes = Bytes::from_mib(256), Bytes::from_mib(16), Bytes::from_mib(16 << 10);
    }
}

/// Much room: this much above the promotion watermark, or a sixteenth of the node.
const MUCH_ROOM: Bytes = Bytes::from_mib(1 << 10);

/// The rules.
#[derive(Debug)]
pub struct Linux {
    knobs: LinuxKnobs,
    latency: FaultLatency,
}

/// The policy under a name, with a goal.
pub fn linux(name: &'static str, goal: Box<dyn Goal>) -> OnFault<Linux> {
    let latency = FaultLatency::new(fault_latency::FaultLatencyKnobs::default());
    OnFault::new(name, Linux { knobs: LinuxKnobs::default(), latency }, goal)
}

impl Rules for Linux {
    fn judge_fault(&mut self, fault: &Fault, _lru: &mut Lru, _pages: &mut PageTable) -> bool {
        if fault.tier == TierId::FAST {
            // Colloid's demotions have no rate limit.
            return fault.latency.is_some_and(|latency| latency < self.latency.threshold());
        }
        let room = MUCH_ROOM.max(Bytes(fault.capacity.0 / 16));
        if fault.free >= Watermarks::of(fault.capacity).promo + room {
            self.latency.reset();
            return true;
        }
        let Some(latency) = fault.latency else { return false };
        self.latency.accepts(fault.now, latency, fault.size.bytes())
    }

    fn watermarks(&self, capacity: Bytes) -> TierWatermarks {
        let kernel = Watermarks::of(capacity);
        TierWatermarks {
            wake: TierWatermarks::woken(kernel),
            stop: kernel.promo,
            floor: kernel.high,
        }
    }

    fn wants(&self, fast_too: bool) -> Wants {
        Wants {
            tracking: Some(hint_faults(self.knobs.scan_period, self.knobs.scan_size, fast_too)),
            allocation: Some(Allocation::Kernel { coupled: true, by_type: false }),
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        [LinuxKnobs::table(), fault_latency::FaultLatencyKnobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.knobs.set(knob, value) || self.latency.knobs.set(knob, value)
    }
}
