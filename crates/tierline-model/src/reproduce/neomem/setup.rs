// SPDX-License-Identifier: Apache-2.0
//! NeoMem's set-ups as scenarios (VI-A): a program of 32 threads in base pages on its testbed, a system, and what is varied.

use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::error::Result;
use crate::scenario::Scenario;
use crate::workload::list::written;

/// A program, or what stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    /// GUPS of 19 GB, 2 GiB of it hot (the artifact's command line); jumps late where that is wanted.
    Gups,
    /// XSBench: the workload `xsbench` of 15 GiB.
    XsBench,
    /// PageRank: the workload `graph` of 16 GiB.
    PageRank,
}

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// NeoMem.
    NeoMem,
    /// NeoMem with PEBS at one in so many misses in NeoProf's place.
    Pebs(u16),
    /// NeoMem with accessed bits in its place, read every 5 s; so counters are cleared every 30 s.
    PteScan,
    /// TPP.
    Tpp,
    /// `AutoNUMA` of Linux 6.3, with a threshold: policy `linux`.
    AutoNuma,
    /// First touch.
    FirstTouch,
    /// MEMTIS.
    Memtis,
}

/// What is not as in table V.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Varied {
    /// Nothing.
    Nothing,
    /// Milliseconds between two readings of hot pages.
    Interval(u16),
    /// The quota, MB/s.
    Quota(u16),
    /// log2 of the sketch's width, and its lanes.
    Sketch(u8, u8),
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bench {
    /// The program.
    pub app: App,
    /// The system.
    pub system: System,
    /// Slow over fast memory.
    pub ratio: u8,
    /// Whether the hot set is elsewhere for the last 25 s (GUPS).
    pub jumps: bool,
    /// What is varied.
    pub varied: Varied,
}

/// Longer than it takes NeoMem to find a hot set here. The paper's runs are as long as the programs take.
pub const SECONDS: u16 = 60;
/// When GUPS jumps: the paper's 600 s of warm-up, shortened.
pub const JUMP_SECONDS: u16 = 50;

impl Bench {
    /// At 1:2, as all but what is said to differ.
    pub fn of(app: App, system: System) -> Self {
        Self { app, system, ratio: 2, jumps: false, varied: Varied::Nothing }
    }

    pub(in crate::reproduce) fn effort(&self) -> u32 {
        match self.system {
            System::NeoMem | System::Pebs(_) => 4_000,
            _ => 500,
        }
    }

    /// The scenario.
    ///
    /// # Errors
    /// Where there is no such machine or policy.
    pub fn scenario(&self) -> Result<Scenario> {
        let workload = match (self.app, self.jumps) {
            (App::Gups, false) => "gups:set=18120MiB,hot=2GiB,".into(),
            (App::Gups, true) => format!("gups:set=18120MiB,hot=2GiB,jump={JUMP_SECONDS}s,"),
            (App::XsBench, _) => "xsbench:set=15GiB,index=2GiB,".into(),
            (App::PageRank, _) => "graph:set=16GiB,hubs=1GiB,vertices=4GiB,build=10s,".to_string(),
        };
        let mut scenario = Scenario {
            machine: "neomem-spr-fpga".into(),
            seconds: if self.jumps { JUMP_SECONDS + 25 } else { SECONDS }.into(),
            // Nothing but the policies' own limits.
            max_rate: BytesPerSec(10 << 30),
            // "We maintain a constant CXL memory size."
            fast_capacity: Some(Bytes::from_mib((16 << 10) / u64::from(self.ratio))),
            grow: true,
            workload: vec![written(&format!("{workload}threads=32,pages=base"))?],
            ..Scenario::default()
        };
        let mut set = |knob: &str, value: f64| {
            scenario.policy_knobs.insert(knob.into(), value);
        };
        match self.varied {
            Varied::Nothing => {}
            Varied::Interval(ms) => set("migration_interval", f64::from(ms) * 1e-3),
            Varied::Quota(mb) => set("m_quota", f64::from(mb) * 1e6),
            Varied::Sketch(width_log2, depth) => {
                scenario.tracker_knobs.sketch_width_log2 = width_log2.into();
                scenario.tracker_knobs.sketch_depth = depth.into();
            }
        }
        scenario.policy = match self.system {
            System::NeoMem => "neomem",
            System::Pebs(period) => {
                scenario.tracker = Some("pebs".into());
                scenario.tracker_knobs.sample_period = period.into();
                "neomem"
            }
            System::PteScan => {
                scenario.tracker = Some("accessed".into());
                scenario.tracker_knobs.window = Nanos::from_secs(5);
                scenario.tracker_knobs.window_period = Nanos::ZERO;
                scenario.policy_knobs.insert("clear_interval".into(), 30.0);
                "neomem"
            }
            System::Tpp => "tpp",
            System::AutoNuma => "linux",
            System::FirstTouch => "first-touch",
            System::Memtis => "memtis",
        }
        .into();
        Ok(scenario)
    }
}
