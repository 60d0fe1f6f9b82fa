// SPDX-License-Identifier: Apache-2.0
//! Policy `kernel`: switches on the kernel's own tiering through the journal.
//!
//! It takes the place of a tracker: the kernel observes accesses itself and reports no samples. Its moves
//! are visible only in the counters of `/proc/vmstat`, see [`crate::telemetry::KernelCounters`].

use tierline_core::policy::kernel::KernelKnobs;
use tierline_core::port::{Attention, Observations, SpaceId};
use tierline_core::unit::{BytesPerSec, Nanos};

use crate::balancing::{self, MODE, TIERING};
use crate::conflicts::{DEMOTION, OwnUse};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::root::Root;
use crate::tracker::Tracker;

const RATE_LIMIT: &str = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";
const SCALE: &str = "/proc/sys/vm/watermark_scale_factor";
const KNOBS: &str = "/sys/kernel/debug/sched/numa_balancing";

/// The kernel's tiering, switched on; the journal restores its settings.
#[derive(Clone, Copy, Debug)]
pub struct KernelTiering;

impl KernelTiering {
    /// Switches it on for the whole machine; the kernel promotes at most `rate`.
    ///
    /// # Errors
    /// `Error::Missing` if this kernel lacks a setting, `Error::Refused` if it balances between sockets, before any is
    /// changed; `Error::File` if one cannot be written.
    pub fn start(
        root: &Root,
        journal: &Journal,
        knobs: &KernelKnobs,
        rate: BytesPerSec,
    ) -> Result<Self> {
        let settings = settings(knobs, rate);
        if let Some((path, _)) = settings.iter().find(|(path, _)| !root.exists(path)) {
            return Err(missing(path));
        }
        balancing::may_return(&root.read(MODE)?, TIERING)?;
        for (path, value) in &settings {
            journal.set(root, path, value)?;
        }
        Ok(Self)
    }
}

/// Every setting with its value; the one that starts the kernel's tiering is last.
fn settings(knobs: &KernelKnobs, rate: BytesPerSec) -> Vec<(String, String)> {
    let millis = |time: Nanos| (time.0 / 1_000_000).to_string();
    // The kernel divides by the size, and a rate of 0 would mean no promotion.
    let mib = |bytes: u64| (bytes >> 20).max(1).to_string();
    let debug = |name: &str| format!("{KNOBS}/{name}");
    vec![
        (SCALE.into(), knobs.watermark_scale.to_string()),
        (RATE_LIMIT.into(), mib(rate.0)),
        (debug("hot_threshold_ms"), millis(knobs.hot_threshold)),
        (debug("scan_period_min_ms"), millis(knobs.scan_period_min)),
        (debug("scan_period_max_ms"), millis(knobs.scan_period_max)),
        (debug("scan_size_mb"), mib(knobs.scan_size.0)),
        (DEMOTION.into(), u8::from(knobs.demotion).to_string()),
        (MODE.into(), TIERING.into()),
    ]
}

fn missing(path: &str) -> Error {
    Error::Missing {
        what: "the kernel's own tiering".into(),
        why: format!("no {path}"),
        hint: "Linux 6.1 or later with CONFIG_NUMA_BALANCING and CONFIG_MIGRATION, debugfs mounted (mount -t \
               debugfs none /sys/kernel/debug); or --policy tpp"
            .into(),
    }
}

impl Tracker for KernelTiering {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn uses(&self) -> OwnUse {
        OwnUse { kernel: true, ..OwnUse::default() }
    }

    fn watch(&mut self, _spaces: &[SpaceId]) -> Result<()> {
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, _out: &mut Observations) -> Result<()> {
        Ok(())
    }

    fn next_due(&self) -> Nanos {
        Nanos(u64::MAX)
    }

    fn set_attention(&mut self, _attention: Attention) {}

    fn reports_page_sizes(&self) -> bool {
        true // this host does not use them
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fake;

    const BEFORE: [(&str, &str); 8] = [
        (SCALE, "10\n"),
        (RATE_LIMIT, "16\n"),
        ("/sys/kernel/debug/sched/numa_balancing/hot_threshold_ms", "1000\n"),
        ("/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms", "1000\n"),
        ("/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms", "60000\n"),
        ("/sys/kernel/debug/sched/numa_balancing/scan_size_mb", "256\n"),
        (DEMOTION, "false\n"),
        (MODE, "0\n"),
    ];

    #[test]
    fn only_differing_settings_are_changed_and_all_are_restored() {
        let (dir, root) = fake(&BEFORE);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let knobs =
            KernelKnobs { hot_threshold: Nanos::from_millis(2500), ..KernelKnobs::default() };
        KernelTiering::start(&root, &journal, &knobs, BytesPerSec(64 << 20)).expect("started");
        let changed: Vec<String> = journal.changes().into_iter().map(|c| c.path).collect();
        let hot = format!("{KNOBS}/hot_threshold_ms");
        assert_eq!(changed, [RATE_LIMIT, hot.as_str(), DEMOTION, MODE]);
        assert_eq!(root.read(RATE_LIMIT).expect("read").trim(), "64");
        assert_eq!(root.read(&hot).expect("read").trim(), "2500");
        assert_eq!(root.read(MODE).expect("read").trim(), "2");
        assert!(journal.restore().is_empty());
        for (path, value) in BEFORE {
            assert!(root.read(path).expect("read").starts_with(value.trim()), "{path}");
        }
    }

    #[test]
    fn where_the_kernel_balances_between_sockets_nothing_is_changed() {
        let mut files = BEFORE;
        files[7] = (MODE, "1\n");
        let (dir, root) = fake(&files);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let start = KernelTiering::start(&root, &journal, &KernelKnobs::default(), BytesPerSec(1));
        assert!(matches!(start, Err(Error::Refused { .. })), "programs could hang afterwards");
        assert!(journal.changes().is_empty());
    }

    #[test]
    fn where_a_setting_is_missing_none_is_changed() {
        let (dir, root) = fake(&BEFORE[..7]);
        let journal = Journal::open(dir.path().join("run")).expect("a journal");
        let start = KernelTiering::start(&root, &journal, &KernelKnobs::default(), BytesPerSec(1));
        let error = start.expect_err("no mode");
        assert!(error.to_string().contains("numa_balancing") && error.hint().is_some(), "{error}");
        assert!(journal.changes().is_empty());
    }
}
