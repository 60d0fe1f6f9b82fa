// SPDX-License-Identifier: Apache-2.0
//! TPP's set-ups (ASPLOS'23, 6): a program, the amount of local memory, and a policy.

use tierline_core::unit::Nanos;
use toml::Value;

use crate::machine::list::MachineEntry;
use crate::machine::{Costs, Machine};
use crate::reproduce::Experiment;
pub use crate::workload::datacenter::App;

/// The local part of 96 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Local {
    /// All: the paper's baseline.
    All,
    /// 2:1 with the CXL node (6.1.1).
    TwoThirds,
    /// 1:4 (6.1.2).
    Fifth,
    /// As 2:1, with the CXL node as a swap device instead of memory (6.3.2). Programs use 95 to 98 % of the system's
    /// memory (3.2), which is then the local node, so they are smaller in proportion.
    Swap,
}

/// The default kernel's policy.
pub const LINUX: &str = "paging";
/// Loading takes two or three minutes, and a pass of hint faults up to a minute.
pub const SECONDS: u16 = 600;
/// TMO takes 0.05 % of memory every six seconds at most (TMO, 3.3): 30 % in an hour, and less under pressure.
pub const TMO_SECONDS: u16 = 4 * 3_600;
/// Lines of a base page.
const PAGE_LINES: f64 = 64.0;
/// Time between two ticks, and the longest step. Changes take seconds.
const STEP: Nanos = Nanos::from_millis(50);

/// A program under a policy.
pub fn run(app: App, local: Local, policy: &str) -> Experiment {
    // Relative to 96 GiB.
    let scale = if local == Local::Swap { 64.0 / 96.0 } else { 1.0 };
    let run = Experiment::new("tpp", policy, SECONDS).but(|scenario| {
        scenario.interval = Some(STEP);
        scenario.quantum = STEP;
    });
    run.program(&format!("datacenter:app={},scale={scale}", app.name())).memory(local)
}

impl Experiment {
    /// On the machine with other sizes, and without its slow tier if that is a swap device.
    fn memory(&self, local: Local) -> Self {
        let [fast, cxl] = match local {
            Local::All => ["128GiB", "32GiB"],
            Local::TwoThirds | Local::Swap => ["64GiB", "32GiB"],
            Local::Fifth => ["19660MiB", "78644MiB"],
        };
        self.but(|scenario| scenario.machine_text = None).machine(|text| {
            text.set(0, "capacity", fast)?;
            text.set(1, "capacity", cxl)?;
            if local == Local::Swap {
                text.keep_tiers(1);
                let costs = swap_costs(&MachineEntry::find(&self.scenario.machine)?.machine()?);
                let costs = Value::try_from(costs).map_err(|error| text.wrong(error.to_string()));
                text.file.insert("costs".into(), costs?);
            }
            Ok(())
        })
    }

    /// With another unloaded latency of CXL memory, ns.
    #[must_use]
    pub fn cxl_ns(&self, ns: u16) -> Self {
        self.machine(|text| text.set(1, "unloaded_ns", i64::from(ns)))
    }

    /// Long enough for TMO to page out all that it can.
    #[must_use]
    pub fn for_hours(&self) -> Self {
        self.lasting(TMO_SECONDS)
    }

    /// The paper's baseline: the default kernel with all memory local.
    #[must_use]
    pub fn baseline(&self) -> Self {
        self.under(LINUX).lasting(SECONDS).memory(Local::All)
    }
}

/// With the slowest tier as swap device: a page is copied out and back as between tiers, and the access that needs it
/// costs a fault as for a new page (4: a major fault, and the whole page is read).
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

    /// By hand: 64 lines at 81 + 156 ns, 16 in flight, take 948 ns; a move adds 1.5 us and a fault 2 us.
    #[test]
    fn swap_in_cxl_memory_costs_a_copy_and_a_fault() {
        let run = run(App::Web1, Local::Swap, LINUX);
        let machine = run.scenario().unwrap().machine().unwrap();
        assert_eq!(machine.tiers.len(), 1, "the CXL node is no longer memory");
        assert_eq!([machine.costs.swap_out_ns, machine.costs.swap_in_ns], [2_448.0, 2_948.0]);
        assert_eq!(machine.costs.page_in_ns, Costs::default().page_in_ns, "files are on flash");
    }
}
