// SPDX-License-Identifier: Apache-2.0
//! The modelled machines, from outside.

use std::fs;

use crate::machine::Machine;
use crate::{json, output, text};

#[test]
fn one_seed_prints_the_same_bytes_twice() {
    let line =
        "sim --json --seconds 2 --seed 7 --policy hold,tierline --workload gups:set=4GiB,hot=1GiB";
    let first = output(line);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(first.stdout, output(line).stdout);
    let report = json(line);
    assert_eq!(report["schema_version"], 1);
    assert_eq!(report["runs"][1]["policy"], "tierline");
    let throughput = &report["runs"][0]["steady"]["programs"][0]["throughput"];
    assert!(throughput.as_f64().is_some_and(|ops| ops > 1e8), "{throughput}");
    assert_eq!(report["runs"][0]["series"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_nobody_knows_is_named_with_what_was_meant() {
    for (line, hint) in [
        ("sim --machine colloid-ick", "colloid-icx"),
        ("sim --workload gusp", "gups"),
        ("sim --policy teirline", "tierline"),
        ("sim --tracker pebz", "pebs"),
        ("machines show colloid-ic", "colloid-icx"),
    ] {
        let output = output(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let told = text(&output.stderr);
        assert!(told.contains(&format!("did you mean {hint}?")), "{told}");
    }
    let output = output("sim --workload gups:hott=3");
    assert!(text(&output.stderr).contains("hott"), "{}", text(&output.stderr));
}

#[test]
fn every_machine_is_listed_and_its_figures_have_sources() {
    let list = json("machines --json");
    let machines = list["machines"].as_array().expect("machines");
    assert!(machines.len() >= 9);
    for machine in machines {
        let name = machine["name"].as_str().expect("a name");
        let shown = json(&format!("machines show {name} --json"));
        let figures = shown["figures"].as_array().expect("figures");
        assert!(figures.iter().all(|f| f["source"].as_str().is_some_and(|s| !s.is_empty())));
    }
}

#[test]
fn a_machine_is_fitted_to_a_table_and_runs() {
    let machine = Machine::new();
    let (fast, slow, file) =
        (machine.file("mlc.txt"), machine.file("cxl.csv"), machine.file("my.toml"));
    let mlc = " 00000\t259.0\t226000\n 00002\t132.0\t196000\n 00008\t103.0\t134000\n \
        00050\t88.0\t59000\n 00100\t83.0\t25000\n 01000\t79.0\t2900\nALL Reads : 226000\n";
    fs::write(&fast, mlc).expect("a file");
    fs::write(&slow, "gb_per_s,ns\n8.5,109\n21,114\n24.6,119\n26.7,136\n26.8,612\n")
        .expect("a file");
    let line = format!(
        "machines fit --json {} {} --capacity 8G,64G -o {}",
        fast.display(),
        slow.display(),
        file.display()
    );
    let report = json(&line);
    assert!(report["tiers"][0]["mean_error"].as_f64().is_some_and(|e| e < 0.02), "{report}");
    assert!(report["tiers"][1]["mean_error"].as_f64().is_some_and(|e| e < 0.06), "{report}");
    let line = format!(
        "sim --json --machine {} --seconds 1 --workload gups:set=16GiB,hot=4GiB",
        file.display()
    );
    assert_eq!(json(&line)["runs"][0]["steady"]["tiers"][1]["name"], "tier1");
}
