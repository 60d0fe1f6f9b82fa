// SPDX-License-Identifier: Apache-2.0
//! `tierline status`: asks the running managers.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use tierline_core::unit::{Bytes, Nanos};

use super::Globals;
use crate::config::Layer;
use crate::config::file::Sources;
use crate::letter::Hinted;
use crate::print;
use crate::serve;

/// Show what running managers do
///
/// Asks every manager through its socket in the state folder.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Where the sockets are [default: /run/tierline]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
}

#[derive(Serialize)]
struct Answer {
    managers: Vec<Value>,
}

impl StatusArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let flags = Layer { state_dir: self.state_dir.clone(), ..Layer::default() };
        let layer = self.sources.stack(&globals.root(), flags)?.flatten();
        let dir = layer.options(false)?.0.state_dir;
        let mut managers = Vec::new();
        for (pid, file) in serve::sockets(&dir) {
            let answer = serve::ask(&file).map_err(|error| unheard(pid, &error))?;
            managers.extend(answer.map(|text| serde_json::from_str(&text)).transpose()?);
        }
        let answer = Answer { managers };
        if globals.json {
            print::json(&answer)?;
        } else if answer.managers.is_empty() {
            print::out("no manager is running\n")?;
        } else {
            let texts: Vec<String> = answer.managers.iter().map(describe).collect();
            print::out(&texts.join("\n"))?;
        }
        Ok(0)
    }
}

fn unheard(pid: u32, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "ask as the manager's user or group, or as root",
        _ => "it may be in the middle of a long step: try again",
    };
    Hinted::error(format!("cannot ask the manager, process {pid}: {error}"), hint)
}

fn describe(status: &Value) -> String {
    let number = |key: &str| status[key].as_u64().unwrap_or(0);
    let text = |key: &str| status[key].as_str().unwrap_or("?").to_string();
    let pages = |key: &str| Bytes::from_base_pages(number(key));
    let seconds = |key: &str| format!("{:.1} s", status[key].as_f64().unwrap_or(0.0));
    let names = |key: &str, of: fn(&Value) -> String| {
        let items = status[key].as_array().into_iter().flatten();
        items.map(of).collect::<Vec<_>>().join(", ")
    };
    let failed = status["failed_moves"].as_object().into_iter().flatten();
    let failed: Vec<String> = failed.map(|(why, count)| format!("{count} {why}")).collect();
    let lines = [
        ("manager", format!("process {}, for {}", number("pid"), seconds("uptime_seconds"))),
        ("policy", text("policy") + if status["dry_run"] == true { " (dry run)" } else { "" }),
        ("tracker", format!("{}, {}", text("tracker"), text("attention"))),
        (
            "processes",
            names("targets", |t| format!("{} {}", t["pid"], t["comm"].as_str().unwrap_or("?"))),
        ),
        ("tiers", names("tiers", tier)),
        ("promoted", pages("promoted_pages").to_string()),
        ("demoted", pages("demoted_pages").to_string()),
        ("tiering", print::counted(&status["tiering"])),
        ("kernel", kernel(&status["kernel"])),
        ("came back", pages("ping_pong_pages").to_string()),
        ("failed moves", if failed.is_empty() { "none".into() } else { failed.join(", ") }),
        ("samples", format!("{}, {} lost", number("samples"), number("lost_samples"))),
        (
            "own cost",
            format!("{} of CPU, {} resident", seconds("cpu_seconds"), Bytes(number("rss_bytes"))),
        ),
        (
            "changed",
            names("changes", |c| format!("{}: {} -> {}", c[0].as_str().unwrap_or("?"), c[1], c[2])),
        ),
    ];
    lines
        .iter()
        .map(|(name, value)| format!("{name:<13} {value}").trim_end().to_string() + "\n")
        .collect()
}

/// What the kernel counted of its own tiering, in pages.
fn kernel(counts: &Value) -> String {
    let sum = |prefixes: &[&str]| -> u64 {
        let all = counts.as_object().into_iter().flatten();
        let some = all.filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        some.filter_map(|(_, count)| count.as_u64()).sum()
    };
    let told = [
        ("hint faults", sum(&["numa_hint_faults"]) - sum(&["numa_hint_faults_local"])),
        ("candidates", sum(&["pgpromote_candidate"])),
        ("promoted", sum(&["pgpromote_success"])),
        ("demoted", sum(&["pgdemote_"])),
        ("moves failed", sum(&["pgmigrate_fail"])),
    ];
    told.map(|(what, count)| format!("{count} {what}")).join(", ")
}

fn tier(tier: &Value) -> String {
    let bytes = |key: &str| Bytes(tier[key].as_u64().unwrap_or(0));
    let latency =
        tier["latency_ns"].as_u64().map(|ns| format!(", {}", Nanos(ns))).unwrap_or_default();
    format!(
        "{} {} managed of {}, {} free{latency}",
        tier["name"].as_str().unwrap_or("?"),
        bytes("managed_bytes"),
        bytes("capacity_bytes"),
        bytes("free_bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::counters::Counters;
    use tierline_linux::manager::{Status, TierStatus};

    #[test]
    fn every_line_finds_its_field() {
        let tier =
            TierStatus { name: "fast".into(), latency_ns: Some(90), ..TierStatus::default() };
        let status = Status {
            pid: 7,
            policy: "hold".into(),
            tracker: "damon".into(),
            attention: "calm".into(),
            failed_moves: [("busy".to_string(), 3)].into(),
            tiering: Counters { promote_tried: 9, promote_anon: 8, ..Counters::default() },
            kernel: [("pgdemote_kswapd".to_string(), 5), ("pgdemote_direct".to_string(), 2)].into(),
            changes: vec![("/proc/x".into(), "1".into(), "0".into())],
            tiers: vec![tier],
            ..Status::default()
        };
        let text = describe(&serde_json::to_value(status).expect("JSON"));
        let parts = [
            "process 7",
            "hold",
            "damon, calm",
            "3 busy",
            "promote_anon 8, promote_tried 9\n",
            "7 demoted",
            "/proc/x",
            "90 ns",
        ];
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains('?'), "{text}");
    }
}
