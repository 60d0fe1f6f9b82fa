// SPDX-License-Identifier: Apache-2.0
//! A snapshot of a manager: its description, and the samples of all metrics. It is sent through the status
//! socket as JSON, and shown as text.

use serde::{Deserialize, Serialize};
use tierline_core::port::Attention;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use tierline_linux::journal::ChangedSetting;
use tierline_linux::manager::{ApplicationStatus, Manager, TargetStatus};

use crate::metrics::{Kind, METRICS, Metric, MetricSample, MetricSamples, Number, Unit};
use crate::print::{self, SCHEMA_VERSION, row};

/// A snapshot of a manager.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Version of the JSON layout.
    pub schema_version: u32,
    /// Always true; the summary of an unmanaged run has false.
    pub managed: bool,
    /// The manager's version.
    pub version: String,
    /// The manager's process.
    pub pid: u32,
    /// The policy in use.
    pub policy: String,
    /// The tracker in use.
    pub tracker: String,
    /// `alert`, `moving` or `calm`.
    pub attention: String,
    /// True if nothing is moved.
    pub dry_run: bool,
    /// The managed processes.
    pub targets: Vec<TargetStatus>,
    /// The machine's tiers, fastest first.
    pub tiers: Vec<TierStatus>,
    /// The applications with targets or priorities, in descending priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationStatus>,
    /// Settings of the machine that are changed at present.
    pub changes: Vec<ChangedSetting>,
    /// Hash of all events so far.
    pub fingerprint: String,
    /// The samples of all metrics.
    pub metrics: MetricSamples,
}

/// A tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStatus {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<u16>,
}

impl Status {
    /// The status of a manager.
    pub fn of(manager: &Manager, now: Nanos) -> Self {
        let engine = manager.engine();
        let tiers = engine.tiers().0.iter().map(|tier| TierStatus {
            name: tier.name.clone(),
            nodes: tier.nodes.iter().map(|node| node.0).collect(),
        });
        Self {
            schema_version: SCHEMA_VERSION,
            managed: true,
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            policy: engine.policy().name().into(),
            tracker: manager.tracker().name().into(),
            attention: attention(engine.attention()).into(),
            dry_run: manager.options().dry_run,
            targets: manager.targets(),
            tiers: tiers.collect(),
            applications: manager.applications(),
            changes: manager.changed_settings(),
            fingerprint: format!("{:016x}", engine.fingerprint().0),
            metrics: MetricSamples::of(manager, now),
        }
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// One line of text.
    pub fn line(&self) -> String {
        let metrics = &self.metrics;
        let tiers: Vec<String> = self
            .tiers
            .iter()
            .map(|tier| {
                let held = metrics.sum("tier_managed_bytes", &[("tier", &tier.name)]);
                format!("{} {}", tier.name, bytes(held))
            })
            .collect();
        let orders = |filter: &[(&str, &str)]| metrics.sum("orders_bytes_total", filter);
        let moved = |action| orders(&[("action", action), ("outcome", "done")]);
        let ended = orders(&[("outcome", "done")]) + orders(&[("outcome", "skipped")]);
        format!(
            "{}, {} processes: {}; promoted {}, demoted {}, failed {}; own CPU {:.1} s",
            self.attention,
            self.targets.len(),
            tiers.join(", "),
            bytes(moved("promote")),
            bytes(moved("demote")),
            bytes(orders(&[]) - ended),
            metrics.sum("manager_cpu_seconds_total", &[]),
        )
    }

    /// The complete text: the manager, then a table of metrics for each set of labels.
    pub fn text(&self) -> String {
        let targets = self.targets.iter().map(|target| {
            // A name is a part of a line.
            format!("{} {}", target.pid, target.comm.replace('\n', "\\n"))
        });
        let changes = self
            .changes
            .iter()
            .map(|change| format!("{}: {} -> {}", change.path, change.original, change.current));
        let dry_run = if self.dry_run { " (dry run)" } else { "" };
        let mut rows = vec![
            row(["manager", &format!("process {}", self.pid)]),
            row(["policy", &format!("{}{dry_run}", self.policy)]),
            row(["tracker", &format!("{}, {}", self.tracker, self.attention)]),
            row(["processes", &targets.collect::<Vec<_>>().join(", ")]),
            row(["changed", &changes.collect::<Vec<_>>().join(", ")]),
        ];
        rows.extend(self.metrics.iter().filter(|s| s.metric.labels.is_empty()).map(|sample| {
            row([&sample.metric.name.replace('_', " "), &shown(sample.metric.unit, sample.value)])
        }));
        let mut text: String = rows
            .iter()
            .map(|row| format!("{:<17} {}", row[0], row[1]).trim_end().to_string() + "\n")
            .collect();
        if !self.applications.is_empty() {
            text += &format!("\n{}", qos_table(&self.applications));
        }
        let mut sets: Vec<&[&str]> = Vec::new();
        for metric in METRICS.iter().filter(|metric| !metric.labels.is_empty()) {
            if !sets.contains(&metric.labels) {
                sets.push(metric.labels);
                text += &self.table(metric.labels);
            }
        }
        text
    }

    /// The metrics of a set of labels: one row per combination of values, one column per metric. Rows with only
    /// zeros are left out.
    fn table(&self, labels: &[&str]) -> String {
        let metrics: Vec<&Metric> = METRICS
            .iter()
            .filter(|metric| metric.labels == labels)
            .filter(|metric| self.metrics.iter().any(|sample| std::ptr::eq(sample.metric, *metric)))
            .collect();
        let mut keys: Vec<&[String]> = Vec::new();
        let says = |sample: &&MetricSample| {
            sample.metric.kind == Kind::Gauge || sample.value != Number::Whole(0)
        };
        for sample in self.metrics.iter().filter(|s| s.metric.labels == labels).filter(says) {
            if !keys.contains(&&sample.labels[..]) {
                keys.push(&sample.labels);
            }
        }
        if keys.is_empty() {
            return String::new();
        }
        keys.sort_by_key(|key| self.rank(labels, key));
        let prefix = format!("{}_", labels[0]);
        let head = metrics.iter().map(|metric| {
            let name = metric.name.strip_prefix(&prefix).unwrap_or(metric.name);
            name.replace('_', " ")
        });
        let mut rows = vec![labels.iter().map(ToString::to_string).chain(head).collect::<Vec<_>>()];
        for key in keys {
            let cell = |metric: &&Metric| {
                let mut samples = self.metrics.iter();
                let found = samples.find(|s| std::ptr::eq(s.metric, *metric) && s.labels == key);
                print::or_dash(found.map(|sample| shown(metric.unit, sample.value)))
            };
            rows.push(key.iter().cloned().chain(metrics.iter().map(cell)).collect());
        }
        format!("\n{}", print::table(&rows))
    }

    /// Tiers are sorted fastest first, everything else by name.
    fn rank<'a>(&self, labels: &[&str], key: &'a [String]) -> Vec<(usize, &'a str)> {
        let rank = |(label, value): (&&str, &'a String)| match *label {
            "tier" => (self.tiers.iter().position(|t| t.name == *value).unwrap_or(0), ""),
            _ => (0, value.as_str()),
        };
        labels.iter().zip(key).map(rank).collect()
    }
}

/// How applications stand, one a row.
pub fn qos_table(applications: &[ApplicationStatus]) -> String {
    let heading = [
        "priority",
        "application",
        "target",
        "state",
        "latency",
        "slow",
        "fast",
        "reserved",
        "lent",
        "CPU",
    ];
    let mut rows = vec![row(heading)];
    rows.extend(applications.iter().map(|one| {
        let first = |bytes: &[Bytes]| bytes.first().copied().unwrap_or_default().to_string();
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let source = one.latency_source.as_deref().unwrap_or_default();
        let latency =
            one.latency_ns.map(|ns| format!("{} {source}", Nanos::from_secs_f64(ns * 1e-9)));
        row([
            &one.priority.to_string(),
            &one.name,
            one.slo.as_deref().unwrap_or("none"),
            &one.state,
            &print::or_dash(latency),
            &print::or_dash(one.slow_share.map(percent)),
            &first(&one.used_bytes),
            &first(&one.reserved_bytes),
            &first(&one.lent_bytes),
            &percent(one.cpu_share),
        ])
    }));
    print::table(&rows)
}

fn attention(attention: Attention) -> &'static str {
    match attention {
        Attention::Alert => "alert",
        Attention::Moving => "moving",
        Attention::Suspicious => "suspicious",
        Attention::Calm => "calm",
    }
}

/// A value in human-readable form.
fn shown(unit: Unit, value: Number) -> String {
    match (unit, value) {
        (Unit::Bytes, Number::Whole(count)) => Bytes(count).to_string(),
        (Unit::BytesPerSecond, Number::Whole(count)) => BytesPerSec(count).to_string(),
        (Unit::Seconds, value) => Nanos::from_secs_f64(value.as_f64()).to_string(),
        (Unit::Ratio, value) => format!("{:.1} %", value.as_f64() * 100.0),
        (Unit::Pages, Number::Whole(pages)) => Bytes::from_base_pages(pages).to_string(),
        (_, Number::Whole(count)) => count.to_string(),
        (_, Number::Real(value)) => format!("{value:.3}"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of sizes")]
fn bytes(sum: f64) -> Bytes {
    Bytes(sum as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let tier = |name: &str| TierStatus { name: name.into(), nodes: vec![0] };
        let change = ChangedSetting {
            path: "/proc/x".into(),
            original: "1".into(),
            current: "0".into(),
            previous: None,
        };
        let metrics = MetricSamples::default()
            .with("uptime_seconds", &[], Nanos::from_millis(12_300))
            .with("manager_cpu_seconds_total", &[], Nanos::from_millis(200))
            .with("tier_managed_bytes", &["near"], Bytes(3 << 20))
            .with("tier_managed_bytes", &["far"], Bytes(5 << 20))
            .with("tier_latency_seconds", &["near"], Nanos(90))
            .with("tiering_pages_total", &["promote_tried"], 9)
            .with("tiering_pages_total", &["promote_anon"], 0)
            .with("orders_bytes_total", &["all", "promote", "hot", "done"], Bytes(1 << 20))
            .with("orders_bytes_total", &["all", "promote", "hot", "busy"], Bytes(2 << 20))
            .with("orders_bytes_total", &["all", "demote", "make_room", "skipped"], Bytes(4 << 20));
        Status {
            schema_version: SCHEMA_VERSION,
            managed: true,
            pid: 7,
            policy: "hold".into(),
            tracker: "damon".into(),
            attention: "calm".into(),
            tiers: vec![tier("near"), tier("far")],
            changes: vec![change],
            metrics,
            ..Status::default()
        }
    }

    #[test]
    fn every_metric_is_in_the_table_of_its_labels() {
        let status = status();
        let read: Status = serde_json::from_str(&status.json()).expect("a status");
        let text = read.text();
        assert_eq!(text, status.text(), "the status from the socket is shown in the same way");
        for line in [
            "manager           process 7",
            "tracker           damon, calm",
            "changed           /proc/x: 1 -> 0",
            "uptime            12.3 s",
            "tier  managed  latency",
            "near  3.0 MiB    90 ns",
            "far   5.0 MiB        -",
            "all     promote  hot        busy     2.0 MiB",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
        }
        assert!(text.contains("promote_tried") && !text.contains("promote_anon"), "{text}");
    }

    #[test]
    fn the_line_shows_moves_and_failures() {
        assert_eq!(
            status().line(),
            "calm, 0 processes: near 3.0 MiB, far 5.0 MiB; promoted 1.0 MiB, demoted 0 B, failed 2.0 MiB; \
             own CPU 0.2 s"
        );
    }

    /// `MetricSamples::sum` of an unknown metric is zero, so the names in the line must be in the table.
    #[test]
    fn the_line_uses_metrics_of_the_table() {
        for key in ["tier_managed_bytes", "orders_bytes_total", "manager_cpu_seconds_total"] {
            assert!(METRICS.iter().any(|metric| metric.key() == key), "{key}");
        }
    }
}
