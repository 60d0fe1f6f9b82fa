// SPDX-License-Identifier: Apache-2.0
//! ARMS' set-ups (7): a program, a testbed, fast to slow memory, threads and a policy.
//!
//! ARMS needs two figures of a platform. The bandwidth comes from the machine; the maximum number of pages copied at
//! a time keeps its default.

use serde::Deserialize;

use super::tuned;
use crate::reproduce::Experiment;

/// A program of table 4 or its stand-in; and Liblinear (7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// GUPS: 8 GiB hot, at a different place in the second half of the run.
    Gups,
    /// Silo with TPC-C: the workload `latest`.
    SiloTpcc,
    /// Silo with YCSB-C: the workload `kv`, read only.
    SiloYcsb,
    /// XSBench.
    XsBench,
    /// GapBS on Kronecker: the workload `graph`, for each of PR, CC and BC.
    Graph,
    /// The same on a smaller graph.
    SmallGraph,
    /// Btree: `xsbench` of another size: an index above leaves that are read uniformly.
    Btree,
    /// Liblinear.
    Liblinear,
}

/// Programs of table 4.
pub const APPS: [App; 7] = [
    App::Gups,
    App::SiloTpcc,
    App::SiloYcsb,
    App::XsBench,
    App::Graph,
    App::SmallGraph,
    App::Btree,
];
/// The time in which Silo grows; long compared to all of ARMS' horizons.
pub const SECONDS: u16 = 150;
/// For every program unless stated otherwise (7).
pub const THREADS: u8 = 12;

impl App {
    fn mib(self) -> u64 {
        match self {
            Self::Gups => 65_567,
            Self::SiloTpcc => 77_496,
            Self::SiloYcsb => 73_114,
            Self::XsBench => 66_529,
            Self::Graph => 73_001,
            Self::SmallGraph => 12_616,
            Self::Btree => 12_421,
            Self::Liblinear => 48 << 10,
        }
    }

    fn workload(self) -> String {
        let mib = self.mib();
        match self {
            Self::Gups => format!("gups:set={mib}MiB,hot=8GiB,jump={}s", SECONDS / 2),
            Self::SiloTpcc => format!("latest:set={mib}MiB"),
            Self::SiloYcsb => format!("kv:set={mib}MiB,updates=0"),
            Self::XsBench => format!("xsbench:set={mib}MiB,index=2GiB"),
            Self::Graph => format!("graph:set={mib}MiB"),
            Self::SmallGraph => format!("graph:set={mib}MiB,vertices=2GiB,hubs=512MiB,build=5s"),
            Self::Btree => format!("xsbench:set={mib}MiB,index=512MiB"),
            Self::Liblinear => "liblinear".into(),
        }
    }
}

/// On pmem-large at 1:8 with 12 threads, the default (7).
pub fn trial(app: App, policy: &str) -> Experiment {
    trial_at(app, policy, [1, 8])
}

/// With another ratio of fast to slow memory.
pub fn trial_at(app: App, policy: &str, [fast, slow]: [u8; 2]) -> Experiment {
    let fast_mib = app.mib() * u64::from(fast) / u64::from(fast + slow);
    Experiment::new("arms-optane", policy, SECONDS)
        .but(|scenario| scenario.grow = true)
        .program(&app.workload())
        .threads(THREADS)
        .fast_mib(fast_mib)
}

/// HeMem with the settings tuned for the program.
pub fn tuned(app: App) -> Experiment {
    trial(app, "hemem").try_but(|scenario| {
        scenario.policy_knobs = tuned::settings()?.remove(&app).unwrap_or_default();
        Ok(())
    })
}

impl Experiment {
    /// On the NUMA testbed.
    #[must_use]
    pub fn on_numa(&self) -> Self {
        self.but(|scenario| scenario.machine = "arms-numa".into())
    }

    /// With another number of threads.
    #[must_use]
    pub fn threads(&self, threads: u8) -> Self {
        self.with("threads", i64::from(threads))
    }
}
