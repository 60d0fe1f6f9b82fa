// SPDX-License-Identifier: Apache-2.0
//! The twelve scenarios of `scenarios/qos`, as a table: what must be, and what was found. Tests check the same.

use tierline_core::unit::{Bytes, BytesPerSec};

use super::setup::gib;
use crate::report::{Interval, Report, TenantMeans};
use crate::reproduce::Experiment;
use crate::reproduce::lab::Lab;
use crate::reproduce::tables::Table;
use crate::scenario::Scenario;

macro_rules! scenario {
    ($name:literal) => {
        scenario($name, include_str!(concat!("../../../../../scenarios/qos/", $name, ".toml")))
    };
}

const TWO_TIERS: &str = include_str!("../../../../../scenarios/qos/machines/two-tiers.toml");
const THREE_TIERS: &str = include_str!("../../../../../scenarios/qos/machines/three-tiers.toml");

fn scenario(name: &str, text: &str) -> Experiment {
    Experiment::default().try_but(|scenario| {
        *scenario = Scenario::parse(name, text)?;
        let machine = if scenario.machine.contains("three") { THREE_TIERS } else { TWO_TIERS };
        scenario.machine_text = Some(machine.into());
        Ok(())
    })
}

/// The table of scenarios, and that of reactions.
pub fn tables(lab: &Lab) -> Vec<Table> {
    let head = ["#", "case", "expected", "found"].map(String::from).to_vec();
    let rows = [
        ("all six orders of arrival", "12, 15 and 13 GiB; c 2 GiB short", order(lab)),
        ("a leaves", "b 25 GiB, of which 10 are lent; c 15", leaves(lab)),
        ("a grows to 30 GiB", "18, 15 and 7 GiB; limits of b and c fall by 6", grows(lab)),
        ("a target of 90 ns", "refused: 100 ns at best", impossible()),
        ("infeasible by its own load", "a reserves its hot 5 GiB; b and c have 15", own_load(lab)),
        ("a cold program above a hot one", "12 GiB, 160 ns", cold(lab)),
        (
            "a program with a bandwidth target is idle, then active",
            "60 GB/s within 2 s; nobody is held back for it while it is idle",
            idle(lab),
        ),
        (
            "load swings around the target for an hour",
            "fewer than 360 changes; within 5 % of the target",
            swings(lab),
        ),
        ("two latency targets", "24 and 16 GiB; nobody is throttled", two(lab)),
        ("a hog beside a program in fast memory", "110 ns; demoted, then throttled", hog(lab)),
        (
            "a bandwidth target above a latency target",
            "70 GB/s; nobody is throttled",
            bandwidth_first(lab),
        ),
        ("three tiers", "10, 5 and 0 GiB of the first", three(lab)),
    ];
    let row = |(at, (case, expected, found)): (i32, (&str, &str, String))| {
        vec![at.to_string(), case.into(), expected.into(), found]
    };
    let lines = [head].into_iter().chain((1..).zip(rows).map(row)).collect();
    let about = "On machines with round numbers, under the default policy.";
    vec![Table { title: "Twelve scenarios", about, lines }, reaction(lab)]
}

fn last(report: &Report, name: &str) -> TenantMeans {
    let found = report.series.last().and_then(|row| of(row, name));
    found.cloned().unwrap_or_default()
}

fn of<'a>(row: &'a Interval, name: &str) -> Option<&'a TenantMeans> {
    row.means.tenants.iter().find(|tenant| tenant.name == name)
}

fn fast(tenant: &TenantMeans) -> f64 {
    tenant.used_bytes.first().copied().map_or(0.0, gib)
}

fn reserved(report: &Report, name: &str) -> f64 {
    last(report, name).qos.map_or(0.0, |qos| gib(qos.reserved_bytes))
}

fn ns(tenant: &TenantMeans) -> f64 {
    tenant.latency_ns.unwrap_or_default()
}

fn rows<'a>(report: &'a Report, name: &'a str) -> impl Iterator<Item = (f64, &'a TenantMeans)> {
    report.series.iter().filter_map(move |row| Some((row.seconds, of(row, name)?)))
}

/// Fast memory of tenants at the end.
fn division(report: &Report, names: &[&str]) -> String {
    let one = |name: &&str| format!("{:.1}", fast(&last(report, name)));
    names.iter().map(one).collect::<Vec<_>>().join(", ") + " GiB"
}

fn order(lab: &Lab) -> String {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let reports = orders.map(|order| {
        let of = scenario!("01-order-of-arrival").but(|scenario| {
            for (program, at) in scenario.workload.iter_mut().zip(order) {
                program.insert("start".into(), format!("{}s", 10 * at).into());
            }
        });
        lab.report(&of)
    });
    let range = |of: &dyn Fn(&Report) -> f64| {
        let all = reports.map(of);
        let [least, most] =
            [all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max)];
        format!("{:.1} to {:.1}", least.unwrap_or_default(), most.unwrap_or_default())
    };
    let given = ["a", "b", "c"].map(|name| range(&|report| fast(&last(report, name))));
    let short = range(&|r| last(r, "c").qos.map_or(0.0, |qos| gib(qos.short_bytes)));
    format!("{} GiB; c {short} GiB short", given.join(", "))
}

fn leaves(lab: &Lab) -> String {
    let report = lab.report(&scenario!("02-one-leaves"));
    let lent = last(report, "b").qos.map_or(0.0, |qos| gib(qos.lent_bytes));
    format!("b, c: {}; lent to b: {lent:.1}", division(report, &["b", "c"]))
}

fn grows(lab: &Lab) -> String {
    let report = lab.report(&scenario!("03-one-grows"));
    let fallen = |name| {
        let late = rows(report, name).filter(|row| row.0 > 49.0);
        let limits: Vec<f64> =
            late.map(|row| row.1.limit_bytes.first().copied().flatten().map_or(0.0, gib)).collect();
        limits.windows(2).map(|pair| (pair[0] - pair[1]).max(0.0)).sum::<f64>()
    };
    let fallen = fallen("b") + fallen("c");
    format!("{}; limits fell by {fallen:.1}", division(report, &["a", "b", "c"]))
}

fn impossible() -> String {
    let scenario = scenario!("04-impossible-target").scenario();
    let run = scenario.and_then(|scenario| crate::run::run(&scenario));
    run.err().map_or("admitted".into(), |error| error.to_string())
}

fn own_load(lab: &Lab) -> String {
    let report = lab.report(&scenario!("05-own-load-too-high"));
    let others = division(report, &["b", "c"]);
    format!("a reserves {:.1} GiB; b, c: {others}", reserved(report, "a"))
}

fn cold(lab: &Lab) -> String {
    let of = scenario!("06-cold-above-hot");
    let with = last(lab.report(&of), "cold");
    let without = last(lab.report(&of.without_targets("tierline")), "cold");
    format!("{:.1} GiB, {:.0} ns; without targets {:.0} ns", fast(&with), ns(&with), ns(&without))
}

fn idle(lab: &Lab) -> String {
    let report = lab.report(&scenario!("07-idle-then-active"));
    // 20 s busy, 20 s idle, again and again.
    let since = |seconds: f64| seconds % 40.0;
    let active =
        rows(report, "batch").filter(|row| row.0 > 40.0 && (2.0..=20.0).contains(&since(row.0)));
    let least = active.map(|row| row.1.bytes_per_second * 1e-9).fold(f64::INFINITY, f64::min);
    let idle = rows(report, "other").filter(|row| since(row.0) > 35.0);
    let held = idle.filter(|row| row.1.cpu_share < 1.0).count();
    format!("at least {least:.1} GB/s from 2 s on; held back in {held} s while it is idle")
}

fn swings(lab: &Lab) -> String {
    let report = lab.report(&scenario!("08-swinging-load"));
    let limits = |row: &Interval| -> Vec<Vec<Option<Bytes>>> {
        row.means.tenants.iter().map(|tenant| tenant.limit_bytes.clone()).collect()
    };
    let changes = report.series.windows(2).filter(|two| limits(&two[0]) != limits(&two[1])).count();
    let late = rows(report, "a").filter(|row| row.0 > 300.0);
    let worst = late.map(|row| ns(row.1) / 160.0 - 1.0).fold(f64::NEG_INFINITY, f64::max);
    format!("{changes} changes; {:+.1} % at most after 5 minutes", 100.0 * worst)
}

fn two(lab: &Lab) -> String {
    let report = lab.report(&scenario!("09-latency-only"));
    let shares =
        ["a", "b"].map(|name| rows(report, name).map(|row| row.1.cpu_share).fold(1.0, f64::min));
    let least = shares.into_iter().fold(1.0, f64::min);
    format!("{}; least CPU share {:.0} %", division(report, &["a", "b"]), least * 100.0)
}

fn hog(lab: &Lab) -> String {
    let report = lab.report(&scenario!("10-hog"));
    let (ls, hog) = (last(report, "ls"), last(report, "hog"));
    format!(
        "{:.0} ns; the hog has {:.1} GB/s with {:.1} of 60 GiB fast and {:.0} % of its CPU time",
        ns(&ls),
        hog.bytes_per_second * 1e-9,
        fast(&hog),
        hog.cpu_share * 100.0
    )
}

fn bandwidth_first(lab: &Lab) -> String {
    let report = lab.report(&scenario!("11-bandwidth-first"));
    let late = rows(report, "hog").filter(|row| (30.0..80.0).contains(&row.0));
    let least = late.map(|row| row.1.bytes_per_second * 1e-9).fold(f64::INFINITY, f64::min);
    let shares =
        ["hog", "ls"].map(|name| rows(report, name).map(|row| row.1.cpu_share).fold(1.0, f64::min));
    let share = shares.into_iter().fold(1.0, f64::min);
    format!("at least {least:.1} GB/s; least CPU share {:.0} %", share * 100.0)
}

fn three(lab: &Lab) -> String {
    let report = lab.report(&scenario!("12-three-tiers"));
    let all = ["a", "b", "c"].map(|name| format!("{:.1}", reserved(report, name)));
    format!("{} GiB reserved of the first", all.join(", "))
}

/// Rates of moves for which the reaction is measured.
const RATES: [u64; 4] = [256, 512, 1024, 2048];
/// When the most important program arrives, s.
const ARRIVES: f64 = 40.0;

/// How soon a late, important program meets its target, beside what the rate of moves allows.
fn reaction(lab: &Lab) -> Table {
    let head = ["moves at most", "its memory is moved after", "target met after", "bound"];
    let row = |mib: u64| {
        let of = scenario!("01-order-of-arrival").but(|scenario| {
            scenario.fast_capacity = Some(Bytes::from_mib(10 << 10));
            (scenario.max_rate, scenario.seconds) = (BytesPerSec(mib << 20), 140.0);
            scenario.report_every = super::setup::TENTH;
            for (program, start) in scenario.workload.iter_mut().zip([0, 0, 40]) {
                program.insert("start".into(), format!("{start}s").into());
                let set = if start == 0 { "7680MiB" } else { "5GiB" };
                program.insert("set".into(), set.into());
            }
        });
        let report = lab.report(&of);
        let since = |holds: &dyn Fn(&TenantMeans) -> bool| {
            let late = rows(report, "a").filter(|row| row.0 > ARRIVES + 0.1);
            let first = late.into_iter().find(|row| holds(row.1));
            first.map_or("-".into(), |row| format!("{:.1} s", row.0 - ARRIVES))
        };
        let moved = |a: &TenantMeans| {
            let limit = a.limit_bytes.first().copied().flatten().map_or(f64::INFINITY, gib);
            fast(a) >= limit * 0.98
        };
        let met = |a: &TenantMeans| a.latency_ns.is_some_and(|ns| ns <= 160.0 * 1.02);
        // 5 GiB (250 - 160) / 150 go up, and as much of others goes down before.
        let bound = 2.0 * 3.0 / (gib(Bytes::from_mib(mib)));
        vec![format!("{mib} MiB/s"), since(&moved), since(&met), format!("{bound:.1} s")]
    };
    let head = head.map(String::from).to_vec();
    let lines = [head].into_iter().chain(RATES.map(row)).collect();
    let about = "A program of 5 GiB with a target of 160 ns arrives on a machine with 10 GiB of fast memory that two \
                 others fill. It needs 3 GiB. The bound: 3 GiB go down and 3 GiB up at the allowed rate.";
    Table { title: "Reaction", about, lines }
}
