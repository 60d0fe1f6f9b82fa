// SPDX-License-Identifier: Apache-2.0
//! Colloid's set-ups as scenarios (SOSP'24, 2.1 and 5): what a policy is run with and for how long.

use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::machine::list::MachineEntry;
use crate::scenario::Scenario;
use crate::workload::list::written;

/// The unloaded latency of the alternate tier from a core, ns.
pub const ALTERNATE_NS: u16 = 135;
/// The change of a run that has one.
pub const CHANGE_SECONDS: u16 = 100;
/// As long as nothing moves, the first second is as good as the hundredth.
const STATIC_SECONDS: u16 = 2;

/// What runs beside the antagonist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    /// None: the antagonist is alone.
    Nothing,
    /// GUPS with objects of so many bytes.
    Gups(u16),
    /// GAPBS PageRank on Twitter: the workload `graph`, a third of it in the default tier.
    PageRank,
    /// Silo with YCSB-C: the workload `kv`, a third of it in the default tier.
    Silo,
    /// CacheLib with HeMem's key-value workload: 4 KiB objects, a fifth of them hot.
    CacheLib,
}

/// What changes in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing.
    None,
    /// The hot set is replaced.
    Jump,
    /// The antagonist comes.
    Contention,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    /// The policy.
    pub policy: &'static str,
    /// The program.
    pub app: App,
    /// The antagonist's intensity, 0 to 3.
    pub intensity: u8,
    /// The alternate tier's unloaded latency, ns.
    pub alternate_ns: u16,
    /// What changes.
    pub change: Change,
    /// Tenths of the hot set that are put in the default tier by hand, and stay.
    pub placed: Option<u8>,
    /// Whether pages are base pages.
    pub base_pages: bool,
}

impl Setup {
    /// GUPS under a policy, alone.
    pub fn gups(policy: &'static str) -> Self {
        Self {
            policy,
            app: App::Gups(64),
            intensity: 0,
            alternate_ns: ALTERNATE_NS,
            change: Change::None,
            placed: None,
            base_pages: false,
        }
    }

    /// GUPS with so many tenths of its hot set in the default tier.
    pub fn placed(tenths: u8) -> Self {
        Self { placed: Some(tenths), ..Self::gups("hold") }
    }

    /// Beside an antagonist.
    pub fn beside(self, intensity: u8) -> Self {
        Self { intensity, ..self }
    }

    /// With another program.
    pub fn app(self, app: App) -> Self {
        Self { app, ..self }
    }

    /// With a slower alternate tier.
    pub fn alternate(self, alternate_ns: u16) -> Self {
        Self { alternate_ns, ..self }
    }

    /// With a change.
    pub fn change(self, change: Change) -> Self {
        Self { change, ..self }
    }

    /// Under the same policy with Colloid.
    pub fn with_colloid(self) -> Self {
        let policy = match self.policy {
            "hemem" => "hemem+colloid",
            "memtis" => "memtis+colloid",
            "tpp" => "tpp+colloid",
            other => other,
        };
        Self { policy, ..self }
    }

    fn is_slow(&self) -> bool {
        self.policy.starts_with("tpp")
    }

    /// When it changes: once the system is in its steady state.
    pub fn change_seconds(&self) -> u16 {
        if self.is_slow() { 4 * CHANGE_SECONDS } else { CHANGE_SECONDS }
    }

    /// How long it runs. TPP takes minutes to see all of memory twice.
    pub fn seconds(&self) -> u16 {
        match (self.placed, self.change, self.is_slow()) {
            (Some(_), ..) => STATIC_SECONDS,
            (None, Change::None, false) => 100,
            (None, Change::None, true) => 600,
            (None, _, false) => 2 * CHANGE_SECONDS,
            (None, _, true) => 12 * CHANGE_SECONDS,
        }
    }

    /// Which of two set-ups takes longer to run, roughly.
    pub(super) fn effort(&self) -> u32 {
        u32::from(self.seconds()) * if self.base_pages { 100 } else { 1 }
    }

    /// The scenario.
    ///
    /// # Errors
    /// Where there is no such machine.
    pub fn scenario(&self) -> Result<Scenario> {
        let mut scenario = Scenario {
            policy: self.policy.into(),
            seconds: f64::from(self.seconds()),
            // Nothing but the policies' own limits and the copying threads.
            max_rate: BytesPerSec(10 << 30),
            interval: Some(Nanos::from_millis(10)),
            ..Scenario::default()
        };
        if self.placed.is_some() {
            scenario.tracker = Some("truth".into()); // who placed by hand looks at nothing
        }
        if self.alternate_ns != ALTERNATE_NS {
            scenario.machine_text = Some(slower(&scenario.machine, self.alternate_ns)?);
        }
        scenario.workload = self.antagonists()?;
        if let Some((program, capacity)) = self.program()? {
            scenario.workload.push(program);
            scenario.fast_capacity = capacity;
        }
        Ok(scenario)
    }

    /// The antagonist, whose memory is kept for it until it comes.
    fn antagonists(&self) -> Result<Vec<Table>> {
        let mut antagonist = written("antagonist")?;
        antagonist.insert("intensity".into(), i64::from(self.intensity).into());
        if self.intensity == 0 {
            return Ok(Vec::new());
        }
        if self.change == Change::Contention {
            antagonist.insert("start".into(), format!("{}s", self.change_seconds()).into());
        }
        Ok(vec![antagonist])
    }

    /// The program, and the default tier's size where it is not the machine's.
    fn program(&self) -> Result<Option<(Table, Option<Bytes>)>> {
        let (text, fast_mib) = match self.app {
            App::Nothing => return Ok(None),
            App::Gups(object) => (format!("gups:object={object}B"), None),
            App::PageRank => ("graph:set=37800MiB".into(), Some(12_600)),
            App::Silo => ("kv".into(), Some(20 << 10)),
            App::CacheLib => {
                ("gups:set=71520MiB,hot=14304MiB,object=4160B,updates=0.1".into(), Some(23_840))
            }
        };
        let mut table = written(&text)?;
        if self.base_pages {
            table.insert("pages".into(), "base".into());
        }
        if let Some(tenths) = self.placed {
            table.insert("hot_share_fast".into(), (f64::from(tenths) / 10.0).into());
        }
        if self.change == Change::Jump {
            table.insert("jump".into(), format!("{}s", self.change_seconds()).into());
        }
        Ok(Some((table, fast_mib.map(Bytes::from_mib))))
    }
}

/// The machine's file with a slower alternate tier, as the paper slows the far socket's clock. Its
/// bandwidth is left as it is: by how much that falls was not published.
fn slower(machine: &str, latency_ns: u16) -> Result<String> {
    let entry = MachineEntry::find(machine)?;
    let path_ns = entry.machine()?.cores.path_ns;
    let wrong = |why: String| Error::Figure { place: entry.name.into(), why };
    let mut file: Table = entry.text.parse().map_err(|e: toml::de::Error| wrong(e.to_string()))?;
    let tier = file.get_mut("tier").and_then(|tiers| tiers.as_array_mut()?.get_mut(1));
    let value = tier.and_then(|tier| tier.get_mut("unloaded_ns")?.get_mut("value"));
    let value = value.ok_or_else(|| wrong("expected tier[1].unloaded_ns".into()))?;
    *value = Value::Float(f64::from(latency_ns) - path_ns);
    Ok(file.to_string())
}
