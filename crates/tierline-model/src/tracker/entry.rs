// SPDX-License-Identifier: Apache-2.0
//! Entries of the list of the model's trackers ([`TRACKERS`]), and their settings.

use serde::Deserialize;
use tierline_core::port::Tracking;
use tierline_core::unit::{Bytes, Nanos};

use super::{TRACKERS, Tracker, damon, hint_faults, neoprof, pebs, truth};
use crate::error::{Error, Result};
use crate::text;

/// Settings of trackers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrackerKnobs {
    /// Reads per record (pebs, ibs).
    pub sample_period: f64,
    /// Records that fit into the ring between two readings (pebs, ibs).
    pub ring: usize,
    /// Whether a sampler with a cost limit starts at the period to which its steps would lead, or at its
    /// shortest period, as MEMTIS' kernel does: with a hundred times the records, for minutes (pebs).
    pub sampler_settled: bool,
    /// Time between clearing and reading accessed bits (accessed, page_idle).
    #[serde(deserialize_with = "text::quantity")]
    pub window: Nanos,
    /// Time between two such windows.
    #[serde(deserialize_with = "text::quantity")]
    pub window_period: Nanos,
    /// Time between arming two parts of memory (hint_faults).
    #[serde(deserialize_with = "text::quantity")]
    pub scan_period: Nanos,
    /// Size of such a part.
    #[serde(deserialize_with = "text::quantity")]
    pub scan_part: Bytes,
    /// Whether pages in the fastest tier are also armed, as Colloid does on TPP (hint_faults).
    pub scan_fast: bool,
    /// Maximum number of regions per program (damon).
    pub regions: usize,
    /// log2 of the counters per lane, 6 to 24 (neoprof).
    pub sketch_width_log2: u32,
    /// Lanes of counters, 1 to 4 (neoprof).
    pub sketch_depth: usize,
}

impl Default for TrackerKnobs {
    fn default() -> Self {
        // As on Linux: ours or the kernel's.
        Self {
            sample_period: 10_007.0,
            ring: 1 << 20,
            sampler_settled: true,
            window: Nanos::from_millis(20),
            window_period: Nanos::from_secs(1),
            scan_period: Nanos::from_secs(1),
            scan_part: Bytes::from_mib(256),
            scan_fast: false,
            regions: 1_000,
            sketch_width_log2: ::neoprof::Config::default().width_log2,
            sketch_depth: ::neoprof::Config::default().depth,
        }
    }
}

/// A tracker of the model.
pub struct TrackerEntry {
    /// Name on the command line.
    pub name: &'static str,
    pub(super) open: fn(&TrackerKnobs) -> Box<dyn Tracker>,
}

/// The tracker for a policy's request; knobs supply what the request does not specify.
pub fn serve(watch: Tracking, knobs: &TrackerKnobs) -> Box<dyn Tracker> {
    match watch {
        // Stores are not sampled: the model counts reads.
        Tracking::Samples { loads, cpu_permille, .. } => {
            let settled = knobs.sampler_settled;
            Box::new(pebs::Pebs::within(
                pebs::PEBS.name,
                as_f64(loads),
                cpu_permille,
                settled,
                knobs.ring,
            ))
        }
        watch @ Tracking::HintFaults { .. } => Box::new(hint_faults::HintFaults::of(watch)),
        Tracking::Regions { sampling, aggregation, count } => {
            let count = count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
            Box::new(damon::Damon::of(sampling, aggregation, count))
        }
        watch @ Tracking::Counters { .. } => Box::new(neoprof::Device::of(watch, knobs)),
        Tracking::TrueRates => Box::<truth::Truth>::default(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sampling period")]
fn as_f64(period: u64) -> f64 {
    period as f64
}

impl TrackerEntry {
    /// The tracker of that name.
    ///
    /// # Errors
    /// `Error::Unknown` with the known names.
    pub fn find(name: &str) -> Result<&'static Self> {
        TRACKERS
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| Error::unknown("tracker", name, TRACKERS.iter().map(|entry| entry.name)))
    }

    /// A tracker with these knobs.
    pub fn open(&self, knobs: &TrackerKnobs) -> Box<dyn Tracker> {
        (self.open)(knobs)
    }
}
