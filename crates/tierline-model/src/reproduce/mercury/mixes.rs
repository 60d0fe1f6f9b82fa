// SPDX-License-Identifier: Apache-2.0
//! Twenty mixes of programs under five managers: ten after Mercury's experiments, ten of our own.
//!
//! Targets follow one rule: a latency target is 1.5 times the unloaded latency of local memory, a bandwidth target
//! is Mercury's 70 GB/s. The first program of a mix is the most important. All of it is ours.

use super::setup::xeon;
use crate::reproduce::Experiment;
use crate::reproduce::lab::Lab;
use crate::reproduce::tables::Table;

/// 1.5 times 70 ns.
const LATENCY: &str = "105ns";
/// Mercury's target for llama.cpp.
const BANDWIDTH: &str = super::setup::LLAMA_SLO;
/// Simulated time of each run; figures are means of all of it.
const SECONDS: u16 = 200;

/// Programs that run together, the most important first: name, program, target or "" for none.
struct Mix {
    name: &'static str,
    fast_gib: u64,
    programs: &'static [[&'static str; 3]],
}

const VECTORDB: [&str; 3] = ["vectordb", "service:set=20GiB,skew=0.99,threads=4", LATENCY];
const LLAMA: [&str; 3] = ["llama", "service:set=40GiB,stream=1,threads=16", BANDWIDTH];
const REQUESTS: [&str; 3] =
    ["llama", "service:set=40GiB,stream=1,threads=16,busy=50s,calm=50s", BANDWIDTH];

/// Figures 5 and 11 with a program for each of seven categories; figures 12, 13 and 14.
const PAPER: [Mix; 10] = [
    Mix {
        name: "database beside VectorDB",
        fast_gib: 20,
        programs: &[["front", "scan:set=20GiB,threads=2", LATENCY], VECTORDB],
    },
    Mix {
        name: "key-value store beside VectorDB",
        fast_gib: 20,
        programs: &[["front", "kv:set=20GiB,threads=4", LATENCY], VECTORDB],
    },
    Mix {
        name: "graph beside VectorDB",
        fast_gib: 20,
        programs: &[
            ["front", "graph:set=20GiB,hubs=1GiB,vertices=4GiB,threads=4,build=10s", LATENCY],
            VECTORDB,
        ],
    },
    Mix {
        name: "machine learning beside VectorDB",
        fast_gib: 20,
        programs: &[["front", "service:set=20GiB,skew=0.6,threads=8", LATENCY], VECTORDB],
    },
    Mix {
        name: "SPEC beside VectorDB",
        fast_gib: 20,
        programs: &[["front", "xsbench:set=20GiB,index=2GiB,threads=4", LATENCY], VECTORDB],
    },
    Mix {
        name: "Spark beside VectorDB",
        fast_gib: 20,
        programs: &[["front", "gups:set=20GiB,hot=6GiB,threads=4", LATENCY], VECTORDB],
    },
    Mix {
        name: "web beside VectorDB",
        fast_gib: 20,
        programs: &[
            [
                "front",
                "service:set=20GiB,skew=0.99,threads=4,busy=20s,calm=20s,calm_load=0.3",
                LATENCY,
            ],
            VECTORDB,
        ],
    },
    Mix {
        name: "machine learning beside llama.cpp",
        fast_gib: 500,
        programs: &[["front", "service:set=20GiB,threads=8", LATENCY], LLAMA],
    },
    Mix {
        name: "VectorDB, Redis, llama.cpp",
        fast_gib: 40,
        programs: &[
            ["vectordb", "service:set=20GiB,threads=2", "180ns"],
            ["redis", "service:set=40GiB,threads=6", "200ns"],
            LLAMA,
        ],
    },
    Mix {
        name: "Redis beside requests to llama.cpp",
        fast_gib: 500,
        programs: &[["redis", "service:set=40GiB,threads=8", LATENCY], REQUESTS],
    },
];

const OURS: [Mix; 10] = [
    Mix {
        name: "two servers and a hog",
        fast_gib: 30,
        programs: &[
            ["a", "service:set=15GiB,skew=0.99,threads=4", LATENCY],
            ["b", "service:set=15GiB,skew=0.8,threads=4", LATENCY],
            ["hog", "service:set=30GiB,stream=1,threads=12", "40000000000B/s"],
        ],
    },
    Mix {
        name: "key-value store, GUPS and a scan",
        fast_gib: 24,
        programs: &[
            ["kv", "kv:set=30GiB,threads=6", LATENCY],
            ["gups", "gups:set=24GiB,hot=6GiB,threads=4", LATENCY],
            ["scan", "scan:set=30GiB,threads=2", ""],
        ],
    },
    Mix {
        name: "three servers without targets",
        fast_gib: 24,
        programs: &[
            ["a", "service:set=20GiB,skew=0.99,threads=2", ""],
            ["b", "service:set=20GiB,skew=0.99,threads=4", ""],
            ["c", "service:set=20GiB,skew=0.99,threads=8", ""],
        ],
    },
    Mix {
        name: "a cold server above two hot ones",
        fast_gib: 24,
        programs: &[
            ["cold", "service:set=16GiB,skew=0.9,threads=1", LATENCY],
            ["warm", "service:set=16GiB,skew=0.9,threads=6", LATENCY],
            ["hot", "service:set=16GiB,skew=0.9,threads=12", LATENCY],
        ],
    },
    Mix {
        name: "two inference jobs and Redis",
        fast_gib: 60,
        programs: &[
            ["redis", "service:set=20GiB,threads=6", LATENCY],
            ["one", "service:set=30GiB,stream=1,threads=10", "40000000000B/s"],
            ["two", "service:set=30GiB,stream=1,threads=10", "30000000000B/s"],
        ],
    },
    Mix {
        name: "waves, lookups and a scan",
        fast_gib: 20,
        programs: &[
            ["waves", "service:set=20GiB,skew=0.9,threads=8,busy=15s,calm=15s", LATENCY],
            ["lookups", "xsbench:set=30GiB,index=3GiB,threads=4", LATENCY],
            ["scan", "scan:set=20GiB,threads=2", ""],
        ],
    },
    Mix {
        name: "key-value store, training and a graph",
        fast_gib: 24,
        programs: &[
            ["kv", "kv:set=30GiB,threads=4", LATENCY],
            ["training", "liblinear:set=30GiB,active=6GiB,threads=4", LATENCY],
            ["graph", "graph:set=20GiB,hubs=1GiB,vertices=4GiB,threads=4,build=10s", LATENCY],
        ],
    },
    Mix {
        name: "one grows beside another",
        fast_gib: 20,
        programs: &[
            [
                "grows",
                "service:set=20GiB,threads=4,start_set=5GiB,grow_at=50s,growth=256MiB/s",
                LATENCY,
            ],
            ["other", "service:set=30GiB,skew=0.99,threads=4", LATENCY],
        ],
    },
    Mix {
        name: "GUPS whose hot set jumps beside a server",
        fast_gib: 20,
        programs: &[
            ["server", "service:set=20GiB,skew=0.99,threads=4", LATENCY],
            ["gups", "gups:set=30GiB,hot=6GiB,threads=4,jump=50s", ""],
        ],
    },
    Mix {
        name: "six small servers",
        fast_gib: 20,
        programs: &[
            ["a", "service:set=8GiB,skew=0.9,threads=1", LATENCY],
            ["b", "service:set=8GiB,skew=0.9,threads=2", LATENCY],
            ["c", "service:set=8GiB,skew=0.9,threads=3", LATENCY],
            ["d", "service:set=8GiB,skew=0.9,threads=4", ""],
            ["e", "service:set=8GiB,skew=0.9,threads=5", ""],
            ["f", "service:set=8GiB,skew=0.9,threads=6", ""],
        ],
    },
];

/// A manager: its name, and the experiment of a mix under it.
type Manager = (&'static str, fn(&Experiment) -> Experiment);

const MANAGERS: [Manager; 5] = [
    ("QoS + default", |mix| mix.ours()),
    ("QoS + TPP", Experiment::clone),
    ("TPP", |mix| mix.without_targets("tpp")),
    ("Colloid", |mix| mix.without_targets("hemem+colloid")),
    ("default", |mix| mix.without_targets("tierline")),
];

impl Mix {
    /// Under TPP, with targets.
    fn experiment(&self) -> Experiment {
        let mut experiment = xeon("tpp", SECONDS, self.fast_gib);
        for (priority, [name, program, slo]) in (1..).zip(self.programs.iter().rev()) {
            experiment = experiment.tenant(name, program).but(|scenario| {
                if let Some(tenant) = scenario.tenant.last_mut() {
                    tenant.priority = Some(priority);
                    tenant.slo = (!slo.is_empty()).then(|| (*slo).into());
                }
            });
        }
        experiment
    }
}

/// Both sets.
pub fn tables(lab: &Lab) -> Vec<Table> {
    let about = "Weighted speed-up, the sum of all programs' progress relative to alone in local memory, and the \
                 slowdown of the slowest program, of runs of 200 s from a cold start.";
    [("Mixes after Mercury's experiments", &PAPER), ("Mixes of our own", &OURS)]
        .map(|(title, mixes)| Table { title, about, lines: lines(lab, mixes) })
        .into()
}

fn lines(lab: &Lab, mixes: &[Mix]) -> Vec<Vec<String>> {
    let mut lines = vec![vec!["mix".to_owned(), "programs".to_owned()]];
    lines[0].extend(MANAGERS.map(|(name, _)| name.to_owned()));
    let mut totals = [[0.0f64; 2]; MANAGERS.len()];
    let cell = |[speedup, slowdown]: [f64; 2]| format!("{speedup:.2}, {slowdown:.2}x");
    for mix in mixes {
        let mut line = vec![mix.name.to_owned(), mix.programs.len().to_string()];
        for ((_, managed), total) in MANAGERS.iter().zip(&mut totals) {
            let means = &lab.report(&managed(&mix.experiment())).overall;
            let found = [means.weighted_speedup, means.worst_slowdown.unwrap_or(1.0)];
            *total = [total[0] + found[0], total[1].max(found[1])];
            line.push(cell(found));
        }
        lines.push(line);
    }
    let programs: usize = mixes.iter().map(|mix| mix.programs.len()).sum();
    let mut line = vec!["sum, worst".to_owned(), programs.to_string()];
    line.extend(totals.map(cell));
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::run;

    #[test]
    fn every_mix_is_valid_under_every_manager() {
        assert_eq!((PAPER.len(), OURS.len()), (10, 10));
        for mix in PAPER.iter().chain(&OURS) {
            for (name, managed) in MANAGERS {
                let scenario = managed(&mix.experiment()).scenario().unwrap();
                let policy = scenario.policy_set().unwrap();
                let qos = scenario.qos(policy.as_ref()).unwrap();
                assert_eq!(qos.is_empty(), !name.starts_with("QoS"), "{}, {name}", mix.name);
            }
        }
    }

    #[test]
    #[ignore = "minutes of CPU time, optimised: ./test --long runs it"]
    fn hour_long_targets_under_the_default_policy_are_ahead_of_all_others() {
        for mixes in [&PAPER, &OURS] {
            let found = MANAGERS.map(|(name, managed)| {
                let all = mixes.iter().map(|mix| managed(&mix.experiment()).scenario().unwrap());
                let means: Vec<_> = all.map(|scenario| run(&scenario).unwrap().overall).collect();
                let sum: f64 = means.iter().map(|means| means.weighted_speedup).sum();
                let worst = means.iter().filter_map(|means| means.worst_slowdown);
                (name, sum, worst.fold(1.0, f64::max))
            });
            let (_, sum, worst) = found[0];
            for (name, other_sum, other_worst) in &found[1..] {
                assert!(sum > *other_sum && worst < *other_worst, "{name}: {found:?}");
            }
        }
    }
}
