// SPDX-License-Identifier: Apache-2.0
//! The twelve scenarios of quality of service, as files.

use tierline_model::report::Report;
use tierline_model::run::run;
use tierline_model::scenario::Scenario;

/// The scenario of that name, on its machine.
fn scenario(name: &str) -> Scenario {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let mut scenario = Scenario::parse(name, &read(&format!("scenarios/qos/{name}.toml"))).unwrap();
    scenario.machine_text = Some(read(&scenario.machine));
    scenario
}

fn show(report: &Report, every: usize) {
    for row in report.series.iter().step_by(every) {
        print!("{:6.1}", row.seconds);
        for t in &row.means.tenants {
            let gb = |b: u64| b as f64 / (1u64 << 30) as f64;
            let q = t.qos.as_ref();
            print!(
                " | {} u{:.1} L{:.1} r{:.1} l{:.1} s{:.1} {:.1}ns {:.1}GB/s c{:.2} e{:+.3}",
                t.name,
                gb(t.used_bytes[0].0),
                t.limit_bytes[0].map_or(-1.0, |l| gb(l.0)),
                q.map_or(0.0, |q| gb(q.reserved_bytes.0)),
                q.map_or(0.0, |q| gb(q.lent_bytes.0)),
                q.map_or(0.0, |q| gb(q.short_bytes.0)),
                t.latency_ns.unwrap_or(0.0),
                t.bytes_per_second * 1e-9,
                t.cpu_share,
                q.and_then(|q| q.error_share).unwrap_or(-9.0),
            );
        }
        println!();
    }
}

#[test]
#[ignore = "to look at"]
fn look() {
    let name = std::env::var("LOOK").unwrap();
    let every = std::env::var("EVERY").map_or(10, |e| e.parse().unwrap());
    let mut s = scenario(&name);
    if let Ok(policy) = std::env::var("POLICY") { s.policy = policy; }
    if let Ok(secs) = std::env::var("SECS") { s.seconds = secs.parse().unwrap(); }
    let start = std::time::Instant::now();
    match run(&s) {
        Ok(report) => show(&report, every),
        Err(e) => println!("{e}"),
    }
    println!("{:?}", start.elapsed());
}
