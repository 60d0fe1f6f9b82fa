// SPDX-License-Identifier: Apache-2.0
//! Mercury's set-ups (2.2, 5): programs as tenants, on the machine with a slowed remote socket.
//!
//! Redis and VectorDB read at random, llama.cpp in sequence; all memory of a program is equally hot. llama.cpp
//! runs on 16 of 28 cores, as on 32 of 56 in Mercury's public scripts; the threads of the others are ours.

use tierline_core::unit::{Bytes, Nanos};

use crate::report::TenantMeans;
use crate::reproduce::Experiment;
use crate::reproduce::lab::Lab;
use crate::tenant::Tenant;

/// The published target of llama.cpp, 70 GB/s; sizes per second are powers of 1024 here.
pub const LLAMA_SLO: &str = "70000000000B/s";
/// Cores of llama.cpp.
pub const LLAMA_CORES: u8 = 16;

/// What Redis computes per access. On CXL memory of 430 ns, 3.6 times its local latency, it is slower by 64 % (NeoMem,
/// figure 3): 430 + c is 1.64 times 119 + c. A source that knows nothing of the rows here.
pub const REDIS_COMPUTES: &str = "366ns";

/// The time between entries of a fine series.
pub const TENTH: Nanos = Nanos::from_millis(100);

/// The machine of all figures but 1 to 4.
pub fn xeon(policy: &str, seconds: u16, fast_gib: u64) -> Experiment {
    Experiment::new("mercury-xeon", policy, seconds)
        .but(|scenario| {
            scenario.tracker_knobs.sample_period = 20_011.0;
            scenario.interval = Some(Nanos::from_millis(100));
        })
        .fast_mib(fast_gib << 10)
}

/// The machine of figures 1 to 4, without moves.
pub fn genoa() -> Experiment {
    Experiment::new("mercury-genoa-astera", "hold", 2)
        .but(|scenario| scenario.tracker = Some("truth".into()))
}

impl Experiment {
    /// Adds a program as a tenant, written as on a command line.
    #[must_use]
    pub fn tenant(&self, name: &str, program: &str) -> Self {
        let tenant = Tenant { name: name.into(), ..Tenant::default() };
        self.but(|scenario| scenario.tenant.push(tenant))
            .program(program)
            .with("name", name)
            .with("tenant", name)
    }

    /// Gives the last tenant a priority and a target; without targets for a baseline.
    #[must_use]
    pub fn needs(&self, priority: u32, slo: &str) -> Self {
        self.but(|scenario| {
            if let Some(tenant) = scenario.tenant.last_mut() {
                (tenant.priority, tenant.slo) = (Some(priority), Some(slo.into()));
            }
        })
    }

    /// The same without targets, under another policy.
    #[must_use]
    pub fn without_targets(&self, policy: &str) -> Self {
        self.under(policy).but(|scenario| {
            for tenant in &mut scenario.tenant {
                (tenant.priority, tenant.slo) = (None, None);
            }
        })
    }

    /// The same under the default policy.
    #[must_use]
    pub fn ours(&self) -> Self {
        self.under("tierline")
    }
}

/// A tenant of an experiment over the last quarter of the run.
pub fn steady(lab: &Lab, of: &Experiment, name: &str) -> TenantMeans {
    let tenants = &lab.report(of).steady.tenants;
    tenants.iter().find(|tenant| tenant.name == name).cloned().unwrap_or_default()
}

/// Operations per second of a program over the whole run.
pub fn throughput(lab: &Lab, of: &Experiment, name: &str) -> f64 {
    let programs = &lab.report(of).overall.programs;
    programs.iter().find(|program| program.name == name).map_or(1.0, |program| program.throughput)
}

/// The same in the last quarter.
pub fn late_throughput(lab: &Lab, of: &Experiment, name: &str) -> f64 {
    let programs = &lab.report(of).steady.programs;
    programs.iter().find(|program| program.name == name).map_or(1.0, |program| program.throughput)
}

/// A tenant in each interval: seconds, and its means.
pub fn series<'a>(lab: &'a Lab, of: &Experiment, name: &'a str) -> Vec<(f64, &'a TenantMeans)> {
    let rows = lab.report(of).series.iter();
    rows.filter_map(|row| {
        let tenant = row.means.tenants.iter().find(|tenant| tenant.name == name)?;
        Some((row.seconds, tenant))
    })
    .collect()
}

/// GB, as the paper counts memory.
#[expect(clippy::cast_precision_loss, reason = "the memory of one machine")]
pub fn gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / (1u64 << 30) as f64
}
