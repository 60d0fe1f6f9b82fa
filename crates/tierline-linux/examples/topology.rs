// SPDX-License-Identifier: Apache-2.0
//! Prints what the library finds on this machine: nodes, tiers, free memory, trackers, findings.

use tierline_core::unit::Bytes;
use tierline_linux::cha::Cha;
use tierline_linux::doctor::examine;
use tierline_linux::journal::Journal;
use tierline_linux::latency_probe::LatencyProbe;
use tierline_linux::root::Root;
use tierline_linux::state_dir::STATE_DIR;
use tierline_linux::telemetry;
use tierline_linux::topology::{TierSpec, Topology};
use tierline_linux::tracker::TRACKERS;

fn main() {
    match Journal::recover(STATE_DIR, &Root::default()) {
        Ok(done) => done.notes().iter().for_each(|line| println!("recovered {line}")),
        Err(error) => eprintln!("Error: {error}"),
    }
    if let Err(error) = show() {
        eprintln!("Error: {error}");
        error.hint().iter().for_each(|hint| eprintln!("Hint: {hint}"));
    }
    for finding in examine(&Root::default()) {
        println!("{:?} {}: {finding}", finding.severity, finding.id);
    }
    for entry in TRACKERS {
        let found = entry.probe(&Root::default());
        println!("tracker {} {}: {}", entry.name, found.available, found.why);
    }
}

fn show() -> tierline_linux::error::Result<()> {
    let root = Root::default();
    let topology = Topology::read(&root)?;
    for node in &topology.nodes {
        println!(
            "node {} {} free {} cpus {:?} tier {:?} {:?} demotes to {:?}",
            node.id.0,
            node.capacity,
            node.free,
            node.cpus,
            node.memory_tier,
            node.access,
            node.demotes_to
        );
    }
    let spec = std::env::args().nth(1).map(|text| text.parse::<TierSpec>()).transpose()?;
    for node in topology.with_memory() {
        match LatencyProbe::new(node.id) {
            Ok(mut probe) => {
                let median = (0..9).map(|_| probe.measure()).next_back().unwrap_or_default();
                println!("node {} latency {median} a load", node.id.0);
            }
            Err(error) => println!("node {}: {error}", node.id.0),
        }
    }
    let tiers = topology.tiers(spec.as_ref())?;
    let memory = telemetry::nodes(&root, &tiers)?;
    for ((id, tier), telemetry) in
        tiers.iter().zip(telemetry::tiers(&tiers, &memory, |_| Bytes::ZERO))
    {
        println!(
            "{id} {} nodes {:?} {} usable {}",
            tier.name, tier.nodes, tier.capacity, telemetry.free
        );
    }
    if let Err(error) = Cha::open(&root, &tiers, &topology) {
        println!("{error}");
    }
    Ok(())
}
