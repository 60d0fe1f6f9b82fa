// SPDX-License-Identifier: Apache-2.0
//! kernel: leaves tiering to the Linux kernel itself.
//!
//! What it does: enables the kernel's own tiering while it runs and reads its counters: hint faults promote
//! (`kernel.numa_balancing` 2), the reclaimer demotes (`demotion_enabled`). It moves no page itself, and it
//! acts on the whole machine, not only on the managed programs. It exists on Linux only; in the model the
//! policy `linux` replaces it.
//!
//! When it helps: as the baseline that needs no manager. Its settings are restored at the end.
//!
//! When it hurts: with demotion on, a full fast node demotes pages of any program, managed or not; a page is
//! observed once in a scan period, so a new hot set takes long to find; little is kept free for bursts of new
//! pages.
//!
//! Knobs: hot_threshold (1 s), watermark_scale (10 of 10,000), demotion (1), scan_period_min (1 s),
//! scan_period_max (60 s), scan_size (256 MiB): the kernel's own defaults, except demotion. `--max-rate` is its
//! promotion rate limit; demotions have none.
//!
//! Where it comes from: Linux 6.1 and later, kernel/sched/fair.c, mm/vmscan.c, Documentation/admin-guide/sysctl.

use super::interface::Policy;
use crate::knob::Knob;
use crate::knobs;
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::Capability;
use crate::unit::{Bytes, Nanos};

knobs! {
    /// The settings for the kernel's tiering.
    pub struct KernelKnobs {
        /// A page that faults within this time after it was armed is hot (`hot_threshold_ms`).
        hot_threshold: Nanos = Nanos::from_secs(1), Nanos::ZERO, Nanos::from_secs(60);
        /// Distance of two watermarks in ten-thousandths of a node (`vm.watermark_scale_factor`).
        watermark_scale: u32 = 10, 1, 3_000;
        /// The reclaimer demotes instead of discarding.
        demotion: bool = true, false, true;
        /// Run time of a program in which the kernel scans it once, at least.
        scan_period_min: Nanos = Nanos::from_secs(1), Nanos::from_millis(100), Nanos::from_secs(60);
        /// The same, at most.
        scan_period_max: Nanos = Nanos::from_secs(60), Nanos::from_millis(100), Nanos::from_secs(600);
        /// Memory armed per round.
        scan_size: Bytes = Bytes::from_mib(256), Bytes::from_mib(1), Bytes::from_mib(16 << 10);
    }
}

impl Policy for KernelKnobs {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn plan(&mut self, _view: &mut View<'_>, _plan: &mut Plan) {}

    fn needs(&self) -> &'static [Capability] {
        &[Capability::KernelTiering]
    }

    fn kernel(&self) -> Option<&KernelKnobs> {
        Some(self)
    }

    fn knobs(&self) -> Vec<Knob> {
        Self::table()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        Self::set(self, knob, value)
    }
}
