// SPDX-License-Identifier: Apache-2.0
//! NeoMem's set-ups as scenarios (VI-A): a program of 32 threads in base pages on its testbed, a system, and what is varied.
//!
//! Programs are stand-ins, made of what was published of them: their command lines are those of the artifact's
//! `run_benchmark.py`. How accesses divide is that of the workload, and ours, where nothing is said.

use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::error::Result;
use crate::scenario::Scenario;
use crate::workload::list::written;

/// A program, or what stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    /// GUPS of 19 GB, 2 GiB of it hot, for 600 s. Memory is populated in the order of addresses, and each thread's hot
    /// part begins its 32nd of it: so the hot set is spread evenly.
    Gups,
    /// XSBench of 355 nuclides with 35 000 grid points each: first come 48 bytes a point and the energies, together the
    /// index, then 355 numbers a point (`GridInit.c`). A lookup of a mean material reads 56 nuclides' points at two to
    /// three lines, a binary search, and part of a row of numbers: nine lines in ten are of the index.
    XsBench,
    /// PageRank of GAPBS on 2²⁶ vertices of degree 16, 16 trials, from end to end (table VI): the workload `pagerank`.
    PageRank,
    /// DeathStarBench's social network, composing posts for 100 s: the workload `latest`, as posts are appended to what
    /// is read. 12 MiB a second are 2000 posts (ours; two clients alone reach 850, issue 59 of its repository) of 6 KiB (ours): a text of
    /// 0.6 KiB (`compose-post.lua`) in MongoDB and its cache, and its number in the timelines of 39 followers, as many as the
    /// users of its smallest graph have. It starts at 15 GiB (ours), of the 10.3 to 19.7 GB that the paper names for all.
    DeathStar,
    /// Silo with YCSB-C: 80 M keys of 64 + 100 bytes (Colloid, 5.3), read only, by YCSB's law.
    Silo,
    /// Btree: `xsbench` of another size, an index above leaves that are read alike.
    Btree,
    /// 603.bwaves: sweeps through 12 GiB, a line in four written. Sizes of it and the next are ours, of the 10.3 to
    /// 19.7 GB that the paper names for all.
    Bwaves,
    /// 654.roms: likewise, 10 GiB.
    Roms,
}

/// All of them, in the order of figure 11.
pub const APPS: [App; 8] = [
    App::DeathStar,
    App::PageRank,
    App::XsBench,
    App::Gups,
    App::Silo,
    App::Btree,
    App::Bwaves,
    App::Roms,
];

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
    /// A threshold that stays.
    Threshold(u16),
    /// The hot set is elsewhere for the last 25 s (GUPS).
    Jump,
    /// Fast memory for all, or for nothing.
    AllFast(bool),
    /// Samples are taken, one in so many misses, and nothing is made of them.
    Sampled(u16),
    /// In huge pages.
    Huge,
    /// Half as long again, as for the intervals, quotas and sketches.
    Longer,
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
    /// What is varied.
    pub varied: Varied,
}

/// PageRank, s: until its graph is made, then 16 trials of 3.32 s (table VI, TPP in base pages).
const PAGERANK: u16 = 105;
/// Longer than it takes the systems that are served every 10 ms to find a hot set here.
const SECONDS: u16 = 40;

impl Bench {
    /// At 1:2, as all but what is said to differ.
    pub fn of(app: App, system: System) -> Self {
        Self { app, system, ratio: 2, varied: Varied::Nothing }
    }

    /// Simulated time, s: until the system has settled.
    pub fn seconds(&self) -> u16 {
        match (self.varied, self.app, self.system) {
            (Varied::Jump, ..) => self.jumps_at() + 25,
            (Varied::Sampled(_), ..) => 1,
            (_, App::PageRank, _) => PAGERANK,
            (_, App::DeathStar, _) => 100,
            (Varied::Longer | Varied::Interval(_) | Varied::Quota(_) | Varied::Sketch(..), ..) => {
                SECONDS * 3 / 2
            }
            // Nothing to settle: no page moves, or none is worth more than another, sweep after sweep.
            (.., System::FirstTouch) | (_, App::Bwaves | App::Roms, _) => SECONDS / 2,
            (.., System::NeoMem | System::Pebs(_) | System::PteScan) => SECONDS,
            (_, App::Gups, _) => 250,
            _ => 100,
        }
    }

    /// How long the program runs, s: as published for GUPS, PageRank and DeathStarBench, and like the latter where
    /// nothing was.
    pub fn length(&self) -> u16 {
        match self.app {
            App::Gups => 600,
            App::PageRank => PAGERANK,
            _ => 100,
        }
    }

    /// When GUPS jumps, s: the paper's 600 s of warm-up, shortened to what it takes to settle.
    pub fn jumps_at(&self) -> u16 {
        match self.system {
            System::NeoMem | System::Pebs(_) | System::PteScan => 50,
            _ => 250,
        }
    }

    pub(in crate::reproduce) fn effort(&self) -> u32 {
        let a_second = match self.system {
            System::NeoMem | System::PteScan => 80,
            System::Pebs(_) | System::Memtis => 30,
            _ => 10,
        };
        a_second * u32::from(self.seconds())
    }

    fn workload(&self) -> String {
        match (self.app, self.varied) {
            (App::Gups, Varied::Jump) => {
                format!("gups:set=18120MiB,hot=2GiB,jump={}s", self.jumps_at())
            }
            (App::Gups, _) => "gups:set=18120MiB,hot=2GiB".into(),
            (App::XsBench, _) => "xsbench:set=17490MiB,index=664MiB,index_share=0.9".into(),
            (App::PageRank, _) => "pagerank:scale=26".into(),
            (App::DeathStar, _) => {
                "latest:set=17GiB,start_set=15GiB,growth=12MiB/s,fresh=1GiB".into()
            }
            (App::Silo, _) => "kv:set=12512MiB,updates=0,chunk=4KiB".into(),
            (App::Btree, _) => "xsbench:set=16GiB,index=512MiB".into(),
            (App::Bwaves, _) => "scan:set=12GiB,writes=0.25".into(),
            (App::Roms, _) => "scan:set=10GiB,writes=0.25".into(),
        }
    }

    /// The scenario.
    ///
    /// # Errors
    /// Where there is no such machine or policy.
    pub fn scenario(&self) -> Result<Scenario> {
        let pages = if self.varied == Varied::Huge { "huge" } else { "base" };
        let workload = format!("{},threads=32,pages={pages}", self.workload());
        let mut scenario = Scenario {
            machine: "neomem-spr-fpga".into(),
            seconds: self.seconds().into(),
            // Nothing but the policies' own limits.
            max_rate: BytesPerSec(10 << 30),
            // "We maintain a constant CXL memory size."
            fast_capacity: Some(Bytes::from_mib(match self.varied {
                Varied::AllFast(true) => 24 << 10,
                Varied::AllFast(false) => 2,
                _ => (16 << 10) / u64::from(self.ratio),
            })),
            grow: true,
            workload: vec![written(&workload)?],
            ..Scenario::default()
        };
        let mut set = |knob: &str, value: f64| {
            scenario.policy_knobs.insert(knob.into(), value);
        };
        match self.varied {
            Varied::Interval(ms) => set("migration_interval", f64::from(ms) * 1e-3),
            Varied::Quota(mb) => set("m_quota", f64::from(mb) * 1e6),
            Varied::Threshold(count) => set("threshold", count.into()),
            Varied::Sketch(width_log2, depth) => {
                scenario.tracker_knobs.sketch_width_log2 = width_log2.into();
                scenario.tracker_knobs.sketch_depth = depth.into();
            }
            Varied::Sampled(period) => {
                scenario.tracker = Some("pebs".into());
                scenario.tracker_knobs.sample_period = period.into();
            }
            _ => {}
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
