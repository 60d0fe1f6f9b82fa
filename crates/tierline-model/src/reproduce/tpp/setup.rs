// SPDX-License-Identifier: Apache-2.0
//! TPP's set-ups as scenarios (ASPLOS'23, 6): a program, how much memory is local, a policy, and one of its knobs.

use tierline_core::unit::{BytesPerSec, Nanos};
use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::machine::list::MachineEntry;
use crate::machine::{Costs, Machine};
use crate::scenario::Scenario;
pub use crate::workload::datacenter::App;
use crate::workload::list::written;

/// How much of 96 GiB is local.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Local {
    /// All: the paper's baseline.
    All,
    /// 2:1 with the CXL node (6.1.1).
    TwoThirds,
    /// 1:4 (6.1.2).
    Fifth,
    /// As 2:1, and the CXL node is no memory but a swap device (6.3.2). Programs use 95 to 98 % of the system's
    /// memory (3.2), which then is the local node: they are as much smaller.
    Swap,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The program.
    pub app: App,
    /// How much is local.
    pub local: Local,
    /// The policy.
    pub policy: &'static str,
    /// A switch of it, and whether it is on.
    pub switch: Option<(&'static str, bool)>,
    /// CXL memory's unloaded latency, ns; `None`: the machine's.
    pub cxl_ns: Option<u16>,
    /// How long it runs.
    pub seconds: u16,
}

/// The default kernel's policy.
pub const LINUX: &str = "paging";
/// Loading takes two or three minutes, and hint faults see a page once a minute.
pub const SECONDS: u16 = 600;
/// TMO takes 0.05 % of memory every six seconds at most (TMO, 3.3): 30 % in an hour, and less under pressure.
pub const TMO_SECONDS: u16 = 4 * 3_600;
/// Lines of a base page.
const PAGE_LINES: f64 = 64.0;
/// Between two ticks, and the longest step: what happens takes seconds.
const STEP: Nanos = Nanos::from_millis(50);

impl Run {
    /// A program under a policy.
    pub fn of(app: App, local: Local, policy: &'static str) -> Self {
        Self { app, local, policy, switch: None, cxl_ns: None, seconds: SECONDS }
    }

    /// With a switch of the policy on or off.
    pub fn with(self, switch: &'static str, on: bool) -> Self {
        Self { switch: Some((switch, on)), ..self }
    }

    /// For as long as TMO takes to take all that it can.
    pub fn for_hours(self) -> Self {
        Self { seconds: TMO_SECONDS, ..self }
    }

    /// The same with all memory local.
    pub fn baseline(self) -> Self {
        Self::of(self.app, Local::All, LINUX)
    }

    pub(in crate::reproduce) fn effort(&self) -> u32 {
        if self.local == Local::All { 100 } else { 1_000 }
    }

    /// The scenario.
    ///
    /// # Errors
    /// Where there is no such machine or policy.
    pub fn scenario(&self) -> Result<Scenario> {
        let app = match self.app {
            App::Web1 => "web1",
            App::Cache1 => "cache1",
            App::Cache2 => "cache2",
            App::Warehouse => "warehouse",
        };
        let mut scenario = Scenario {
            machine: "tpp".into(),
            policy: self.policy.into(),
            seconds: f64::from(self.seconds),
            // Nothing but the policies' own limits and the copying threads.
            max_rate: BytesPerSec(10 << 30),
            interval: Some(STEP),
            quantum: STEP,
            // Who faults promotes (5.3).
            synchronous: true,
            workload: vec![written(&format!("datacenter:app={app},scale={}", self.scale()))?],
            ..Scenario::default()
        };
        scenario.machine_text = Some(self.machine(&scenario.machine)?);
        if let Some((switch, on)) = self.switch {
            scenario.policy_knobs.insert(switch.into(), f64::from(u8::from(on)));
        }
        Ok(scenario)
    }

    /// Its memory, against 96 GiB.
    fn scale(&self) -> f64 {
        if self.local == Local::Swap { 64.0 / 96.0 } else { 1.0 }
    }

    /// The machine's file with other sizes, and another latency where wanted.
    fn machine(&self, machine: &str) -> Result<String> {
        let entry = MachineEntry::find(machine)?;
        let wrong = |why: String| Error::Figure { place: entry.name.into(), why };
        let mut file: Table =
            entry.text.parse().map_err(|e: toml::de::Error| wrong(e.to_string()))?;
        let [local, cxl] = match self.local {
            Local::All => ["128GiB", "32GiB"],
            Local::TwoThirds | Local::Swap => ["64GiB", "32GiB"],
            Local::Fifth => ["19660MiB", "78644MiB"],
        };
        let mut set = |tier: usize, key: &str, value: Value| {
            let tiers = file.get_mut("tier").and_then(Value::as_array_mut);
            let at = tiers.and_then(|tiers| tiers.get_mut(tier)?.get_mut(key)?.get_mut("value"));
            at.map(|at| *at = value).ok_or_else(|| wrong(format!("expected tier[{tier}].{key}")))
        };
        set(0, "capacity", local.into())?;
        set(1, "capacity", cxl.into())?;
        if let Some(ns) = self.cxl_ns {
            set(1, "unloaded_ns", i64::from(ns).into())?;
        }
        if self.local == Local::Swap
            && let Some(tiers) = file.get_mut("tier").and_then(Value::as_array_mut)
        {
            tiers.truncate(1);
            let costs = swap_costs(&entry.machine()?);
            file.insert("costs".into(), Value::try_from(costs).map_err(|e| wrong(e.to_string()))?);
        }
        Ok(file.to_string())
    }
}

/// With the slowest tier as the swap device: a page is copied there and back as between tiers, and who needs it
/// back takes a fault as for a new one (4: a major fault, and the whole page is read).
fn swap_costs(machine: &Machine) -> Costs {
    let unloaded_ns = machine.tiers.iter().map(|tier| tier.queue.curve.unloaded_ns);
    let costs = machine.costs;
    let copy_ns = PAGE_LINES * unloaded_ns.sum::<f64>() / costs.copy_in_flight;
    Costs {
        swap_out_ns: costs.move_base_ns + copy_ns,
        swap_in_ns: costs.fault_ns + copy_ns,
        ..costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 64 lines at 81 + 156 ns, 16 in flight, are 948 ns, besides 1.5 us of a move and 2 us of a fault.
    #[test]
    fn swap_in_cxl_memory_costs_a_copy_and_a_fault() {
        let run = Run::of(App::Web1, Local::Swap, LINUX);
        let machine = run.scenario().unwrap().machine().unwrap();
        assert_eq!(machine.tiers.len(), 1, "it is no memory any more");
        assert_eq!([machine.costs.swap_out_ns, machine.costs.swap_in_ns], [2_448.0, 2_948.0]);
        assert_eq!(machine.costs.page_in_ns, Costs::default().page_in_ns, "files are on flash");
    }
}
