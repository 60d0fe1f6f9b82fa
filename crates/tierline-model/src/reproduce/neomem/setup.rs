// SPDX-License-Identifier: Apache-2.0
//! NeoMem's set-ups (VI-A): a program of 32 threads in base pages on its testbed, a system, and variations.
//!
//! Programs are stand-ins, built from published facts: their command lines are those of the artifact's
//! `run_benchmark.py`. The distribution of accesses is the workload's, and ours where none was published.

use tierline_core::unit::Nanos;

use crate::reproduce::Experiment;

/// A program or its stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    /// GUPS of 19 GB, 2 GiB of it hot, for 600 s. Memory is populated in order of addresses. Each thread has a 32nd of
    /// it, which begins with its hot part, so the hot set is spread evenly.
    Gups,
    /// XSBench of 355 nuclides with 35 000 grid points each. First the index: 48 bytes per point and the energies; then
    /// 355 numbers per point (`GridInit.c`). A lookup of a mean material reads the points of 56 nuclides at two to three
    /// lines, a binary search, and part of a row of numbers: nine lines in ten are in the index.
    XsBench,
    /// PageRank of GAPBS on 2²⁶ vertices of degree 16, 16 trials, from end to end (table VI): the workload `pagerank`.
    PageRank,
    /// DeathStarBench's social network, composing posts for 100 s: the workload `latest`, as posts are appended to the
    /// data that is read. 12 MiB per second are 2000 posts (ours; two clients alone reach 850, issue 59 of its repository)
    /// of 6 KiB (ours): a text of 0.6 KiB (`compose-post.lua`) in MongoDB and its cache, and its number in the timelines
    /// of 39 followers, the number in its smallest graph. It starts at 15 GiB (ours); the paper states 10.3 to 19.7 GB
    /// for all programs.
    DeathStar,
    /// Silo with YCSB-C: 80 M keys of 64 + 100 bytes (Colloid, 5.3), read only, by YCSB's law.
    Silo,
    /// Btree: `xsbench` of another size: an index above leaves that are read uniformly.
    Btree,
    /// 603.bwaves: sweeps through 12 GiB; one line in four is written. The sizes of bwaves and roms are ours, within the
    /// paper's 10.3 to 19.7 GB for all programs.
    Bwaves,
    /// 654.roms: as bwaves, with 10 GiB.
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
    /// NeoMem with PEBS instead of NeoProf, with this period in misses.
    Pebs(u16),
    /// NeoMem with accessed bits instead of NeoProf, read every 5 s; so counters are cleared every 30 s.
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

/// Duration of PageRank, s: until its graph is built, then 16 trials of 3.32 s (table VI, TPP in base pages).
const PAGERANK: u16 = 105;
/// Longer than systems with a quantum of 10 ms need to find a hot set here.
const SECONDS: u16 = 40;
/// 1.5 times as long, for intervals, quotas and sketches.
pub const LONGER: u16 = SECONDS * 3 / 2;
/// A program's threads.
pub const THREADS: u8 = 32;

impl App {
    /// Duration of the program, s: as published for GUPS, PageRank and DeathStarBench; for the others as for
    /// DeathStarBench.
    pub fn length(self) -> u16 {
        match self {
            Self::Gups => 600,
            Self::PageRank => PAGERANK,
            _ => 100,
        }
    }

    fn workload(self) -> &'static str {
        match self {
            Self::Gups => "gups:set=18120MiB,hot=2GiB",
            Self::XsBench => "xsbench:set=17490MiB,index=664MiB,index_share=0.9",
            Self::PageRank => "pagerank:scale=26",
            Self::DeathStar => "latest:set=17GiB,start_set=15GiB,growth=12MiB/s,fresh=1GiB",
            Self::Silo => "kv:set=12512MiB,updates=0,chunk=4KiB",
            Self::Btree => "xsbench:set=16GiB,index=512MiB",
            Self::Bwaves => "scan:set=12GiB,writes=0.25",
            Self::Roms => "scan:set=10GiB,writes=0.25",
        }
    }
}

/// Simulated time, s: until the steady state.
fn seconds(app: App, system: System) -> u16 {
    match (app, system) {
        (App::PageRank, _) => PAGERANK,
        (App::DeathStar, _) => 100,
        // Steady from the start: no page moves, or no page stays hotter than others from sweep to sweep.
        (_, System::FirstTouch) | (App::Bwaves | App::Roms, _) => SECONDS / 2,
        (_, System::NeoMem | System::Pebs(_) | System::PteScan) => SECONDS,
        (App::Gups, _) => 250,
        _ => 100,
    }
}

/// At 1:2, the default.
pub fn bench(app: App, system: System) -> Experiment {
    bench_at(app, system, 2)
}

/// With another ratio of slow to fast memory. "We maintain a constant CXL memory size."
pub fn bench_at(app: App, system: System, ratio: u8) -> Experiment {
    let policy = match system {
        System::NeoMem | System::Pebs(_) | System::PteScan => "neomem",
        System::Tpp => "tpp",
        System::AutoNuma => "linux",
        System::FirstTouch => "first-touch",
        System::Memtis => "memtis",
    };
    let bench = Experiment::new("neomem-spr-fpga", policy, seconds(app, system))
        .but(|scenario| scenario.grow = true)
        .program(app.workload())
        .threads(THREADS)
        .base_pages()
        .fast_mib((16 << 10) / u64::from(ratio));
    match system {
        System::Pebs(period) => bench.sampled(period),
        System::PteScan => bench.knob("clear_interval", 30).but(|scenario| {
            scenario.tracker = Some("accessed".into());
            scenario.tracker_knobs.window = Nanos::from_secs(5);
            scenario.tracker_knobs.window_period = Nanos::ZERO;
        }),
        _ => bench,
    }
}

/// GUPS under a system.
pub fn gups(system: System) -> Experiment {
    bench(App::Gups, system)
}

/// GUPS under NeoMem for longer, as for the intervals, quotas and sketches.
pub fn longer() -> Experiment {
    gups(System::NeoMem).lasting(LONGER)
}

/// With this time between two readings of hot pages, ms.
pub fn interval(ms: u16) -> Experiment {
    longer().knob("migration_interval", f64::from(ms) * 1e-3)
}

/// With log2 of the sketch's width, and its lanes.
pub fn sketch(width_log2: u8, depth: u8) -> Experiment {
    longer().but(|scenario| {
        scenario.tracker_knobs.sketch_width_log2 = width_log2.into();
        scenario.tracker_knobs.sketch_depth = depth.into();
    })
}

/// PageRank under NeoMem with a fixed threshold.
pub fn threshold(count: u16) -> Experiment {
    bench(App::PageRank, System::NeoMem).knob("threshold", count)
}

/// Time of GUPS' jump, s: the paper's warm-up of 600 s, shortened to the time until the steady state.
pub fn jumps_at(system: System) -> u16 {
    match system {
        System::NeoMem | System::Pebs(_) | System::PteScan => 50,
        _ => 250,
    }
}

/// GUPS with a jump of its hot set 25 s before the end.
pub fn jump(system: System) -> Experiment {
    let at = jumps_at(system);
    gups(system).with("jump", format!("{at}s")).lasting(at + 25)
}
