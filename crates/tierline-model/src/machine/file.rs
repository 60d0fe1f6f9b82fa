// SPDX-License-Identifier: Apache-2.0
//! The format of a machine file. Every figure is `{ value, source }`; `fitted` lists published rows to which
//! the figure was adjusted. Those rows are not predictions on this machine. Unknown keys are errors.

use serde::{Deserialize, Serialize};
use tierline_core::unit::Bytes;

use super::{Cores, Costs, Machine, MemoryTier, capacity};
use crate::error::{Error, Result};
use crate::load::{Curve, Queue};

/// A figure and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a figure with its source, as in { value = 80, source = \"a data sheet\" }"
)]
pub struct Figure {
    /// The value.
    pub value: f64,
    /// The source: a paper's section, a measurement, a rule of thumb.
    pub source: String,
    /// Rows of the scoreboard to which it was fitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted: Vec<String>,
}

/// A size with its unit, and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a size with its source, as in { value = \"256GiB\", source = \"a data sheet\" }"
)]
pub struct Size {
    /// As in `32GiB`.
    pub value: String,
    /// The source.
    pub source: String,
}

/// A machine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// Description, in one sentence.
    pub about: String,
    /// Its cores.
    pub core: CoreFile,
    /// Reads in flight that the socket can hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_queue: Option<Figure>,
    /// Source of the statement that its slow memory counts accesses (NeoProf); absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neoprof: Option<String>,
    /// Its tiers, fastest first.
    pub tier: Vec<TierFile>,
    /// Costs that differ from the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
}

/// The cores of a machine file; see [`Cores`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of Cores")]
pub struct CoreFile {
    pub count: Figure,
    pub path_ns: Figure,
    pub in_flight_random: Figure,
    pub in_flight_stream: Figure,
    pub stream_think_ns: Figure,
    pub prefetch_gain: Figure,
}

/// A tier of a machine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierFile {
    /// Its name.
    pub name: String,
    /// Its size.
    pub capacity: Size,
    /// `L0`, at the point of measurement.
    pub unloaded_ns: Figure,
    /// `a`; default: equal to `queue_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_ns: Option<Figure>,
    /// `q`.
    pub queue_ns: Figure,
    /// One bus for both directions (DDR, HBM, Optane).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_duplex: Option<HalfDuplexFile>,
    /// One link for each direction (UPI, CXL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_duplex: Option<FullDuplexFile>,
}

/// Three peaks of a half-duplex tier, GB/s (10^9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HalfDuplexFile {
    /// Reads only.
    pub read_gb_per_s: Figure,
    /// Writes only.
    pub write_gb_per_s: Figure,
    /// One read per write.
    pub even_gb_per_s: Figure,
}

/// Two peaks of a full-duplex tier, GB/s (10^9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FullDuplexFile {
    /// One direction alone.
    pub direction_gb_per_s: Figure,
    /// Both directions together.
    pub total_gb_per_s: Figure,
}

impl MachineFile {
    /// Parses a machine file; `name` is the name of the machine, `place` the name of the file.
    ///
    /// # Errors
    /// `Error::File` with the file, line and key.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::file(place, &error))
    }

    /// The described machine.
    ///
    /// # Errors
    /// `Error::Figure` naming the tier and the problem.
    pub fn machine(&self, name: &str, place: &str) -> Result<Machine> {
        let wrong = |why: String| Error::Figure { place: place.into(), why };
        let core = &self.core;
        let machine = Machine {
            name: name.into(),
            about: self.about.clone(),
            tiers: self.tier.iter().map(TierFile::tier).collect::<Result<_, _>>().map_err(wrong)?,
            cores: Cores {
                count: core.count.value,
                path_ns: core.path_ns.value,
                in_flight_random: core.in_flight_random.value,
                in_flight_stream: core.in_flight_stream.value,
                stream_think_ns: core.stream_think_ns.value,
                prefetch_gain: core.prefetch_gain.value,
            },
            shared_queue: self.shared_queue.as_ref().map(|figure| figure.value),
            neoprof: self.neoprof.is_some(),
            costs: self.costs.unwrap_or_default(),
        };
        machine.problem().map_or(Ok(machine), |why| Err(wrong(why)))
    }

    /// All rows to which some figure was fitted, without duplicates.
    pub fn fitted(&self) -> Vec<String> {
        let mut rows: Vec<String> =
            self.figures().into_iter().flat_map(|(_, figure)| figure.fitted.clone()).collect();
        rows.sort();
        rows.dedup();
        rows
    }

    /// Every figure with its key.
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let core = &self.core;
        let mut figures = vec![
            ("core.count".to_string(), &core.count),
            ("core.path_ns".into(), &core.path_ns),
            ("core.in_flight_random".into(), &core.in_flight_random),
            ("core.in_flight_stream".into(), &core.in_flight_stream),
            ("core.stream_think_ns".into(), &core.stream_think_ns),
            ("core.prefetch_gain".into(), &core.prefetch_gain),
        ];
        figures.extend(self.shared_queue.as_ref().map(|figure| ("shared_queue".into(), figure)));
        for tier in &self.tier {
            let mut add =
                |key: &str, figure| figures.push((format!("{}.{key}", tier.name), figure));
            add("unloaded_ns", &tier.unloaded_ns);
            if let Some(figure) = &tier.linear_ns {
                add("linear_ns", figure);
            }
            add("queue_ns", &tier.queue_ns);
            if let Some(half) = &tier.half_duplex {
                add("read_gb_per_s", &half.read_gb_per_s);
                add("write_gb_per_s", &half.write_gb_per_s);
                add("even_gb_per_s", &half.even_gb_per_s);
            }
            if let Some(full) = &tier.full_duplex {
                add("direction_gb_per_s", &full.direction_gb_per_s);
                add("total_gb_per_s", &full.total_gb_per_s);
            }
        }
        figures
    }
}

impl TierFile {
    fn tier(&self) -> Result<MemoryTier, String> {
        let name = &self.name;
        let bytes: Bytes =
            self.capacity.value.parse().map_err(|e| format!("tier {name}: capacity: {e}"))?;
        let half = self.half_duplex.as_ref().map(|half| {
            [&half.read_gb_per_s, &half.write_gb_per_s, &half.even_gb_per_s].map(|f| f.value)
        });
        let full = self
            .full_duplex
            .as_ref()
            .map(|full| [&full.direction_gb_per_s, &full.total_gb_per_s].map(|f| f.value));
        let capacity = capacity(half, full)
            .ok_or_else(|| format!("tier {name}: give either half_duplex or full_duplex"))?;
        let linear_ns = self.linear_ns.as_ref().unwrap_or(&self.queue_ns).value;
        let curve =
            Curve { unloaded_ns: self.unloaded_ns.value, linear_ns, queue_ns: self.queue_ns.value };
        Ok(MemoryTier { name: name.clone(), capacity: bytes, queue: Queue { curve, capacity } })
    }
}
