// SPDX-License-Identifier: Apache-2.0
//! The table of metrics, one entry each. Status as text, JSON and OpenMetrics are generated from it.
//!
//! A metric's full name is `tierline_NAME_UNIT`, with `_total` for a counter, after the conventions of Prometheus:
//! base units, the unit in the name. In JSON the name has no prefix, and every label is an object:
//! `"tier_free_bytes": {"fast": 4096}`. An unknown value is absent, never zero.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use tierline_core::port::TierTelemetry;
use tierline_core::qos::application::Slo;
use tierline_core::tier::{Tier, TierId};
use tierline_core::unit::{Bytes, Nanos};
use tierline_linux::manager::{ApplicationStatus, Manager, TenantStatus};

use crate::api;
use crate::clock;

/// The prefix of every metric's name.
pub const PREFIX: &str = "tierline";

/// One quantity. It has one sample for every combination of its labels.
#[derive(Debug)]
pub struct Metric {
    /// Its name, without prefix, unit and `_total`.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// How it behaves over time.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its help text.
    pub help: &'static str,
    read: fn(&Source<'_>, &mut Reading<'_>),
}

/// Base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count; the name says of what.
    None,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// Pages of 4 KiB.
    Pages,
    /// Bytes held, times the seconds for which they were held.
    ByteSeconds,
    /// A share; 1 is all.
    Ratio,
}

/// How a metric behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It can rise and fall.
    Gauge,
    /// It only grows while the manager runs.
    Counter,
}

impl Unit {
    /// The unit as used in names.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Bytes => Some("bytes"),
            Self::BytesPerSecond => Some("bytes_per_second"),
            Self::Seconds => Some("seconds"),
            Self::Pages => Some("pages"),
            Self::ByteSeconds => Some("byte_seconds"),
            Self::Ratio => Some("ratio"),
        }
    }
}

impl Metric {
    /// The name with its unit, without the prefix: the key in JSON.
    pub fn key(&self) -> String {
        let total = (self.kind == Kind::Counter).then_some("total");
        [Some(self.name), self.unit.name(), total]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("_")
    }
}

const fn gauge(
    name: &'static str,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Source<'_>, &mut Reading<'_>),
) -> Metric {
    Metric { name, unit, kind: Kind::Gauge, labels, help, read }
}

const fn counter(
    name: &'static str,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Source<'_>, &mut Reading<'_>),
) -> Metric {
    Metric { kind: Kind::Counter, ..gauge(name, unit, labels, help, read) }
}

const TIER: &[&str] = &["tier"];
const TENANT: &[&str] = &["tenant"];
const TENANT_TIER: &[&str] = &["tenant", "tier"];
const ORDER: &[&str] = &["tenant", "action", "reason", "outcome"];

/// All metrics.
#[rustfmt::skip] // one shape for all
pub static METRICS: &[Metric] = &[
    gauge("uptime", Unit::Seconds, &[], "Time since the manager's first step",
        |m, out| out.add(&[], m.uptime(m.now))),
    counter("manager_cpu", Unit::Seconds, &[], "CPU time of the manager's process",
        |_, out| out.add(&[], clock::cpu())),
    gauge("manager_resident", Unit::Bytes, &[], "Resident memory of the manager's process",
        |m, out| out.add(&[], m.resident())),
    gauge("manager_metadata", Unit::Bytes, &[], "Part of the resident memory that describes managed pages",
        |m, out| out.add(&[], m.engine().pages().metadata_bytes() as u64)),
    counter("steps", Unit::None, &["late"], "Steps of the manager, by how long after they were due they began",
        |m, out| m.lateness().counts().for_each(|(late, count)| out.add(&[late], count))),
    counter("problems", Unit::None, &[], "Errors that did not stop the manager",
        |m, out| out.add(&[], m.error_count())),

    counter("samples", Unit::None, &[], "Samples that the tracker reported, one for each page",
        |m, out| out.add(&[], m.engine().intake().samples)),
    counter("lost_samples", Unit::None, &[], "Samples that the tracker lost",
        |m, out| out.add(&[], m.engine().intake().lost)),
    gauge("tracker_silence", Unit::Seconds, &[], "Time since the tracker last reported a sample",
        |m, out| out.some(&[], m.time_since_sample(m.now))),
    counter("tracker_cpu", Unit::Seconds, &[], "CPU time of kernel threads that work for the tracker",
        |m, out| out.add(&[], m.tracker().kernel_cpu())),

    gauge("managed", Unit::Bytes, &[], "Memory mapped by the managed processes",
        |m, out| out.add(&[], Bytes::from_base_pages(m.engine().pages().base_pages()))),
    gauge("tier_capacity", Unit::Bytes, TIER, "Memory in all nodes of the tier",
        |m, out| m.tiers(|tier| out.add(&[tier.name], tier.tier.capacity))),
    gauge("tier_free", Unit::Bytes, TIER, "Free memory of the tier, with cold pages of files that can give way, without the kernel's reserves",
        |m, out| m.tiers(|tier| out.some(&[tier.name], tier.measured.map(|now| now.free)))),
    gauge("tier_managed", Unit::Bytes, TIER, "Memory of the managed processes that is known to be in the tier",
        |m, out| m.tiers(|tier| out.add(&[tier.name], m.engine().pages().bytes_in(tier.id)))),
    gauge("tier_latency", Unit::Seconds, TIER, "Latency of a read, under load if that is measured",
        |m, out| m.tiers(|tier| out.some(&[tier.name], tier.measured.and_then(|now| now.latency).or(tier.tier.latency)))),
    gauge("tier_bandwidth", Unit::BytesPerSecond, TIER, "Rate at which the tier is read and written",
        |m, out| m.tiers(|tier| out.some(&[tier.name], tier.measured.and_then(|now| now.bandwidth).map(|rate| rate.0)))),

    gauge("tenant_processes", Unit::None, TENANT, "Managed processes of the tenant",
        |m, out| m.tenants.iter().for_each(|tenant| out.add(&[&tenant.name], tenant.processes as u64))),
    gauge("tenant_used", Unit::Bytes, TENANT_TIER, "Memory of the tenant in the tier",
        |m, out| m.tenants_and_tiers(|tenant, tier, at| out.some(&[tenant.name.as_str(), tier], tenant.used.get(at).copied()))),
    gauge("tenant_limit", Unit::Bytes, TENANT_TIER, "Limit of the tenant in the tier",
        |m, out| m.tenants_and_tiers(|tenant, tier, at| out.some(&[tenant.name.as_str(), tier], tenant.limits.get(at).copied().flatten()))),
    counter("tenant_held", Unit::ByteSeconds, TENANT_TIER, "Memory of the tenant in the tier, times the time for which it was there",
        |m, out| m.tenants_and_tiers(|tenant, tier, at| out.add(&[tenant.name.as_str(), tier], tenant.usage.byte_seconds[at]))),
    gauge("tenant_slowdown", Unit::None, TENANT, "Estimate: how many times as long the tenant takes because of slower tiers and a limit on CPU time",
        |m, out| m.tenants.iter().for_each(|tenant| out.some(&[&tenant.name], tenant.usage.slowdown()))),

    gauge("tenant_target_latency", Unit::Seconds, TENANT, "Target of the tenant: a mean latency of its accesses, at most",
        |m, out| m.targets(|tenant, slo| if let Slo::Latency(latency) = slo { out.add(&[tenant], latency) })),
    gauge("tenant_target_bandwidth", Unit::BytesPerSecond, TENANT, "Target of the tenant: a bandwidth, at least",
        |m, out| m.targets(|tenant, slo| if let Slo::Bandwidth(rate) = slo { out.add(&[tenant], rate.0) })),
    gauge("tenant_target_slow_accesses", Unit::Ratio, TENANT, "Target of the tenant: a share of accesses that slower tiers than the fastest serve, at most",
        |m, out| m.targets(|tenant, slo| if let Slo::SlowShare(share) = slo { out.add(&[tenant], share) })),
    gauge("tenant_latency", Unit::Seconds, &["tenant", "source"], "Mean latency of the tenant's accesses, by where it comes from",
        |m, out| m.applications.iter().for_each(|one| out.some(&[&one.name, one.latency_source.as_deref().unwrap_or("unknown")], one.latency_ns.map(|ns| ns * 1e-9)))),
    gauge("tenant_bandwidth", Unit::BytesPerSecond, TENANT, "Memory that the tenant reads and writes, if it is measured or reported",
        |m, out| m.applications.iter().for_each(|one| out.some(&[&one.name], one.bandwidth_bytes_per_second))),
    gauge("tenant_slow_accesses", Unit::Ratio, TENANT, "Share of the tenant's accesses that slower tiers than the fastest serve",
        |m, out| m.applications.iter().for_each(|one| out.some(&[&one.name], one.slow_share))),
    gauge("tenant_target_error", Unit::Ratio, TENANT, "How far the tenant misses its target, relative to it; 0 or less: it is met",
        |m, out| m.applications.iter().for_each(|one| out.some(&[&one.name], one.error_share))),
    gauge("tenant_priority", Unit::None, TENANT, "Priority of a tenant that was admitted with a target or a priority; larger is more important",
        |m, out| m.applications.iter().for_each(|one| out.add(&[&one.name], u64::from(one.priority)))),
    gauge("tenant_needed", Unit::Bytes, TENANT_TIER, "Memory of the tier that the tenant's target needs",
        |m, out| m.granted(|one| &one.needed_bytes, |labels, bytes| out.add(labels, bytes))),
    gauge("tenant_reserved", Unit::Bytes, TENANT_TIER, "Memory of the tier that is reserved for the tenant's target",
        |m, out| m.granted(|one| &one.reserved_bytes, |labels, bytes| out.add(labels, bytes))),
    gauge("tenant_lent", Unit::Bytes, TENANT_TIER, "Memory of the tier that is lent to the tenant",
        |m, out| m.granted(|one| &one.lent_bytes, |labels, bytes| out.add(labels, bytes))),
    gauge("tenant_short", Unit::Bytes, TENANT, "Fast memory that the tenant's target lacks",
        |m, out| m.applications.iter().for_each(|one| out.add(&[&one.name], one.short_bytes))),
    gauge("tenant_cpu_share", Unit::Ratio, TENANT, "Share of its CPU time that the tenant may use",
        |m, out| m.applications.iter().for_each(|one| out.add(&[&one.name], one.cpu_share))),

    counter("orders", Unit::Bytes, ORDER, "Memory ordered to be promoted, demoted, paged out or split",
        |m, out| m.orders(|labels, bytes| out.add(&labels, bytes))),
    counter("node_moved", Unit::Bytes, &["from", "to"], "Memory moved, by the node that it left and the node that it went to",
        |m, out| m.moved_by_nodes().iter().for_each(|((from, to), bytes)| out.add(&[&from.0.to_string(), &to.0.to_string()], *bytes))),
    counter("ping_pong", Unit::Bytes, &[], "Memory moved back soon after a move in the other direction",
        |m, out| out.add(&[], Bytes::from_base_pages(m.engine().migrator().counts.ping_pong_pages))),
    counter("orders_given_up", Unit::None, &[], "Orders given up because the page stayed busy",
        |m, out| out.add(&[], m.engine().migrator().counts.given_up)),
    counter("migrator_busy", Unit::Seconds, &["work"], "Time spent on orders",
        |m, out| m.busy().into_iter().for_each(|(work, time)| out.add(&[work], time))),
    counter("tiering", Unit::Pages, &["event"], "Decisions and outcomes, counted as in TPP (ASPLOS 2023, section 5.5)",
        |m, out| m.tiering(|event, pages| out.add(&[event], pages))),
    counter("api_requests", Unit::None, &["outcome"], "Requests to the daemon's API: answered, refused, or shed because there were too many",
        |_, out| api::COUNTS.all().into_iter().for_each(|(outcome, count)| out.add(&[outcome], count))),
    counter("vmstat", Unit::None, &["counter"], "Page moves counted in /proc/vmstat, on the whole machine since the start",
        |m, out| m.kernel.iter().for_each(|(name, count)| out.add(&[name], *count))),
];

/// A manager, and readings that several metrics share.
struct Source<'a> {
    manager: &'a Manager,
    now: Nanos,
    tenants: Vec<TenantStatus>,
    applications: Vec<ApplicationStatus>,
    kernel: BTreeMap<String, u64>,
}

/// A tier and its last measurements.
struct TierReading<'a> {
    id: TierId,
    name: &'a str,
    tier: &'a Tier,
    measured: Option<&'a TierTelemetry>,
}

impl std::ops::Deref for Source<'_> {
    type Target = Manager;
    fn deref(&self) -> &Manager {
        self.manager
    }
}

impl Source<'_> {
    fn tiers(&self, mut each: impl FnMut(TierReading<'_>)) {
        for (id, tier) in self.engine().tiers().iter() {
            let measured = self.engine().telemetry().tiers.get(id.index());
            each(TierReading { id, name: &tier.name, tier, measured });
        }
    }

    fn tenants_and_tiers(&self, mut each: impl FnMut(&TenantStatus, &str, usize)) {
        for tenant in &self.tenants {
            self.tiers(|tier| each(tenant, tier.name, tier.id.index()));
        }
    }

    /// The targets of tenants that have one.
    fn targets(&self, mut each: impl FnMut(&str, Slo)) {
        for report in self.engine().qos.reports() {
            let at = usize::from(report.application.tenant.0);
            let tenant = self.tenants.iter().find(|tenant| tenant.at + 1 == at);
            if let (Some(tenant), Some(slo)) = (tenant, report.application.slo) {
                each(&tenant.name, slo);
            }
        }
    }

    /// What applications have by tier.
    fn granted(
        &self,
        of: impl Fn(&ApplicationStatus) -> &Vec<Bytes>,
        mut each: impl FnMut(&[&str], Bytes),
    ) {
        for one in &self.applications {
            let tiers = self.engine().tiers().iter();
            tiers
                .zip(of(one))
                .for_each(|((_, tier), bytes)| each(&[one.name.as_str(), &tier.name], *bytes));
        }
    }

    fn busy(&self) -> [(&'static str, Nanos); 3] {
        let counts = &self.engine().migrator().counts;
        [("move", counts.busy), ("page_out", counts.paging), ("split", counts.splitting)]
    }

    fn tiering(&self, mut each: impl FnMut(&str, u64)) {
        let counters = serde_json::to_value(self.engine().migrator().counts.tiering);
        let counters = counters.unwrap_or_default();
        let counters = counters.as_object().into_iter().flatten();
        counters.for_each(|(name, count)| each(name, count.as_u64().unwrap_or(0)));
    }

    /// Orders of the manager, and of the kernel if tiering is left to it.
    fn orders(&self, mut each: impl FnMut([&str; 4], Bytes)) {
        for (kind, bytes) in self.manager.orders().iter() {
            let tenant = self.tenants.iter().find(|tenant| tenant.at == kind.tenant);
            let tenant = tenant.map_or("", |tenant| tenant.name.as_str());
            each([tenant, kind.action, kind.reason, kind.outcome], bytes);
        }
        if self.engine().policy().kernel().is_none() {
            return;
        }
        for (action, prefix) in [("promote", "pgpromote_success"), ("demote", "pgdemote_")] {
            let counts = self.kernel.iter().filter(|(name, _)| name.starts_with(prefix));
            let pages = counts.map(|(_, count)| count).sum();
            each(["all", action, "kernel", "done"], Bytes::from_base_pages(pages));
        }
    }
}

/// Receives a metric's samples.
struct Reading<'a> {
    metric: &'static Metric,
    samples: &'a mut Vec<MetricSample>,
}

impl Reading<'_> {
    fn add(&mut self, labels: &[&str], value: impl Into<Number>) {
        debug_assert_eq!(labels.len(), self.metric.labels.len(), "{}", self.metric.name);
        let labels = labels.iter().map(ToString::to_string).collect();
        self.samples.push(MetricSample { metric: self.metric, labels, value: value.into() });
    }

    fn some(&mut self, labels: &[&str], value: Option<impl Into<Number>>) {
        value.into_iter().for_each(|value| self.add(labels, value));
    }
}

/// One value of a metric.
#[derive(Clone, Debug)]
pub struct MetricSample {
    /// The metric.
    pub metric: &'static Metric,
    /// The values of its labels, in their order.
    pub labels: Vec<String>,
    /// The value, in the metric's unit.
    pub value: Number,
}

/// A value: an integer if it is counted, otherwise a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A count.
    Whole(u64),
    /// Measured.
    Real(f64),
}

impl Number {
    /// The value as a float, for charts and sums.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53, 8 PiB")]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(count) => count as f64,
            Self::Real(value) => value,
        }
    }
}

impl From<u64> for Number {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<f64> for Number {
    fn from(measured: f64) -> Self {
        Self::Real(measured)
    }
}

impl From<Bytes> for Number {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes.0)
    }
}

impl From<Nanos> for Number {
    fn from(time: Nanos) -> Self {
        Self::Real(time.as_secs_f64())
    }
}

/// All samples of a manager at one time, in the order of the table.
#[derive(Clone, Debug, Default)]
pub struct MetricSamples(Vec<MetricSample>);

impl MetricSamples {
    /// Reads every metric of a manager.
    pub fn of(manager: &Manager, now: Nanos) -> Self {
        let (tenants, kernel) = (manager.tenants(), manager.kernel_counts());
        let applications = manager.applications();
        let source = Source { manager, now, tenants, applications, kernel };
        let mut samples = Vec::new();
        for metric in METRICS {
            (metric.read)(&source, &mut Reading { metric, samples: &mut samples });
        }
        Self(samples)
    }

    /// Every sample.
    pub fn iter(&self) -> impl Iterator<Item = &MetricSample> {
        self.0.iter()
    }

    /// The sum of a metric's samples whose labels have these values.
    pub fn sum(&self, key: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&MetricSample| {
            sample.metric.key() == key
                && labels.iter().all(|(label, value)| sample.label(label) == Some(value))
        };
        self.0.iter().filter(fits).map(|sample| sample.value.as_f64()).sum()
    }

    /// Samples for a test: of the metric with this key.
    #[cfg(test)]
    pub fn with(mut self, key: &str, labels: &[&str], value: impl Into<Number>) -> Self {
        let metric = METRICS.iter().find(|metric| metric.key() == key).expect("a metric");
        Reading { metric, samples: &mut self.0 }.add(labels, value);
        self
    }
}

impl MetricSample {
    /// The value of a label; `None` if the metric has no such label.
    pub fn label(&self, label: &str) -> Option<&str> {
        let at = self.metric.labels.iter().position(|known| *known == label)?;
        self.labels.get(at).map(String::as_str)
    }
}

impl Serialize for MetricSamples {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Map::new();
        for sample in &self.0 {
            let mut place = object.entry(sample.metric.key()).or_insert(Value::Null);
            for label in &sample.labels {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                place = &mut place[label];
            }
            *place = serde_json::to_value(sample.value).unwrap_or_default();
        }
        object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MetricSamples {
    /// Metrics unknown to this version are left out.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(deserializer)?;
        let mut samples = Vec::new();
        for metric in METRICS {
            if let Some(value) = object.get(&metric.key()) {
                flatten(metric, Vec::new(), value, &mut samples).map_err(D::Error::custom)?;
            }
        }
        Ok(Self(samples))
    }
}

fn flatten(
    metric: &'static Metric,
    labels: Vec<String>,
    value: &Value,
    samples: &mut Vec<MetricSample>,
) -> Result<(), String> {
    let wrong =
        |expected: &str| format!("metric {}: expected {expected}, found {value}", metric.key());
    if labels.len() == metric.labels.len() {
        let value = Number::deserialize(value).map_err(|_| wrong("a number"))?;
        samples.push(MetricSample { metric, labels, value });
        return Ok(());
    }
    let object = value.as_object().ok_or_else(|| wrong("an object"))?;
    object.iter().try_for_each(|(label, value)| {
        let labels = labels.iter().chain([label]).cloned().collect();
        flatten(metric, labels, value, samples)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions_and_are_unique() {
        let mut keys: Vec<String> = METRICS.iter().map(Metric::key).collect();
        for metric in METRICS {
            let plain = |name: &str| {
                name.starts_with(|c: char| c.is_ascii_lowercase())
                    && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            };
            assert!(
                plain(metric.name) && metric.labels.iter().all(|l| plain(l)),
                "{}",
                metric.name
            );
            for part in ["bytes", "seconds", "pages", "total", "info"] {
                assert!(
                    !metric.name.ends_with(part),
                    "{}: {part} is added by the table",
                    metric.name
                );
            }
            // Exporters write help on one line, and the OpenMetrics writer adds the full stop.
            assert!(metric.help.len() > 9 && !metric.help.ends_with('.'), "{}", metric.name);
        }
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    /// The dashboard and the alerts are written by hand, so a metric that changes its name must not vanish from them.
    #[test]
    fn the_dashboard_and_the_alerts_name_metrics_of_the_table() {
        let keys: Vec<String> = METRICS.iter().map(Metric::key).collect();
        for text in [
            include_str!("../../../packaging/grafana/tierline.json"),
            include_str!("../../../packaging/prometheus/tierline.rules.yml"),
        ] {
            let mut names = 0;
            for part in text.split("tierline_").skip(1) {
                let end = |c: char| !c.is_ascii_lowercase() && c != '_';
                let name = part.split(end).next().unwrap_or_default();
                assert!(keys.iter().any(|key| key == name), "tierline_{name}");
                names += 1;
            }
            assert!(names >= 8, "{names} metrics");
        }
    }

    #[test]
    fn samples_are_read_back_from_json() {
        let samples = MetricSamples::default()
            .with("uptime_seconds", &[], Nanos::from_millis(1500))
            .with("tier_free_bytes", &["fast"], Bytes(4096))
            .with("tier_free_bytes", &["slow"], Bytes(u64::MAX))
            .with("orders_bytes_total", &["a", "promote", "hot", "done"], Bytes(8192))
            .with("orders_bytes_total", &["a", "promote", "hot", "busy"], Bytes(1));
        let json = serde_json::to_value(&samples).expect("JSON");
        assert_eq!(json["uptime_seconds"], 1.5);
        assert_eq!(json["tier_free_bytes"]["slow"], u64::MAX);
        assert_eq!(json["orders_bytes_total"]["a"]["promote"]["hot"]["done"], 8192);
        let read: MetricSamples = serde_json::from_value(json.clone()).expect("samples");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), json);
        assert_eq!(read.iter().count(), 5);
        let moved = read.sum("orders_bytes_total", &[("action", "promote"), ("outcome", "done")]);
        assert!((moved - 8192.0).abs() < 1e-9 && read.sum("no_such_metric", &[]) == 0.0);
    }

    #[test]
    fn unknown_metrics_are_left_out_and_malformed_ones_are_named() {
        let read = |text: &str| serde_json::from_str::<MetricSamples>(text);
        assert_eq!(read(r#"{"tomorrows_bytes": 7}"#).expect("samples").iter().count(), 0);
        for odd in [r#"{"tier_free_bytes": 7}"#, r#"{"samples_total": {"x": 1}}"#] {
            let error = read(odd).expect_err(odd).to_string();
            assert!(error.contains("metric ") && error.contains("expected a"), "{error}");
        }
    }
}
