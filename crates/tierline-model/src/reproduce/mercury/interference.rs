// SPDX-License-Identifier: Apache-2.0
//! Figures 2, 4, 6, 7 and 12: traffic that slows other programs down, in the same tier and in another.

use super::setup::{LLAMA_CORES, REDIS_COMPUTES, genoa, late_throughput, series, steady, xeon};
use crate::reproduce::Experiment;
use crate::reproduce::lab::Lab;
use crate::reproduce::row::{Found, Kind, ORDER, ROW, Row, Test};

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "M-F2",
        title: "as the other program's CXL share grows, latency falls, then rises: all local, least, all on CXL",
        source: "Mercury, figure 2",
        unit: "ns",
        find: Some(|lab| {
            let ns: Vec<f64> = TENTHS.map(|x| latency(lab, &beside(1.0, 1.0 - x))).into();
            let least = ns.iter().copied().fold(f64::INFINITY, f64::min);
            let [first, last] = [ns[0], ns[ns.len() - 1]];
            let worst = ns.iter().all(|ns| *ns <= last);
            Found { holds: least < first && first < last && worst, ours: vec![first, least, last] }
        }),
        ..ORDER
    },
    Row {
        id: "M-F4",
        title: "moving the latency-sensitive program's memory to CXL increases its latency: all local, half, all on CXL",
        source: "Mercury, figure 4",
        unit: "ns",
        find: Some(|lab| {
            let ours = [1.0, 0.5, 0.0].map(|local| latency(lab, &beside(local, 1.0))).to_vec();
            Found { holds: ours.is_sorted(), ours }
        }),
        ..ORDER
    },
    Row {
        id: "M-F6",
        title: "worst slowdown by a background job: in the same tier, in another tier",
        source: "Mercury, figure 6",
        published: &[50.0, 32.0],
        unit: "%",
        kinds: &[Kind::Predicted, Kind::Fitted],
        find: Some(|lab| {
            let alone = placed(0, 0);
            let rate = |of: &Experiment| late_throughput(lab, of, "front");
            let loss = |tier| 100.0 * (1.0 - rate(&placed(LLAMA_CORES, tier)) / rate(&alone));
            vec![loss(0), loss(1)].into()
        }),
        note: "the shared queue is fitted to the second figure; the first is the check",
        ..ROW
    },
    Row {
        id: "M-F7",
        title: "TPP does not react, Colloid moves Redis: Redis' local share in the second request, TPP and Colloid",
        source: "Mercury, figure 7",
        unit: "%",
        find: Some(|lab| {
            let share = |policy| {
                let of = requests().without_targets(policy);
                let late = series(lab, &of, "redis").into_iter().rfind(|row| row.0 < 300.0);
                100.0
                    * late.map_or(0.0, |(_, redis)| {
                        let used = |at: usize| {
                            redis.used_bytes.get(at).map_or(0.0, |b| super::setup::gib(*b))
                        };
                        used(0) / (used(0) + used(1)).max(1e-9)
                    })
            };
            let ours = vec![share("tpp"), share("tpp+colloid")];
            Found { holds: ours[0] > 99.0 && ours[1] < 95.0, ours }
        }),
        note: "Colloid moves nothing here: under llama.cpp local memory has 171 ns, and the slow socket 230 ns without load",
        ..ORDER
    },
    Row {
        id: "M-F12",
        title: "ML under bandwidth interference: improvement over TPP, up to",
        source: "Mercury, figure 12",
        published: &[1.4],
        unit: "x",
        test: Test::Gain,
        find: Some(|lab| {
            let gain = |program: &&str| {
                let rate = |of: &Experiment| late_throughput(lab, of, "front");
                let of = interfered(program);
                rate(&of) / rate(&of.without_targets("tpp"))
            };
            let most = ["service:set=20GiB,threads=8", "service:set=20GiB,threads=4,stream=1"];
            vec![most.iter().map(gain).fold(0.0, f64::max)].into()
        }),
        note: "two programs stand for it, one that reads at random and one in sequence; the target, 10 % above alone, is ours",
        ..ROW
    },
];

/// CXL shares of figure 2.
const TENTHS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// The two micro-benchmarks with these shares of their memory local (2.2.1): random reads of 4 GB, and streams on
/// 90 cores of 128 MB each.
fn beside(sensitive: f64, intensive: f64) -> Experiment {
    genoa()
        .tenant("ls", "service:set=4GiB,threads=1")
        .with("hot_share_fast", sensitive)
        .tenant("bi", "service:set=11520MiB,threads=90,stream=1")
        .with("hot_share_fast", intensive)
}

fn latency(lab: &Lab, of: &Experiment) -> f64 {
    steady(lab, of, "ls").latency_ns.unwrap_or(1.0)
}

/// A program in local memory, beside llama.cpp on that many cores in a tier.
fn placed(cores: u8, tier: u8) -> Experiment {
    let front = xeon("hold", 2, 512).tenant("front", "service:set=20GiB,threads=8");
    match cores {
        0 => front,
        _ => front
            .program(&format!("antagonist:buffer=40GiB,writes=0,tier={tier}"))
            .with("intensity", f64::from(cores) / 5.0),
    }
}

/// A program beside llama.cpp, all of it in local memory at first (500 GB, MERC).
fn interfered(program: &str) -> Experiment {
    let llama = format!("service:set=40GiB,stream=1,threads={LLAMA_CORES}");
    let slo = if program.contains("stream") { "55000000000B/s" } else { "83ns" };
    xeon("tpp", 300, 500)
        .tenant("front", program)
        .needs(2, slo)
        .tenant("llama", &llama)
        .needs(1, "70000000000B/s")
}

/// Figures 7, 14 and 15: Redis and two requests to llama.cpp, of 100 s each with 100 s in between; all memory
/// fits.
pub fn requests() -> Experiment {
    let llama = format!("service:set=40GiB,stream=1,threads={LLAMA_CORES},busy=100s,calm=100s");
    xeon("tpp", 300, 500)
        .tenant("redis", &format!("service:set=40GiB,threads=8,compute={REDIS_COMPUTES}"))
        .needs(2, "83ns")
        .tenant("llama", &llama)
        .needs(1, super::setup::LLAMA_SLO)
}
