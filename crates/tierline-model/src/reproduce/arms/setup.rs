// SPDX-License-Identifier: Apache-2.0
//! ARMS' set-ups as scenarios (7): a program, a testbed, fast to slow memory, threads, a policy and one of its knobs.
//!
//! Of the two figures that ARMS is told of a platform, the bandwidth comes from the machine; how many pages are copied at a
//! time at most is left at its default.

use std::collections::BTreeMap;

use serde::Deserialize;
use tierline_core::unit::{Bytes, BytesPerSec};

use super::tuned;
use crate::error::Result;
use crate::scenario::Scenario;
use crate::workload::list::written;

/// A program of table 4, or what stands for it; and Liblinear (7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// GUPS: 8 GiB hot, elsewhere in the second half of the run.
    Gups,
    /// Silo with TPC-C: the workload `latest`.
    SiloTpcc,
    /// Silo with YCSB-C: the workload `kv`, read only.
    SiloYcsb,
    /// XSBench.
    XsBench,
    /// GapBS on Kronecker: the workload `graph` for PR, CC and BC alike.
    Graph,
    /// The same on the smaller graph.
    SmallGraph,
    /// Btree: `xsbench` of another size, an index above leaves that are read alike.
    Btree,
    /// Liblinear.
    Liblinear,
}

/// A testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Testbed {
    /// pmem-large.
    Optane,
    /// NUMA.
    Numa,
}

/// Fast to slow memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ratio {
    /// Parts of the program's memory.
    Parts(u8, u8),
    /// All in slow memory.
    AllSlow,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trial {
    /// The program.
    pub app: App,
    /// The testbed.
    pub testbed: Testbed,
    /// Fast to slow.
    pub ratio: Ratio,
    /// Threads.
    pub threads: u8,
    /// The policy.
    pub policy: &'static str,
    /// Its knobs.
    pub knobs: Knobs,
}

/// How a policy is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knobs {
    /// As it comes.
    #[default]
    Defaults,
    /// One of them.
    One(&'static str, u8),
    /// HeMem's two thresholds of figure 2.
    Thresholds {
        /// Sampled loads that make a page hot.
        hot_reads: u8,
        /// A count above this halves all counts.
        cool_above: u8,
    },
    /// HeMem as it was tuned for the program.
    Tuned,
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
/// As long as Silo takes to grow, and long against all of ARMS' horizons.
pub const SECONDS: u16 = 150;

impl Trial {
    /// On pmem-large at 1:8 with 12 threads, as all but what is said to differ (7).
    pub fn of(app: App, policy: &'static str) -> Self {
        let (testbed, ratio) = (Testbed::Optane, Ratio::Parts(1, 8));
        Self { app, testbed, ratio, threads: 12, policy, knobs: Knobs::Defaults }
    }

    fn mib(&self) -> u64 {
        match self.app {
            App::Gups => 65_567,
            App::SiloTpcc => 77_496,
            App::SiloYcsb => 73_114,
            App::XsBench => 66_529,
            App::Graph => 73_001,
            App::SmallGraph => 12_616,
            App::Btree => 12_421,
            App::Liblinear => 48 << 10,
        }
    }

    pub(in crate::reproduce) fn effort(&self) -> u32 {
        1_000
    }

    /// The scenario.
    ///
    /// # Errors
    /// Where there is no such machine or policy.
    pub fn scenario(&self) -> Result<Scenario> {
        let (mib, threads) = (self.mib(), self.threads);
        let workload = match self.app {
            App::Gups => format!("gups:set={mib}MiB,hot=8GiB,jump={}s", SECONDS / 2),
            App::SiloTpcc => format!("latest:set={mib}MiB"),
            App::SiloYcsb => format!("kv:set={mib}MiB,updates=0"),
            App::XsBench => format!("xsbench:set={mib}MiB,index=2GiB"),
            App::Graph => format!("graph:set={mib}MiB"),
            App::SmallGraph => {
                format!("graph:set={mib}MiB,vertices=2GiB,hubs=512MiB,build=5s")
            }
            App::Btree => format!("xsbench:set={mib}MiB,index=512MiB"),
            App::Liblinear => "liblinear".into(),
        };
        let joined = if workload.contains(':') { ',' } else { ':' };
        let fast_mib = match self.ratio {
            Ratio::Parts(fast, slow) => mib * u64::from(fast) / u64::from(fast + slow),
            Ratio::AllSlow => 2,
        };
        let machine = match self.testbed {
            Testbed::Optane => "arms-optane",
            Testbed::Numa => "arms-numa",
        };
        let mut scenario = Scenario {
            machine: machine.into(),
            policy: self.policy.into(),
            seconds: SECONDS.into(),
            // Nothing but the policies' own limits and the copying threads.
            max_rate: BytesPerSec(10 << 30),
            fast_capacity: Some(Bytes::from_mib(fast_mib)),
            grow: true,
            workload: vec![written(&format!("{workload}{joined}threads={threads}"))?],
            ..Scenario::default()
        };
        scenario.policy_knobs = match self.knobs {
            Knobs::Defaults => BTreeMap::new(),
            Knobs::One(knob, value) => BTreeMap::from([(knob.into(), value.into())]),
            Knobs::Thresholds { hot_reads, cool_above } => BTreeMap::from([
                ("hot_reads".into(), hot_reads.into()),
                ("cool_above".into(), cool_above.into()),
            ]),
            Knobs::Tuned => tuned::settings()?.remove(&self.app).unwrap_or_default(),
        };
        Ok(scenario)
    }
}
