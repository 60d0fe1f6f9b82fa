// SPDX-License-Identifier: Apache-2.0
//! Colloid's set-ups (SOSP'24, 2.1 and 5): programs, machines and durations.

use tierline_core::unit::Nanos;

use crate::reproduce::Experiment;

/// The unloaded latency of the alternate tier from a core, ns.
pub const ALTERNATE_NS: u16 = 135;
/// The part of it from a core to the CHA, ns (3.1).
const PATH_NS: u16 = 5;
/// Time of the change in a run with a change, s.
const CHANGE_SECONDS: u16 = 100;
/// Duration of a run without moves, in which all seconds are equal.
const STATIC_SECONDS: u16 = 2;

/// A program of figure 11 under a policy.
pub type App = fn(&str) -> Experiment;

/// The machine under a policy, without a program. TPP takes minutes to observe all memory twice.
fn machine(policy: &str) -> Experiment {
    let seconds = if is_slow(policy) { 600 } else { 100 };
    Experiment::new("colloid-icx", policy, seconds)
        .but(|scenario| scenario.interval = Some(Nanos::from_millis(10)))
}

fn is_slow(policy: &str) -> bool {
    policy.starts_with("tpp")
}

/// GUPS.
pub fn gups(policy: &str) -> Experiment {
    objects(policy, 64)
}

/// GUPS with objects of this size.
pub fn objects(policy: &str, bytes: u16) -> Experiment {
    machine(policy).program(&format!("gups:object={bytes}B"))
}

/// GAPBS PageRank on Twitter: the workload `graph`, a third of it in the default tier.
pub fn pagerank(policy: &str) -> Experiment {
    machine(policy).program("graph:set=37800MiB").fast_mib(12_600)
}

/// Silo with YCSB-C: the workload `kv`, a third of it in the default tier.
pub fn silo(policy: &str) -> Experiment {
    machine(policy).program("kv").fast_mib(20 << 10)
}

/// CacheLib with HeMem's key-value workload: 4 KiB objects, a fifth of them hot.
pub fn cachelib(policy: &str) -> Experiment {
    let program = "gups:set=71520MiB,hot=14304MiB,object=4160B,updates=0.1";
    machine(policy).program(program).fast_mib(23_840)
}

/// Fixed placement, without tracking.
fn by_hand() -> Experiment {
    let tracker = Some("truth".into());
    machine("hold").lasting(STATIC_SECONDS).but(|scenario| scenario.tracker = tracker)
}

/// GUPS with this number of tenths of its hot set in the default tier.
pub fn placed(tenths: u8) -> Experiment {
    by_hand().program("gups:object=64B").with("hot_share_fast", f64::from(tenths) / 10.0)
}

/// The antagonist alone.
pub fn antagonist(intensity: u8) -> Experiment {
    by_hand().beside(intensity)
}

/// Time of the change in a run with a change: in the steady state.
pub fn change_seconds(experiment: &Experiment) -> u16 {
    if is_slow(&experiment.scenario.policy) { 4 * CHANGE_SECONDS } else { CHANGE_SECONDS }
}

impl Experiment {
    /// Beside the antagonist at an intensity of 0 to 3.
    #[must_use]
    pub fn beside(&self, intensity: u8) -> Self {
        if intensity == 0 {
            return self.clone();
        }
        let with = self.program("antagonist").with("intensity", i64::from(intensity));
        with.but(|scenario| scenario.workload.rotate_right(1))
    }

    /// With a slower alternate tier, as the paper lowers the far socket's clock. Bandwidth is unchanged, as the effect
    /// on it was not published.
    #[must_use]
    pub fn alternate(&self, ns: u16) -> Self {
        match ns {
            ALTERNATE_NS => self.clone(),
            _ => self.machine(|text| text.set(1, "unloaded_ns", f64::from(ns - PATH_NS))),
        }
    }

    /// With base pages.
    #[must_use]
    pub fn base_pages(&self) -> Self {
        self.with("pages", "base")
    }

    /// With a change in the steady state. After it, the run continues for the same time, with TPP for twice that time.
    fn changing(&self) -> Self {
        let at = change_seconds(self);
        self.lasting(if is_slow(&self.scenario.policy) { 3 * at } else { 2 * at })
    }

    /// The hot set is replaced.
    #[must_use]
    pub fn jump(&self) -> Self {
        self.changing().with("jump", format!("{}s", change_seconds(self)))
    }

    /// The antagonist starts later instead of at the beginning.
    #[must_use]
    pub fn contention(&self) -> Self {
        let start = format!("{}s", change_seconds(self));
        self.changing()
            .but(|scenario| _ = scenario.workload[0].insert("start".into(), start.into()))
    }

    /// Under the same policy with Colloid.
    #[must_use]
    pub fn with_colloid(&self) -> Self {
        self.under(&format!("{}+colloid", self.scenario.policy))
    }
}
