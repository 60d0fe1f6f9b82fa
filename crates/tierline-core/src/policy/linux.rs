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
//! Knobs: hot_threshold (1 s), rate_limit (64 GB/s), adjust_period (60 s), scan_period_min (1 s), scan_period_max
//! (60 s), scan_size (256 MiB), private_share (0); with colloid heat_test (0).
//!
//! Where it comes from: Linux 6.3, kernel/sched/fair.c, mm/memory-tiers.c, mm/vmscan.c. In tiering mode,
//! faults in slow memory do not adapt the scan period (`task_numa_fault`), so it stays at its minimum. Colloid arms
//! fast memory too, whose faults are all local and lengthen it.

use super::goal::Goal;
use super::interface::Wants;
use super::parts::on_fault::{Fault, OnFault, Rules, TierWatermarks};
use super::parts::scan_period::{ScanPeriod, ScanPeriodKnobs};
use super::parts::watermarks::Watermarks;
use crate::knob::Knob;
use crate::page::PageTable;
use crate::port::Allocation;
use crate::telemetry::fault_latency::{self, FaultLatency};
use crate::telemetry::lru::Lru;
use crate::tier::TierId;
use crate::unit::Bytes;

/// Much room: this much above the promotion watermark, or a sixteenth of the node.
const MUCH_ROOM: Bytes = Bytes::from_mib(1 << 10);

/// The rules.
#[derive(Debug)]
pub struct Linux {
    scan: ScanPeriod,
    latency: FaultLatency,
}

/// The policy under a name, with a goal.
pub fn linux(name: &'static str, goal: Box<dyn Goal>) -> OnFault<Linux> {
    let latency = FaultLatency::new(fault_latency::FaultLatencyKnobs::default());
    OnFault::new(name, Linux { scan: ScanPeriod::default(), latency }, goal)
}

impl Rules for Linux {
    fn judge_fault(&mut self, fault: &Fault, _lru: &mut Lru, _pages: &mut PageTable) -> bool {
        if fault.tier == TierId::FAST {
            self.scan.fault(fault.now, true);
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
        TierWatermarks::of_tiering(capacity)
    }

    fn wants(&self, fast_too: bool) -> Wants {
        Wants {
            tracking: Some(self.scan.tracking(fast_too)),
            allocation: Some(Allocation::Kernel { coupled: true, by_type: false }),
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        [ScanPeriodKnobs::table(), fault_latency::FaultLatencyKnobs::table()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.scan.knobs.set(knob, value) || self.latency.knobs.set(knob, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parts::stage::Stage;
    use crate::port::PageSize;
    use crate::unit::Nanos;

    /// The scan period after ten minutes of faults in one tier.
    fn period(tier: TierId) -> Nanos {
        let mut rules = Linux {
            scan: ScanPeriod::default(),
            latency: FaultLatency::new(fault_latency::FaultLatencyKnobs::default()),
        };
        let mut stage = Stage::of_base_pages(1, tier);
        let page = stage.all[0];
        let fault = |second| Fault {
            now: Nanos::from_secs(second),
            page,
            size: PageSize::Base,
            tier,
            latency: Some(Nanos::from_millis(1)),
            hits: 1.0,
            free: Bytes::ZERO,
            capacity: Bytes::from_mib(1 << 10),
        };
        let mut lru = Lru::default();
        for second in 0..600 {
            rules.judge_fault(&fault(second), &mut lru, &mut stage.pages);
        }
        rules.scan.period()
    }

    #[test]
    fn only_faults_in_fast_memory_lengthen_the_scan_period() {
        assert_eq!(period(TierId(1)), Nanos::from_secs(1));
        assert_eq!(period(TierId::FAST), Nanos::from_secs(60));
    }
}
