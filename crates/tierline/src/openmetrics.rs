// SPDX-License-Identifier: Apache-2.0
//! Metrics in the OpenMetrics text format, for Prometheus and other readers of that format.

use std::fmt;

use anyhow::{Context, Result};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{self, Registry};

use crate::metrics::{Kind, METRICS, Metric, MetricSample, Number, PREFIX};
use crate::status::Status;

/// The managers' metrics as text. With several managers, the label `manager` contains their process ids.
pub fn text(managers: Vec<Status>) -> Result<String> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Managers(managers)));
    let mut written = String::new();
    text::encode(&mut written, &registry).context("cannot write metrics")?;
    Ok(written)
}

#[derive(Debug)]
struct Managers(Vec<Status>);

impl Collector for Managers {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "Policy, tracker and version of the manager.";
        let mut info = encoder.encode_descriptor("manager", help, None, MetricType::Info)?;
        for manager in &self.0 {
            let Status { policy, tracker, version, .. } = manager;
            let labels = [("policy", policy), ("tracker", tracker), ("version", version)];
            let labels = labels.map(|(label, value)| (label.to_string(), value.clone()));
            info.encode_info(&self.labels(manager.pid, labels))?;
        }
        for metric in METRICS {
            let of_metric = |sample: &&MetricSample| std::ptr::eq(sample.metric, metric);
            let samples = self.0.iter().flat_map(|manager| {
                let samples = manager.metrics.iter().filter(of_metric);
                samples.map(move |sample| (manager.pid, sample))
            });
            let samples: Vec<(u32, &MetricSample)> = samples.collect();
            if samples.is_empty() {
                continue;
            }
            let unit = metric.unit.name().map(|unit| registry::Unit::Other(unit.into()));
            let help = format!("{}.", metric.help);
            let mut encoder =
                encoder.encode_descriptor(metric.name, &help, unit.as_ref(), kind(metric))?;
            for (pid, sample) in samples {
                let names = metric.labels.iter().map(ToString::to_string);
                let labels = self.labels(pid, names.zip(sample.labels.iter().cloned()));
                write(&mut encoder, metric.kind, &labels, sample.value)?;
            }
        }
        Ok(())
    }
}

impl Managers {
    /// Labels, after that of the manager if there are several.
    fn labels(
        &self,
        pid: u32,
        labels: impl IntoIterator<Item = (String, String)>,
    ) -> Vec<(String, String)> {
        let manager = (self.0.len() > 1).then(|| ("manager".to_string(), pid.to_string()));
        manager.into_iter().chain(labels).collect()
    }
}

fn write(
    encoder: &mut MetricEncoder<'_>,
    kind: Kind,
    labels: &Vec<(String, String)>,
    value: Number,
) -> fmt::Result {
    if labels.is_empty() {
        return write_value(encoder, kind, value);
    }
    write_value(&mut encoder.encode_family(labels)?, kind, value)
}

fn write_value(encoder: &mut MetricEncoder<'_>, kind: Kind, value: Number) -> fmt::Result {
    let none = None::<&Exemplar<NoLabelSet, u64>>;
    match (kind, value) {
        (Kind::Counter, Number::Whole(count)) => encoder.encode_counter(&count, none),
        (Kind::Counter, Number::Real(value)) => encoder.encode_counter(&value, none),
        (_, Number::Whole(count)) => encoder.encode_gauge(&count),
        (_, Number::Real(value)) => encoder.encode_gauge(&value),
    }
}

fn kind(metric: &Metric) -> MetricType {
    match metric.kind {
        Kind::Gauge => MetricType::Gauge,
        Kind::Counter => MetricType::Counter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricSamples;
    use tierline_core::unit::{Bytes, Nanos};

    fn manager(pid: u32, policy: &str) -> Status {
        let metrics = MetricSamples::default()
            .with("uptime_seconds", &[], Nanos::from_millis(1500))
            .with("tier_free_bytes", &["fast"], Bytes(4096))
            .with("orders_bytes_total", &["db", "promote", "hot", "done"], Bytes(8192));
        let (policy, tracker, version) = (policy.into(), "damon".into(), "1.0".into());
        Status { pid, policy, tracker, version, metrics, ..Status::default() }
    }

    #[test]
    fn a_manager_is_written_in_the_format() {
        let written = text(vec![manager(7, "a\"b\\c")]).expect("text");
        let expected = r#"# HELP tierline_manager Policy, tracker and version of the manager.
# TYPE tierline_manager info
tierline_manager_info{policy="a\"b\\c",tracker="damon",version="1.0"} 1
# HELP tierline_uptime_seconds Time since the manager's first step.
# TYPE tierline_uptime_seconds gauge
# UNIT tierline_uptime_seconds seconds
tierline_uptime_seconds 1.5
# HELP tierline_tier_free_bytes Free memory of the tier, with cold pages of files that can give way, without the kernel's reserves.
# TYPE tierline_tier_free_bytes gauge
# UNIT tierline_tier_free_bytes bytes
tierline_tier_free_bytes{tier="fast"} 4096
# HELP tierline_orders_bytes Memory ordered to be promoted, demoted, paged out or split.
# TYPE tierline_orders_bytes counter
# UNIT tierline_orders_bytes bytes
tierline_orders_bytes_total{tenant="db",action="promote",reason="hot",outcome="done"} 8192
# EOF
"#;
        assert_eq!(written, expected);
    }

    #[test]
    fn several_managers_are_distinguished() {
        let written = text(vec![manager(7, "hold"), manager(8, "tpp")]).expect("text");
        for line in [
            "tierline_uptime_seconds{manager=\"7\"} 1.5",
            "tierline_tier_free_bytes{manager=\"8\",tier=\"fast\"} 4096",
        ] {
            assert!(written.lines().any(|found| found == line), "{line} in\n{written}");
        }
        assert_eq!(written.matches("# TYPE tierline_uptime_seconds").count(), 1);
    }
}
