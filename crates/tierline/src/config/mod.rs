// SPDX-License-Identifier: Apache-2.0
//! The settings, in layers: defaults, file, drop-ins, `--set`, flags. A higher layer overrides a lower one.

pub mod file;
pub mod value;

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use tierline_core::policy::{POLICIES, entry::PolicyEntry as Policy};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use tierline_linux::error::{Error, Result};
use tierline_linux::manager::ManagerOptions;
use tierline_linux::topology::TierSpec;
use tierline_linux::tracker::TRACKERS;
use tierline_linux::tracker::neoprof::DeviceLocation;

use crate::nearest::suggest;
use crate::tenants::TierLimits;
use value::{Knobs, OrAuto, Text};

/// The tracker's name for the automatic choice.
const AUTO: &str = "auto";
/// A tick costs some ten microseconds; more than a thousand a second would be noticeable.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(1);

/// One layer: its value for each key, or `None`.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[command(next_help_heading = "How to manage")]
pub struct Layer {
    /// The policy, which decides which pages move [default: tierline]
    #[arg(long, value_name = "NAME", value_parser = policy_names())]
    #[serde(default, deserialize_with = "policy_name")]
    pub policy: Option<String>,
    /// Knobs of the policy, in their unit, as in demote_scale=0.05 [default: none]
    #[arg(long, value_name = "KNOBS")]
    pub knobs: Option<OrAuto<Knobs>>,
    /// The tracker, which observes accesses [default: auto, the best that this kernel supports]
    #[arg(long, value_name = "NAME", value_parser = tracker_names())]
    #[serde(default, deserialize_with = "tracker_name")]
    pub tracker: Option<String>,
    /// NeoProf's registers: a PCI device, as in 0000:00:04.0, or a physical address [default: auto, by its ids]
    #[arg(long, value_name = "PLACE")]
    pub neoprof: Option<OrAuto<DeviceLocation>>,
    /// Nodes of each tier, fastest first, as in fast=0,slow=1 [default: auto]
    #[arg(long, value_name = "TIERS")]
    pub tiers: Option<OrAuto<TierSpec>>,
    /// The most bytes moved per second, in 1024-based units [default: 256MiB/s]
    #[arg(long, value_name = "RATE")]
    pub max_rate: Option<Text<BytesPerSec>>,
    // On a command line a limit belongs to a target, so the verbs define the option.
    #[arg(skip)]
    pub limit: Option<OrAuto<TierLimits>>,
    /// A process is managed once it has this much resident memory [default: 0]
    #[arg(long, value_name = "SIZE")]
    pub min_rss: Option<Text<Bytes>>,
    /// Time between ticks during activity [default: 10ms]
    #[arg(long, value_name = "TIME")]
    pub interval: Option<Text<Nanos>>,
    /// Measure loaded latency by a probe if the CPU has no counters for it [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub latency_probe: Option<bool>,
    /// Folder of the journal of changed settings and of the status socket [default: /run/tierline]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

fn policy_names() -> PossibleValuesParser {
    PossibleValuesParser::new(POLICIES.iter().map(|entry| entry.name))
}

fn tracker_names() -> PossibleValuesParser {
    PossibleValuesParser::new([AUTO].into_iter().chain(TRACKERS.iter().map(|entry| entry.name)))
}

fn policy_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let help = || suggest(&name, POLICIES.iter().map(|entry| entry.name));
    match Policy::find(&name) {
        Some(_) => Ok(Some(name)),
        None => Err(D::Error::custom(format!("there is no policy {name:?}; {}", help()))),
    }
}

fn tracker_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let help = || suggest(&name, TRACKERS.iter().map(|entry| entry.name));
    match name == AUTO || TRACKERS.iter().any(|entry| entry.name == name) {
        true => Ok(Some(name)),
        false => Err(D::Error::custom(format!("there is no tracker {name:?}; {}", help()))),
    }
}

impl Layer {
    /// The lowest layer: it has a value for every key.
    pub fn defaults() -> Self {
        let options = ManagerOptions::default();
        Self {
            policy: Some(options.policy),
            knobs: Some(OrAuto(None)),
            tracker: Some(options.tracker.unwrap_or_else(|| AUTO.into())),
            neoprof: Some(OrAuto(options.neoprof)),
            tiers: Some(OrAuto(options.tiers)),
            max_rate: Some(Text(options.max_rate)),
            limit: Some(OrAuto(None)),
            min_rss: Some(Text(Bytes::ZERO)),
            interval: Some(Text(options.interval)),
            latency_probe: Some(options.latency_probe),
            state_dir: Some(options.state_dir),
        }
    }

    /// This layer over `below`.
    pub fn merged_over(self, below: Self) -> Self {
        Self {
            policy: self.policy.or(below.policy),
            knobs: self.knobs.or(below.knobs),
            tracker: self.tracker.or(below.tracker),
            neoprof: self.neoprof.or(below.neoprof),
            tiers: self.tiers.or(below.tiers),
            max_rate: self.max_rate.or(below.max_rate),
            limit: self.limit.or(below.limit),
            min_rss: self.min_rss.or(below.min_rss),
            interval: self.interval.or(below.interval),
            latency_probe: self.latency_probe.or(below.latency_probe),
            state_dir: self.state_dir.or(below.state_dir),
        }
    }

    /// The keys, with this layer's values.
    pub fn table(&self) -> toml::Table {
        toml::Table::try_from(self).unwrap_or_default()
    }

    /// The limits of tenants without their own.
    pub fn limits(&self) -> TierLimits {
        self.limit.clone().and_then(|limits| limits.0).unwrap_or_default()
    }

    /// The manager's options, and the smallest process to manage.
    ///
    /// # Errors
    /// `Error::Input` if a value cannot be used.
    pub fn options(self, dry_run: bool) -> Result<(ManagerOptions, Bytes)> {
        let full = self.merged_over(Self::defaults());
        let base = ManagerOptions::default();
        let interval = full.interval.map_or(base.interval, |value| value.0);
        if interval < SHORTEST_INTERVAL {
            let why = format!("the shortest is {SHORTEST_INTERVAL}");
            return Err(Error::Input { what: "interval", found: interval.to_string(), why });
        }
        let options = ManagerOptions {
            policy: full.policy.unwrap_or(base.policy),
            knobs: full.knobs.and_then(|value| value.0).map_or(base.knobs, |knobs| knobs.0),
            tracker: full.tracker.filter(|name| name != AUTO),
            neoprof: full.neoprof.and_then(|value| value.0),
            tiers: full.tiers.and_then(|value| value.0),
            max_rate: full.max_rate.map_or(base.max_rate, |value| value.0),
            interval,
            latency_probe: full.latency_probe.unwrap_or(base.latency_probe),
            state_dir: full.state_dir.map_or(base.state_dir, |dir| {
                // The manager may be queried from another working folder.
                std::path::absolute(&dir).unwrap_or(dir)
            }),
            dry_run,
        };
        Ok((options, full.min_rss.map_or(Bytes::ZERO, |value| value.0)))
    }
}

/// Layers with their sources, lowest first.
pub struct Stack(pub Vec<(String, Layer)>);

impl Stack {
    /// Merges the layers.
    pub fn flatten(self) -> Layer {
        self.0.into_iter().fold(Layer::default(), |below, (_, layer)| layer.merged_over(below))
    }

    /// Every key with its value and the name of the layer that sets it.
    pub fn resolved(&self) -> Vec<(String, toml::Value, &str)> {
        let mut settled: Vec<(String, toml::Value, &str)> = Vec::new();
        for (source, layer) in &self.0 {
            for (key, value) in layer.table() {
                settled.retain(|(known, ..)| *known != key);
                settled.push((key, value, source));
            }
        }
        settled.sort_by(|a, b| a.0.cmp(&b.0));
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::TextForm;

    #[test]
    fn the_higher_layer_overrides_the_lower_key_by_key() {
        let layer = |text: &str| toml::from_str::<Layer>(text).expect("a layer");
        let stack = Stack(vec![
            ("defaults".into(), Layer::defaults()),
            ("file".into(), layer("policy = \"hold\"\nmax_rate = \"1GB/s\"")),
            ("flags".into(), layer("max_rate = \"64MB/s\"\nlimit = \"fast=1G\"")),
        ]);
        let source = |key: &str| {
            stack.resolved().into_iter().find(|(k, ..)| k == key).map(|(.., s)| s.to_string())
        };
        assert_eq!(source("policy").as_deref(), Some("file"));
        assert_eq!(source("max_rate").as_deref(), Some("flags"));
        assert_eq!(source("interval").as_deref(), Some("defaults"));
        let flat = stack.flatten();
        assert_eq!(flat.limits().to_text(), "fast=1GiB");
        let (options, _) = flat.options(false).expect("options");
        assert_eq!(options.policy, "hold");
        assert_eq!(options.max_rate, BytesPerSec(64 << 20));
        assert_eq!(options.tracker, None);
    }

    #[test]
    fn the_defaults_are_those_of_the_manager() {
        let (options, min_rss) = Layer::default().options(false).expect("options");
        assert_eq!(format!("{options:?}"), format!("{:?}", ManagerOptions::default()));
        assert_eq!(min_rss, Bytes::ZERO);
        assert_eq!(Layer::defaults().table().len(), 11, "a key has no default");
    }

    #[test]
    fn the_example_shows_every_key_with_its_default() {
        let example = include_str!("../../tierline.example.toml");
        assert_eq!(toml::from_str::<Layer>(example).expect("as shipped"), Layer::default());
        let open: String = example
            .lines()
            .map(|l| {
                l.strip_prefix("#").filter(|l| !l.starts_with(' ')).unwrap_or("").to_string() + "\n"
            })
            .collect();
        assert_eq!(toml::from_str::<Layer>(&open).expect("all keys set"), Layer::defaults());
    }

    #[test]
    fn an_interval_that_is_too_short_is_refused() {
        let layer = Layer { interval: Some(Text(Nanos(10))), ..Layer::default() };
        assert!(layer.options(false).is_err_and(|error| error.to_string().contains("shortest")));
    }
}
