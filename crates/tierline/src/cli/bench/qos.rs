// SPDX-License-Identifier: Apache-2.0
//! `tierline bench qos`: the QoS controller with applications that have half their memory in each tier.

use anyhow::{Context, Result};
use serde::Serialize;
use tierline_core::port::{
    LatencySource, MeasuredLatency, Telemetry, TenantId, TenantTelemetry, TierTelemetry,
};
use tierline_core::qos::Limits;
use tierline_core::qos::application::{Application, Slo};
use tierline_core::qos::controller::{Controller, PERIOD};
use tierline_core::qos::need::ApplicationProfile;
use tierline_core::rng::Rng;
use tierline_core::tier::{Tier, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use super::{Globals, Speeds, cpu_seconds};
use crate::print::{self, row};

/// Memory of an application.
const MEMORY: Bytes = Bytes(1 << 30);
/// Latencies of the tiers, ns.
const NS: [u64; 2] = [100, 250];

#[derive(Serialize)]
struct Speed {
    applications: u16,
    admission_seconds: f64,
    step_seconds: f64,
    share_of_a_core: f64,
}

fn application(tenant: u16) -> Application {
    let latency = Slo::Latency(Nanos(120 + u64::from(tenant) % 100));
    let bandwidth = Slo::Bandwidth(BytesPerSec(1_000_000_000));
    Application {
        tenant: TenantId(tenant),
        slo: Some(if tenant.is_multiple_of(4) { bandwidth } else { latency }),
        priority: tenant.into(),
        weight: 1.0,
        cores: 1.0,
        memory: MEMORY,
    }
}

/// Two tiers; the fast one holds a third of all memory.
fn tiers(applications: u16) -> Tiers {
    let tier = |name: &str, capacity, ns| Tier {
        name: name.into(),
        nodes: Vec::new(),
        capacity,
        latency: Some(Nanos(ns)),
        bandwidth: None,
    };
    let all = MEMORY * u64::from(applications.max(1));
    Tiers(vec![tier("fast", Bytes(all.0 / 3), NS[0]), tier("slow", all, NS[1])])
}

/// The first `count` applications under random loads.
fn measured(rng: &mut Rng, count: u16) -> Telemetry {
    let of = |tenant| {
        let fast = rng.unit();
        let mean_ns = 250.0 - 150.0 * fast;
        let in_tier = |share: f64| BytesPerSec(Bytes(2_000_000_000).part(share).0);
        let mut measured = TenantTelemetry {
            tenant: TenantId(tenant),
            used: vec![Some(MEMORY.part(fast / 2.0)), Some(MEMORY - MEMORY.part(fast / 2.0))],
            latency: Some(MeasuredLatency { mean_ns, source: LatencySource::Model, samples: 1 }),
            demand: Some(true),
            ..TenantTelemetry::default()
        };
        measured.bandwidth = vec![in_tier(fast), in_tier(1.0 - fast)];
        measured
    };
    let tenants = (1..=count).map(of).collect();
    Telemetry { tenants, tiers: vec![TierTelemetry::default(); 2], ..Telemetry::default() }
}

/// Measures and prints.
pub fn run(applications: u16, steps: u32, globals: &Globals) -> Result<u8> {
    let (tiers, mut limits) = (tiers(applications), Limits::default());
    let (mut controller, mut rng, mut now) = (Controller::default(), Rng::new(1), Nanos::ZERO);
    let profile = ApplicationProfile::unknown(MEMORY);
    let mut step = |controller: &mut Controller, count| {
        let telemetry = measured(&mut rng, count);
        now += PERIOD;
        let before = cpu_seconds();
        controller.tick(now, &telemetry, &tiers, &mut limits);
        cpu_seconds() - before
    };
    let mut admission_seconds = 0.0;
    for tenant in 1..=applications {
        let before = cpu_seconds();
        let admitted = controller.admit(Nanos::ZERO, application(tenant), &profile, &tiers);
        admission_seconds += cpu_seconds() - before;
        admitted.context("an application of the benchmark was refused")?;
        admission_seconds += step(&mut controller, tenant);
    }
    let spent: f64 = (0..steps).map(|_| step(&mut controller, applications)).sum();
    let step_seconds = spent / f64::from(steps.max(1));
    let share_of_a_core = step_seconds / PERIOD.as_secs_f64();
    let speed = Speed { applications, admission_seconds, step_seconds, share_of_a_core };
    match globals.json {
        true => print::json(&Speeds { runs: vec![speed] })?,
        false => print::out(&describe(&speed))?,
    }
    Ok(0)
}

fn describe(speed: &Speed) -> String {
    print::table(&[
        row(["applications", "admission of all, s", "step ms", "share of a core"]),
        row([
            &speed.applications.to_string(),
            &format!("{:.3}", speed.admission_seconds),
            &format!("{:.3}", speed.step_seconds * 1e3),
            &format!("{:.2} %", speed.share_of_a_core * 100.0),
        ]),
    ])
}
