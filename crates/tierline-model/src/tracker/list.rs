// SPDX-License-Identifier: Apache-2.0
//! The list of trackers that the model has, by the names of `tierline_core::tracker`.

use serde::Deserialize;
use tierline_core::port::Watch;
use tierline_core::unit::{Bytes, Nanos};

use super::{Tracker, accessed, damon, hint_faults, neoprof, pebs, truth};
use crate::error::{Error, Result};
use crate::text;

/// What trackers can be told.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    /// Reads for one record (pebs, ibs).
    pub sample_period: f64,
    /// Records that fit the ring between two looks (pebs, ibs).
    pub ring: usize,
    /// Whether a sampler that may only cost so much begins where its steps would lead, or with its shortest period,
    /// as MEMTIS' kernel does: a hundred times the records, for minutes (pebs).
    pub sampler_settled: bool,
    /// The time between clearing and reading accessed bits (accessed, page_idle).
    #[serde(deserialize_with = "text::quantity")]
    pub window: Nanos,
    /// The time between two such windows.
    #[serde(deserialize_with = "text::quantity")]
    pub window_period: Nanos,
    /// The time between two parts of memory that are armed (hint_faults).
    #[serde(deserialize_with = "text::quantity")]
    pub scan_period: Nanos,
    /// Such a part.
    #[serde(deserialize_with = "text::quantity")]
    pub scan_part: Bytes,
    /// Whether pages in the fastest tier are armed too, as Colloid does on TPP (hint_faults).
    pub scan_fast: bool,
    /// Regions a program (damon).
    pub regions: usize,
    /// log2 of the counters in a lane, 6 to 24 (neoprof).
    pub sketch_width_log2: u32,
    /// Lanes of counters, 1 to 4 (neoprof).
    pub sketch_depth: usize,
}

impl Default for Knobs {
    fn default() -> Self {
        // As on Linux, ours or the kernel's.
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

/// A kind of tracker.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name users type.
    pub name: &'static str,
    make: fn(&Knobs) -> Box<dyn Tracker>,
}

/// Every tracker of the model; the first is the default.
pub const TRACKERS: &[Entry] = &[
    Entry {
        name: "pebs",
        make: |knobs| Box::new(pebs::Pebs::new("pebs", knobs.sample_period, knobs.ring)),
    },
    Entry {
        name: "ibs",
        make: |knobs| Box::new(pebs::Pebs::new("ibs", knobs.sample_period, knobs.ring)),
    },
    Entry {
        name: "accessed",
        make: |knobs| {
            Box::new(accessed::Accessed::new("accessed", knobs.window, knobs.window_period))
        },
    },
    Entry {
        name: "page_idle",
        make: |knobs| {
            Box::new(accessed::Accessed::new("page_idle", knobs.window, knobs.window_period))
        },
    },
    Entry {
        name: "hint_faults",
        make: |knobs| {
            let (period, part) = (knobs.scan_period, knobs.scan_part);
            Box::new(hint_faults::HintFaults::new(period, part, knobs.scan_fast))
        },
    },
    Entry { name: "neoprof", make: |knobs| Box::new(neoprof::Device::new(knobs)) },
    Entry { name: "damon", make: |knobs| Box::new(damon::Damon::new(knobs.regions)) },
    Entry { name: "truth", make: |_| Box::<truth::Truth>::default() },
];

/// What serves a policy that wants to watch so; knobs say what the wish leaves open.
pub fn serve(watch: Watch, knobs: &Knobs) -> Box<dyn Tracker> {
    match watch {
        // Stores are not sampled: reads are what the model counts.
        Watch::Samples { loads, cpu_permille, .. } => {
            let settled = knobs.sampler_settled;
            Box::new(pebs::Pebs::within("pebs", as_f64(loads), cpu_permille, settled, knobs.ring))
        }
        watch @ Watch::HintFaults { .. } => Box::new(hint_faults::HintFaults::of(watch)),
        Watch::Stretches { sampling, aggregation, count } => {
            let count = count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
            Box::new(damon::Damon::of(sampling, aggregation, count))
        }
        watch @ Watch::Counters { .. } => Box::new(neoprof::Device::of(watch, knobs)),
        Watch::Truth => Box::<truth::Truth>::default(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sampling period")]
fn as_f64(period: u64) -> f64 {
    period as f64
}

impl Entry {
    /// The tracker of that name.
    ///
    /// # Errors
    /// `Error::Unknown` with the names there are.
    pub fn find(name: &str) -> Result<&'static Self> {
        TRACKERS
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| Error::unknown("tracker", name, TRACKERS.iter().map(|entry| entry.name)))
    }

    /// One with these knobs.
    pub fn open(&self, knobs: &Knobs) -> Box<dyn Tracker> {
        (self.make)(knobs)
    }
}
