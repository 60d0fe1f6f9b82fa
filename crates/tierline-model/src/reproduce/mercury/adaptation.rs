// SPDX-License-Identifier: Apache-2.0
//! Figures 14 and 15, and the long experiment (5.6): what changes while programs run.

use super::interference::requests;
use super::setup::{LLAMA_SLO, REDIS_COMPUTES, series, throughput, xeon};
use crate::reproduce::Experiment;
use crate::reproduce::row::{Found, ORDER, ROW, Row, Test};

/// Cores of llama.cpp in the long experiment, in which it takes "full bandwidth capacity": all but those of Redis.
const ALL_OTHER_CORES: u8 = 26;

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "M-F14",
        title: "Redis throughput over TPP, over Colloid",
        source: "Mercury, figure 14",
        published: &[1.149, 1.203],
        unit: "x",
        test: Test::Gain,
        find: Some(|lab| {
            let rate = |of: &Experiment| throughput(lab, of, "redis");
            let mercury = rate(&requests());
            let gain = |policy| mercury / rate(&requests().without_targets(policy));
            vec![gain("tpp"), gain("tpp+colloid")].into()
        }),
        note: "Redis' target is not published: 83 ns is a tenth above its latency alone. It computes 366 ns per access, from figure 3 of NeoMem",
        ..ROW
    },
    Row {
        id: "M-F15",
        title: "llama above Redis: share of its requests in which llama has 70 GB/s; Redis' worst latency over its target",
        source: "Mercury, figure 15",
        unit: "%; x",
        find: Some(|lab| {
            let of = requests().but(|scenario| scenario.tenant[1].priority = Some(3));
            let busy = |row: &&(f64, _)| row.0 % 200.0 > 1.0 && row.0 % 200.0 < 100.0;
            let llama = series(lab, &of, "llama");
            let busy: Vec<f64> =
                llama.iter().filter(busy).map(|row| row.1.bytes_per_second).collect();
            let held = share(busy.iter().map(|rate| *rate >= 70e9 * 0.98));
            let redis = series(lab, &of, "redis");
            let worst = redis.iter().filter_map(|row| row.1.latency_ns).fold(0.0, f64::max) / 83.0;
            Found { holds: held >= 0.99 && worst > 1.1, ours: vec![100.0 * held, worst] }
        }),
        ..ORDER
    },
    Row {
        id: "M-S562",
        title: "time in which Redis meets its target, over TPP; throughput",
        source: "Mercury, 5.6.2",
        published: &[8.4, 33.21],
        unit: "x; %",
        find: Some(|lab| {
            let (mercury, tpp) = (long(), long().without_targets("tpp"));
            let met = |of: &Experiment| {
                let rows = series(lab, of, "redis");
                share(rows.iter().map(|row| row.1.latency_ns.is_some_and(|ns| ns <= 200.0 * 1.02)))
            };
            let rate = |of: &Experiment| throughput(lab, of, "redis");
            let longer = met(&mercury) / met(&tpp).max(1e-3);
            vec![longer, 100.0 * (rate(&mercury) / rate(&tpp) - 1.0)].into()
        }),
        note: "how much the load of Redis grows is not published: its memory doubles within 500 s from 1100 s on. All its memory is equally hot, so a fifth of it in local memory meets the target, under TPP too",
        ..ROW
    },
];

fn share(all: impl ExactSizeIterator<Item = bool>) -> f64 {
    let count = u32::try_from(all.len().max(1)).unwrap_or(u32::MAX);
    let met = u32::try_from(all.filter(|met| *met).count()).unwrap_or(u32::MAX);
    f64::from(met) / f64::from(count)
}

/// The long experiment: Redis (30 GB) and llama.cpp (40 GB), which takes all bandwidth, on 70 GB of local memory;
/// after 1100 s VectorDB (40 GB) takes the place of llama.cpp, and Redis grows.
pub fn long() -> Experiment {
    let llama = format!("service:set=40GiB,stream=1,threads={ALL_OTHER_CORES},stop=1100s");
    let grows = format!(
        "service:set=60GiB,threads=2,start_set=30GiB,grow_at=1100s,growth=62MiB/s,compute={REDIS_COMPUTES}"
    );
    xeon("tpp", 2_000, 70)
        .tenant("redis", &grows)
        .needs(3, "200ns")
        .tenant("llama", &llama)
        .needs(2, LLAMA_SLO)
        .tenant("vectordb", "service:set=40GiB,threads=8,start=1100s")
        .needs(1, "180ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::lab::Lab;

    #[test]
    fn a_share_counts_what_is_met() {
        assert!((share([true, false, true, true].into_iter()) - 0.75).abs() < 1e-9);
        assert_eq!(share([].into_iter()), 0.0);
    }

    /// Baselines have the same programs and no targets.
    #[test]
    fn a_baseline_differs_only_in_policy_and_targets() {
        let (mercury, tpp) = (long(), long().without_targets("tpp+colloid"));
        assert_eq!(mercury.scenario.workload, tpp.scenario.workload);
        assert!(tpp.scenario.tenant.iter().all(|tenant| tenant.priority.is_none()));
        assert_eq!(
            Lab::default().complete(|_| tpp.scenario.policy.clone()).unwrap(),
            "tpp+colloid"
        );
    }
}
