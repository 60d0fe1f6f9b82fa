// SPDX-License-Identifier: Apache-2.0
//! The matrix: the cells in which policies are compared, and the evaluation of their runs.
//!
//! Machines, kinds of workload and ratios are those with which the published systems were evaluated, in all
//! combinations. Sizes are ours, so that a hot set fits into fast memory at some ratios and not at others.

use serde::Serialize;
use tierline_core::policy::{POLICIES, entry::PolicyEntry, entry::Role};

use crate::arithmetic::{geometric_mean, mean};
use crate::cell::{Cell, Ratio};
use crate::compare::{ComparedRun, product};

/// The default policy.
pub const DEFAULT: &str = POLICIES[0].name;

/// The competing policies, and the bounds with which they are compared.
pub fn policies() -> impl Iterator<Item = &'static str> {
    let compared =
        POLICIES.iter().filter(|entry| matches!(entry.role, Role::Rival | Role::Reference));
    compared.map(|entry| entry.name)
}

/// Whether others are compared with a policy that is itself no rival: it knows, or holds, what no real policy can.
pub fn is_reference(policy: &str) -> bool {
    let role = PolicyEntry::find(policy).map(|entry| entry.role);
    matches!(role, Some(Role::Reference | Role::Baseline))
}

/// Machines, and other programs on them: Colloid's machine with its antagonist at four intensities.
pub const MACHINES: &[(&str, &str)] = &[
    ("colloid-icx", ""),
    ("colloid-icx", "+antagonist:intensity=1"),
    ("colloid-icx", "+antagonist:intensity=2"),
    ("colloid-icx", "+antagonist:intensity=3"),
    ("neomem-spr-fpga", ""),
    ("arms-optane", ""),
    ("arms-numa", ""),
    ("mercury-genoa-astera", ""),
    ("hbm-ddr5-cxl", ""),
];

/// Kinds of workload; recordings are added to them.
pub const WORKLOADS: &[&str] = &[
    "gups:set=36GiB,hot=4GiB",
    "gups:set=36GiB,hot=4GiB,jump=30s",
    "kv:set=36GiB,drift=64MiB/s",
    "gups:set=36GiB,hot=4GiB,threads=11+scan:set=24GiB",
    "xsbench:set=36GiB,index=2GiB",
    "liblinear:set=36GiB",
    "latest:set=36GiB,start_set=10GiB,growth=512MiB/s",
    "gups:set=36GiB,hot=4GiB+scan:set=6GiB,start=15s,stop=25s+scan:set=6GiB,start=48s,stop=56s",
];

/// Fast to slow memory.
pub const RATIOS: &[(u32, u32)] = &[(1, 2), (1, 4), (1, 8), (1, 16)];

/// All cells, including these recordings as workloads; otherwise as `like`.
pub fn cells(recordings: &[String], like: &Cell) -> Vec<Cell> {
    let ratios: Vec<Ratio> = RATIOS.iter().copied().map(Ratio::from).collect();
    let named = WORKLOADS.iter().map(|text| (*text).to_string());
    let workloads: Vec<String> = named.chain(recordings.iter().cloned()).collect();
    let with = |&(machine, beside): &(&str, &str)| {
        let workloads: Vec<String> = workloads.iter().map(|w| format!("{w}{beside}")).collect();
        product(&[machine.to_string()], &workloads, &ratios, like)
    };
    MACHINES.iter().flat_map(with).collect()
}

/// Results of one policy over all cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyStanding {
    /// The policy.
    pub policy: String,
    /// Geometric mean of its progress divided by the default policy's.
    pub of_default: f64,
    /// The minimum of these ratios.
    pub least: f64,
    /// Mean share of the possible gain over first touch, of the cells in which there is one.
    pub share_of_gain: Option<f64>,
    /// The worst slowdown of a program in any cell.
    pub worst_slowdown: Option<f64>,
    /// Number of cells in which it is the best policy, without bounds and the oracle.
    pub best_in: usize,
    /// Bytes moved, over all cells.
    pub migrated_bytes: u64,
    /// Base pages that came back soon after a move, over all cells.
    pub ping_pong_pages: u64,
}

/// Result of the default policy in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellResult {
    /// The machine.
    pub machine: String,
    /// The workload, as it was written.
    pub workload: String,
    /// Fast to slow memory.
    pub ratio: Option<String>,
    /// The best other policy, without bounds and the oracle.
    pub rival: String,
    /// The default policy's progress divided by that of the best other policy.
    pub of_rival: f64,
    /// The default policy's progress divided by the bound.
    pub of_bound: Option<f64>,
    /// The shares of the possible gain over first touch of the default policy, and of the best other one.
    pub share_of_gain: Option<[f64; 2]>,
    /// The slowdown of the program that is slowed down most: under the default policy, and the best other one.
    pub worst_slowdown: Option<[f64; 2]>,
    /// The commands that repeat the runs of both.
    pub commands: [String; 2],
}

/// Results of every policy, in the order of the runs.
pub fn standings(entries: &[ComparedRun]) -> Vec<PolicyStanding> {
    let fields = fields(entries);
    let policies = fields.first().map_or(&[][..], |field| field);
    let standing = |at: usize| {
        let of = |field: &&[ComparedRun]| {
            let default = find(field, DEFAULT).map_or(0.0, ComparedRun::score);
            field[at].score() / default
        };
        let ratios: Vec<f64> = fields.iter().map(of).collect();
        let shares: Vec<f64> = fields.iter().filter_map(|field| field[at].share_of_gain).collect();
        let slowdowns = fields.iter().filter_map(|field| field[at].worst_slowdown);
        let policy = policies[at].policy.clone();
        let best =
            |field: &&&[ComparedRun]| rivals(field, None).is_some_and(|r| r.policy == policy);
        PolicyStanding {
            of_default: geometric_mean(&ratios),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            share_of_gain: (!shares.is_empty()).then(|| mean(&shares)),
            worst_slowdown: slowdowns.reduce(f64::max),
            best_in: fields.iter().filter(best).count(),
            migrated_bytes: fields.iter().map(|field| field[at].migrated_bytes).sum(),
            ping_pong_pages: fields.iter().map(|field| field[at].ping_pong_pages).sum(),
            policy,
        }
    };
    (0..policies.len()).map(standing).collect()
}

/// Results of the default policy in every cell.
pub fn held(entries: &[ComparedRun]) -> Vec<CellResult> {
    let one = |field: &[ComparedRun]| {
        let own = find(field, DEFAULT)?;
        let rival = rivals(field, Some(DEFAULT))?;
        Some(CellResult {
            machine: own.machine.clone(),
            workload: own.workload.clone(),
            ratio: own.ratio.clone(),
            rival: rival.policy.clone(),
            of_rival: own.score() / rival.score(),
            of_bound: find(field, "bound").map(|bound| own.score() / bound.score()),
            share_of_gain: own.share_of_gain.zip(rival.share_of_gain).map(<[f64; 2]>::from),
            worst_slowdown: own.worst_slowdown.zip(rival.worst_slowdown).map(<[f64; 2]>::from),
            commands: [own.command.clone(), rival.command.clone()],
        })
    };
    fields(entries).into_iter().filter_map(one).collect()
}

/// The entries grouped by cell.
fn fields(entries: &[ComparedRun]) -> Vec<&[ComparedRun]> {
    let same = |a: &ComparedRun, b: &ComparedRun| {
        (&a.machine, &a.workload, &a.ratio) == (&b.machine, &b.workload, &b.ratio)
    };
    entries.chunk_by(same).collect()
}

fn find<'a>(field: &'a [ComparedRun], policy: &str) -> Option<&'a ComparedRun> {
    field.iter().find(|entry| entry.policy == policy)
}

/// The best entry of a cell, except bounds and `but`.
fn rivals<'a>(field: &'a [ComparedRun], but: Option<&str>) -> Option<&'a ComparedRun> {
    let others =
        field.iter().filter(|e| !is_reference(&e.policy) && Some(e.policy.as_str()) != but);
    others.max_by(|a, b| a.score().total_cmp(&b.score()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::NoFiles;
    use crate::scenario::Scenario;

    fn entry(workload: &str, policy: &str, throughput: f64) -> ComparedRun {
        ComparedRun {
            machine: "m".into(),
            workload: workload.into(),
            ratio: Some("1:2".into()),
            policy: policy.into(),
            seed: 1,
            throughput,
            unit: "ops/s".into(),
            fast_share: 0.5,
            mean_latency_ns: 100.0,
            migrated_bytes: 4096,
            ping_pong_pages: 1,
            recovery_seconds: None,
            relative_to_best: 0.0,
            progress: throughput / 100.0,
            share_of_gain: None,
            weighted_speedup: 0.5,
            worst_slowdown: Some(2.0),
            fingerprint: String::new(),
            command: String::new(),
        }
    }

    #[test]
    fn standings_are_geometric_means_over_the_default_and_the_bound_is_no_rival() {
        let entries = [
            entry("a", DEFAULT, 10.0),
            entry("a", "hemem", 20.0),
            entry("a", "bound", 90.0),
            entry("b", DEFAULT, 10.0),
            entry("b", "hemem", 5.0),
            entry("b", "bound", 10.0),
        ];
        let standings = standings(&entries);
        assert!((standings[1].of_default - 1.0).abs() < 1e-9, "of 2 and 1/2");
        assert_eq!((standings[1].best_in, standings[0].best_in), (1, 1));
        assert_eq!((standings[1].migrated_bytes, standings[1].ping_pong_pages), (8192, 2));
        let held = held(&entries);
        assert_eq!(
            (held[0].rival.as_str(), held[0].of_rival, held[1].of_rival),
            ("hemem", 0.5, 2.0)
        );
        assert_eq!(held[1].of_bound, Some(1.0));
    }

    /// A new policy competes unless its entry says otherwise.
    #[test]
    fn every_rival_of_the_list_is_in_the_matrix() {
        let compared: Vec<&str> = policies().collect();
        assert_eq!(compared[0], DEFAULT);
        for entry in POLICIES {
            let competes = matches!(entry.role, Role::Rival | Role::Reference);
            assert_eq!(compared.contains(&entry.name), competes, "{}", entry.name);
        }
        assert_eq!(compared.iter().filter(|name| is_reference(name)).count(), 3);
    }

    #[test]
    fn every_cell_can_be_made() {
        let cells = cells(&[], &Cell::default());
        assert_eq!(cells.len(), MACHINES.len() * WORKLOADS.len() * RATIOS.len());
        for cell in cells {
            let scenario = cell.scenario(&NoFiles).unwrap();
            assert!(scenario.machine().is_ok() && scenario.arrivals().is_ok());
        }
        for policy in policies() {
            let scenario = Scenario { policy: policy.into(), ..Scenario::default() };
            assert!(scenario.policy().is_ok(), "{policy}");
        }
    }
}
