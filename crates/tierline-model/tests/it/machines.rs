// SPDX-License-Identifier: Apache-2.0
//! The machine files: all are valid, name their sources, and reject unknown keys.

use tierline_model::load::{Class, Loads, PerTier, solve};
use tierline_model::machine::file::MachineFile;
use tierline_model::machine::list::MACHINES;

#[test]
fn every_machine_is_valid_and_every_figure_has_a_source() {
    for entry in MACHINES {
        let machine = entry.machine().unwrap_or_else(|error| panic!("{error}"));
        let file = entry.file().unwrap();
        for (key, figure) in file.figures() {
            assert!(figure.source.len() > 5, "{}: {key} has no source", entry.name);
        }
        let text = toml::to_string(&file).unwrap();
        assert_eq!(MachineFile::parse(entry.name, &text).unwrap(), file, "{}", entry.name);
        assert!(machine.describe().len() >= 2);
    }
}

#[test]
fn every_machine_file_is_in_the_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut listed: Vec<String> =
        MACHINES.iter().map(|entry| format!("{}.toml", entry.name)).collect();
    files.sort();
    listed.sort();
    assert_eq!(listed, files);
}

#[test]
fn machines_are_fitted_to_these_published_rows_only() {
    for entry in MACHINES {
        let fitted = entry.file().unwrap().fitted();
        let expected: &[&str] = match entry.name {
            "colloid-icx" => &["C-BW", "C-F1", "C-F2a", "C-F8-mlp"],
            "mercury-xeon" => &["M-F6"],
            _ => &[],
        };
        assert_eq!(fitted, expected, "{}", entry.name);
    }
}

/// A stream on all cores gets most of a tier's capacity, and never more than it.
#[test]
fn every_tier_carries_the_capacity_in_its_file() {
    for entry in MACHINES {
        let machine = entry.machine().unwrap();
        for (t, tier) in machine.tiers.iter().enumerate() {
            let mut shares = PerTier::default();
            shares[t] = 1.0;
            let in_flight = 100.0 * machine.cores.count * machine.cores.in_flight_stream;
            let mut loads = Loads::default();
            solve(&machine.network(), &[Class::program(in_flight, 0.0, shares, 0.0)], &mut loads);
            let reached = loads.reads_per_ns[0] * 64.0 / tier.queue.capacity.gb_per_s(0.0);
            // The socket's shared queue may limit more than the tier.
            let least = if machine.shared_queue.is_some() { 0.5 } else { 0.9 };
            assert!((least..=1.0).contains(&reached), "{} {}: {reached}", entry.name, tier.name);
        }
    }
}

#[test]
fn a_typo_names_the_file_and_the_key() {
    let text = MACHINES[0].text.replace("queue_ns", "queue");
    let error = MachineFile::parse("my.toml", &text).unwrap_err().to_string();
    assert!(error.contains("my.toml") && error.contains("queue"), "{error}");
    let text = MACHINES[0].text.replace("value = 164.6", "value = 900");
    let file = MachineFile::parse("my.toml", &text).unwrap();
    let error = file.machine("my", "my.toml").unwrap_err().to_string();
    assert!(error.contains("my.toml") && error.contains("tier default"), "{error}");
}
