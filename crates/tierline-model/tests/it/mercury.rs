// SPDX-License-Identifier: Apache-2.0
//! Mercury's machine: the effect of slow memory on programs that do not use it.

use tierline_model::load::{Class, Loads, PerTier, solve};
use tierline_model::machine::Machine;
use tierline_model::machine::list::MachineEntry;

/// M-F2: a latency-sensitive program in local memory, and a bandwidth-intensive one on most cores with a share
/// of its memory on CXL. Returns the first program's read latency, including the shared queue.
fn latency_of_local_reads(machine: &Machine, on_cxl: f64) -> f64 {
    let (mut local, mut mixed) = (PerTier::default(), PerTier::default());
    local[0] = 1.0;
    (mixed[0], mixed[1]) = (1.0 - on_cxl, on_cxl);
    let cores = machine.cores;
    let hungry = Class::program(90.0 * cores.in_flight_stream, 0.0, mixed, 0.0);
    let sensitive = Class::program(2.0 * cores.in_flight_random, 0.0, local, 0.0);
    let mut loads = Loads::default();
    solve(&machine.network(), &[sensitive, hungry], &mut loads);
    loads.latency_ns[0] + loads.wait_ns
}

fn curve(machine: &Machine) -> Vec<f64> {
    (0..=10).map(|tenths| latency_of_local_reads(machine, f64::from(tenths) / 10.0)).collect()
}

#[test]
fn local_latency_first_falls_then_rises_and_is_worst_with_all_on_cxl() {
    let machine = MachineEntry::find("mercury-genoa-astera").unwrap().machine().unwrap();
    let latency = curve(&machine);
    println!("{latency:.0?}");
    let least = latency.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least < latency[0] && latency[0] < latency[10], "{latency:?}");
}

/// Without the shared queue the curve cannot rise again.
#[test]
fn without_the_shared_queue_slow_memory_delays_no_other_program() {
    let mut machine = MachineEntry::find("mercury-genoa-astera").unwrap().machine().unwrap();
    machine.shared_queue = None;
    let latency = curve(&machine);
    assert!(latency.windows(2).all(|pair| pair[1] <= pair[0] * 1.001), "{latency:?}");
}
