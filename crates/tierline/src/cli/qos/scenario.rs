// SPDX-License-Identifier: Apache-2.0
//! `tierline qos plan` and `explain` of a scenario: applications on the model.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use tierline_core::qos::admission::Admission;
use tierline_core::unit::Bytes;
use tierline_model::cell::Cell;
use tierline_model::qos::PlannedTenant;
use tierline_model::report::{QosDecision, QosMeans};
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

use crate::cli::{FOUND, Globals};
use crate::files::Disk;
use crate::print::{self, row};
use crate::report_error::ErrorWithHint;

#[derive(Serialize)]
struct QosPlan {
    applications: Vec<PlannedTenant>,
}

#[derive(Serialize)]
struct Explanation {
    name: String,
    #[serde(flatten)]
    qos: QosMeans,
    used_bytes: Vec<Bytes>,
    decisions: Vec<QosDecision>,
}

fn scenario(file: &Path) -> Result<Scenario> {
    let cell = Cell { file: Some(file.display().to_string()), ..Cell::default() };
    let scenario = cell.scenario(&Disk::default())?;
    if scenario.tenant.iter().all(|tenant| tenant.priority.is_none()) {
        return Err(ErrorWithHint::error(
            format!("{} has no tenant with a priority", file.display()),
            "give a [[tenant]] a priority and a target, as in scenarios/qos/01-order-of-arrival.toml",
        ));
    }
    Ok(scenario)
}

/// Who would be admitted, and with what.
pub fn plan(file: &Path, globals: &Globals) -> Result<u8> {
    let plan = QosPlan { applications: scenario(file)?.qos_plan()? };
    let all_met = plan.applications.iter().all(|one| short(one) == Some(Bytes::ZERO));
    match globals.json {
        true => print::json(&plan)?,
        false => print::out(&describe_plan(&plan))?,
    }
    Ok(if all_met { 0 } else { FOUND })
}

/// Memory that its target lacks; `None`: it is refused.
fn short(one: &PlannedTenant) -> Option<Bytes> {
    Some(one.plan?.grant.short)
}

fn describe_plan(plan: &QosPlan) -> String {
    let heading = [
        "priority",
        "application",
        "target",
        "memory",
        "needs fast",
        "reserved",
        "lent",
        "latency",
        "",
    ];
    let mut rows = vec![row(heading)];
    rows.extend(plan.applications.iter().map(|one| {
        let fast = |of: &dyn Fn(&Admission) -> Bytes| {
            one.plan.as_ref().map_or_else(|| "–".into(), |plan| of(plan).to_string())
        };
        row([
            &one.priority.to_string(),
            &one.name,
            one.slo.as_deref().unwrap_or("none"),
            &one.memory_bytes.to_string(),
            &fast(&|plan| plan.need.placement[0]),
            &fast(&|plan| plan.grant.reserved[0]),
            &fast(&|plan| plan.grant.lent[0]),
            &one.unloaded_latency_ns.map_or_else(|| "–".into(), |ns| format!("{ns:.0} ns")),
            &verdict(one),
        ])
    }));
    print::table(&rows)
        + "\nLatencies are those of tiers without load. To run it: tierline sim FILE\n"
}

fn verdict(one: &PlannedTenant) -> String {
    let Some(plan) = one.plan else {
        return format!("refused: {}", one.refusal.as_deref().unwrap_or_default());
    };
    let held_back = if plan.held_back { ", held back for a more important one" } else { "" };
    match (plan.grant.short, one.slo.is_some()) {
        (_, false) => "takes what is left".into(),
        (Bytes::ZERO, true) => format!("meets its target{held_back}"),
        (short, true) => format!("{short} short{held_back}"),
    }
}

/// Runs the scenario, and explains what an application has.
pub fn explain(file: &Path, name: &str, globals: &Globals) -> Result<u8> {
    let scenario = scenario(file)?;
    let report = run(&scenario)?;
    let last = report.series.last().map(|row| &row.means.tenants);
    let tenant = last.and_then(|tenants| tenants.iter().find(|tenant| tenant.name == name));
    let Some((tenant, qos)) = tenant.and_then(|tenant| Some((tenant, tenant.qos.clone()?))) else {
        let known = scenario.tenant.iter().filter(|tenant| tenant.priority.is_some());
        let known: Vec<&str> = known.map(|tenant| tenant.name.as_str()).collect();
        return Err(ErrorWithHint::error(
            format!("{} has no application {name:?}", file.display()),
            format!("its applications: {}", known.join(", ")),
        ));
    };
    let used_bytes = tenant.used_bytes.clone();
    let mut decisions = report.qos_decisions;
    decisions.retain(|decision| decision.applications.iter().any(|one| one == name));
    let explanation = Explanation { name: name.into(), qos, used_bytes, decisions };
    match globals.json {
        true => print::json(&explanation)?,
        false => print::out(&describe(&explanation, report.seconds))?,
    }
    Ok(0)
}

fn describe(one: &Explanation, seconds: f64) -> String {
    let QosMeans { slo, error_share, reserved_bytes, lent_bytes, short_bytes } = &one.qos;
    let target = slo.as_deref().unwrap_or("none");
    let state = match error_share {
        None => "not measured".into(),
        Some(error) if *error > 0.0 => format!("missed by {:.1} %", error * 100.0),
        Some(_) => "met".into(),
    };
    let used: Vec<String> = one.used_bytes.iter().map(ToString::to_string).collect();
    let mut text = format!("{}, after {seconds} s\n\ntarget        {target}, {state}\n", one.name);
    text += &format!("uses          {}, fastest tier first\n", used.join(" / "));
    text += &format!("fast memory   {reserved_bytes} reserved, {lent_bytes} lent");
    if *short_bytes > Bytes::ZERO {
        text += &format!(", {short_bytes} short");
    }
    text += "\n\nWhat was decided about it:\n";
    for decision in &one.decisions {
        text += &format!("  {:8.1} s  {}\n", decision.seconds, decision.text);
    }
    text
}
