// SPDX-License-Identifier: Apache-2.0
//! Quality of service in a scenario: applications, their profiles, and the machine's thresholds.
//!
//! ```toml
//! [[tenant]]
//! name = "redis"
//! priority = 3
//! slo = "200ns"       # a latency; "70GB/s": a bandwidth; "5%": a share of slow accesses
//! measure_at = "30s"  # measures what the target needs, by trials
//!
//! [[tenant]]
//! name = "reports"
//! priority = 1        # without a target: it takes what is left, by weight
//! weight = 2.0
//! ```
//!
//! A profile is what the controller would have measured in isolation: the distribution of accesses over
//! memory, and the bandwidth alone in fast memory. The thresholds come from the two micro-benchmarks of Mercury
//! (4.2), run on the load model.

use serde::Serialize;
use tierline_core::policy::Policy;
use tierline_core::port::TenantId;
use tierline_core::qos::admission::{self, Admission};
use tierline_core::qos::application::{Application, Slo, suits};
use tierline_core::qos::controller::Controller;
use tierline_core::qos::decision::TimedDecision;
use tierline_core::qos::heat_curve::HeatCurve;
use tierline_core::qos::need::{ApplicationProfile, unloaded_ns};
use tierline_core::qos::thresholds::{SweepPoint, Thresholds};
use tierline_core::tier::Tiers;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use crate::error::{Error, Result};
use crate::load::{Class, LINE_BYTES, Loads, PerTier, solve};
use crate::machine::Machine;
use crate::report::QosDecision;
use crate::tenant::{Tenant, id};
use crate::workload::program::Program;
use crate::world::Arrival;

/// Steps of the sweep over the slow share.
const SHARES: u32 = 20;

/// The controller for the applications of a scenario.
///
/// # Errors
/// If an application has no valid target, a priority that is taken, or a target that the machine cannot meet.
pub fn controller(
    tenants: &[Tenant],
    machine: &Machine,
    arrivals: &[Arrival],
    policy: &dyn Policy,
    lend: bool,
) -> Result<Controller> {
    let mut controller = Controller::default();
    controller.lend = lend;
    for (at, tenant) in tenants.iter().enumerate() {
        let Some((application, profile)) = application(tenant, id(at), machine, arrivals)? else {
            continue;
        };
        let refused = |refusal: tierline_core::qos::application::Refusal| {
            tenant.wrong(&named(&refusal.to_string(), tenants))
        };
        suits(policy).map_err(refused)?;
        let admitted = controller.admit(Nanos::ZERO, application, &profile, &machine.describe());
        admitted.map_err(refused)?;
        if let Some(from) = tenant.measure_at {
            controller.measure(from, id(at)).map_err(refused)?;
        }
    }
    if !controller.is_empty() {
        controller.thresholds = thresholds(machine);
    }
    Ok(controller)
}

/// A message with the names of tenants instead of their numbers.
fn named(text: &str, tenants: &[Tenant]) -> String {
    let all = tenants.iter().enumerate().rev();
    all.fold(text.into(), |text, (at, tenant)| text.replace(&id(at).to_string(), &tenant.name))
}

/// The application of a tenant, if it is one, and its profile.
///
/// # Errors
/// If a key is missing, or the target cannot be parsed.
pub fn application(
    tenant: &Tenant,
    id: TenantId,
    machine: &Machine,
    arrivals: &[Arrival],
) -> Result<Option<(Application, ApplicationProfile)>> {
    let Some(priority) = tenant.priority else {
        let of_applications =
            [tenant.slo.is_some(), tenant.weight.is_some(), tenant.measure_at.is_some()];
        return match of_applications.contains(&true) {
            true => Err(tenant.wrong(
                "it has a target, a weight or measure_at but no priority; add one, as in priority = 1",
            )),
            false => Ok(None),
        };
    };
    if !tenant.limit.is_empty() || !tenant.limits.is_empty() {
        return Err(tenant.wrong("it has a priority and limits; limits of applications are set by the controller, so remove one of both"));
    }
    let slo = tenant.slo.as_deref().map(|text| slo(tenant, text)).transpose()?;
    let own: Vec<&Program> =
        arrivals.iter().filter(|arrival| arrival.tenant == id).map(|one| &one.program).collect();
    let profile = profile(&own, machine);
    let application = Application {
        tenant: id,
        slo,
        priority,
        weight: tenant.weight.unwrap_or(1.0),
        cores: own.iter().map(|program| program.threads).sum(),
        memory: profile.curve.memory(),
    };
    Ok(Some((application, profile)))
}

fn slo(tenant: &Tenant, text: &str) -> Result<Slo> {
    text.parse().map_err(|why: String| tenant.wrong(&format!("slo = {why}")))
}

/// What an application would get, before anything runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedTenant {
    /// Its name.
    pub name: String,
    /// Larger is more important.
    pub priority: u32,
    /// Its target.
    pub slo: Option<String>,
    /// All its memory.
    pub memory_bytes: Bytes,
    /// What it would get; `None`: it is refused.
    #[serde(flatten)]
    pub plan: Option<Admission>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Its mean latency with what it gets, if no tier is loaded.
    pub unloaded_latency_ns: Option<f64>,
}

/// Which applications of a scenario would be admitted, and with what, in descending priority.
///
/// # Errors
/// If a tenant, a workload or the machine of the scenario is invalid.
pub fn plan(
    tenants: &[Tenant],
    machine: &Machine,
    arrivals: &[Arrival],
) -> Result<Vec<PlannedTenant>> {
    let mut names = Vec::new();
    let mut applications = Vec::new();
    for (at, tenant) in tenants.iter().enumerate() {
        if let Some(found) = application(tenant, id(at), machine, arrivals)? {
            names.push(tenant.name.clone());
            applications.push(found);
        }
    }
    let tiers = machine.describe();
    let plans = admission::plan(&tiers, &thresholds(machine), &applications);
    let mut planned: Vec<PlannedTenant> = names
        .into_iter()
        .zip(&applications)
        .zip(plans)
        .map(|((name, (application, profile)), plan)| PlannedTenant {
            name,
            priority: application.priority,
            slo: application.slo.map(|slo| slo.to_string()),
            memory_bytes: application.memory,
            unloaded_latency_ns: plan.as_ref().ok().map(|plan| {
                let placement = plan.grant.placement(application.memory, tiers.len());
                profile.curve.mean_ns(&placement, &unloaded_ns(&tiers))
            }),
            refusal: plan.as_ref().err().map(|refusal| named(&refusal.to_string(), tenants)),
            plan: plan.ok(),
        })
        .collect();
    planned.sort_by_key(|one| std::cmp::Reverse(one.priority));
    Ok(planned)
}

/// A decision with the names of tenants and tiers.
pub(crate) fn explain(entry: &TimedDecision, tenants: &[String], tiers: &Tiers) -> QosDecision {
    let ids = || tenants.iter().enumerate().map(|(at, name)| (id(at), name));
    let name =
        |tenant| ids().find(|one| one.0 == tenant).map_or_else(|| "?".into(), |one| one.1.clone());
    let text = entry.decision.sentence(&name, tiers);
    let concerned = ids().filter(|&(tenant, _)| entry.decision.concerns(tenant));
    QosDecision {
        seconds: entry.at.as_secs_f64(),
        applications: concerned.map(|(_, name)| name.clone()).collect(),
        text,
    }
}

/// What a profiler would find about these programs in isolation.
fn profile(programs: &[&Program], machine: &Machine) -> ApplicationProfile {
    let mut parts = Vec::new();
    let mut classes = Vec::new();
    for program in programs {
        let (in_flight, think_ns) = program.reach.of(&machine.cores);
        let in_flight = program.threads * in_flight;
        let mut fast = PerTier::default();
        fast[0] = 1.0;
        classes.push(Class::program(in_flight, think_ns, fast, program.writes_per_read));
        let phase = &program.phases[0];
        let all: f64 = phase.bands.iter().map(|band| band.1).sum();
        let mut from = Bytes::ZERO;
        for &(until, share) in &phase.bands {
            let until = until.min(program.bytes);
            parts.push((until.saturating_sub(from), in_flight * share / all.max(1e-9)));
            from = from.max(until);
        }
    }
    let mut loads = Loads::default();
    solve(&machine.network(), &classes, &mut loads);
    let gb_per_s = LINE_BYTES * (loads.reads(&classes, 0) + loads.writes(&classes, 0));
    ApplicationProfile { curve: HeatCurve::of_parts(parts), bandwidth: Some(rate(gb_per_s)) }
}

/// The thresholds of a machine, by the two micro-benchmarks.
pub fn thresholds(machine: &Machine) -> Thresholds {
    let cores = &machine.cores;
    let network = machine.network();
    let at = |hungry_cores: f64, slow: f64| {
        let (mut fast, mut mixed) = (PerTier::default(), PerTier::default());
        fast[0] = 1.0;
        (mixed[0], mixed[1]) = (1.0 - slow, slow);
        let sensitive = Class::program(cores.in_flight_random, 0.0, fast, 0.0);
        let in_flight = hungry_cores * cores.in_flight_stream;
        let hungry = Class::program(in_flight, cores.stream_think_ns, mixed, 0.0);
        let (classes, mut loads) = ([sensitive, hungry], Loads::default());
        solve(&network, &classes, &mut loads);
        let traffic = |t| LINE_BYTES * loads.reads(&classes, t);
        SweepPoint {
            latency_ns: loads.latency_ns[0] + loads.wait_ns + network.path_ns,
            fast: rate(traffic(0)),
            slow: rate(traffic(1)),
        }
    };
    let alone_ns = at(0.0, 0.0).latency_ns;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of cores")]
    let steps = cores.count.max(2.0) as u32 - 1;
    let load: Vec<SweepPoint> = (0..=steps).map(|busy| at(busy.into(), 0.0)).collect();
    let share: Vec<SweepPoint> =
        (0..=SHARES).map(|step| at(steps.into(), f64::from(step) / f64::from(SHARES))).collect();
    match machine.tiers.len() > 1 {
        true => Thresholds::calibrate(alone_ns, &load, &share),
        false => Thresholds::default(),
    }
}

/// From bytes per ns.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bandwidth is positive, and the cast saturates"
)]
fn rate(gb_per_s: f64) -> BytesPerSec {
    BytesPerSec((gb_per_s * 1e9) as u64)
}

/// The place of an error in the QoS keys of a scenario.
pub(crate) fn lends(tenants: &[Tenant], lend: bool) -> Result<bool> {
    match !lend && tenants.iter().all(|tenant| tenant.priority.is_none()) {
        true => Err(Error::Figure {
            place: "scenario".into(),
            why: "lend = false has no effect without a [[tenant]] that has a priority; remove it"
                .into(),
        }),
        false => Ok(lend),
    }
}
