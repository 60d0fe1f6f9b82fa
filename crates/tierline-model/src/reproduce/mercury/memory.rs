// SPDX-License-Identifier: Apache-2.0
//! Figures 1, 5, 10, 11 and 13: how much fast memory each program gets, and what it makes of it.

use super::setup::{
    LLAMA_CORES, LLAMA_SLO, REDIS_COMPUTES, genoa, gib, late_throughput, steady, xeon,
};
use crate::reproduce::Experiment;
use crate::reproduce::lab::Lab;
use crate::reproduce::row::{Found, GIVEN, ORDER, ROW, Row, Test};

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "M-F1a",
        title: "latency-sensitive program: latency with all memory on CXL over all local",
        source: "Mercury, figure 1a",
        published: &[2.0],
        unit: "x",
        find: Some(|lab| {
            let ns = |share| steady(lab, &random(share), "ls").latency_ns.unwrap_or(1.0);
            vec![ns(0.0) / ns(1.0)].into()
        }),
        note: "the latency of CXL in the machine file is twice the local one because of this row",
        ..GIVEN
    },
    Row {
        id: "M-F1b",
        title: "bandwidth-intensive program: bandwidth with all memory on CXL, of all local",
        source: "Mercury, figure 1b",
        published: &[25.0],
        unit: "%",
        find: Some(|lab| {
            let rate = |share| steady(lab, &streaming(share), "bi").bytes_per_second.max(1.0);
            vec![100.0 * rate(0.0) / rate(1.0)].into()
        }),
        note: "the bandwidth of CXL in the machine file is from this row; the socket's shared queue limits local memory",
        test: Test::Points,
        ..GIVEN
    },
    Row {
        id: "M-F5",
        title: "TPP: the program with colder memory loses more, beside VectorDB: a colder one, VectorDB beside a hotter one",
        source: "Mercury, figure 5",
        published: &[],
        unit: "% slower",
        find: Some(|lab| {
            let [cold, hot] =
                [COLDER, HOTTER].map(|threads| contended(threads).without_targets("tpp"));
            let ours = vec![loses(lab, &cold, "front"), loses(lab, &hot, VECTORDB)];
            let others = [loses(lab, &cold, VECTORDB), loses(lab, &hot, "front")];
            Found { holds: ours.iter().zip(others).all(|(loser, winner)| *loser > winner), ours }
        }),
        ..ORDER
    },
    Row {
        id: "M-F10a/b",
        title: "alone, nothing lent: worst error of Redis' latency at 100 to 200 ns, of llama.cpp's bandwidth at 20 to 70 GB/s",
        source: "Mercury, figure 10",
        published: &[],
        unit: "%",
        find: Some(tracking),
        note: "holds if both errors are at most 5 %, and CPU time is limited at 20 and 30 GB/s only",
        ..ORDER
    },
    Row {
        id: "M-F11",
        title: "worst slowdown, TPP and Mercury; the same for VectorDB",
        source: "Mercury, figure 11",
        published: &[29.0, 12.0, 75.0, 14.0],
        unit: "%",
        find: Some(|lab| {
            let worst = |name, of: &dyn Fn(&Experiment) -> Experiment| {
                let all = [COLDER, EQUAL, HOTTER].map(|threads| of(&contended(threads)));
                all.iter().map(|of| loses(lab, of, name)).fold(0.0, f64::max)
            };
            let tpp = |of: &Experiment| of.without_targets("tpp");
            let mercury = Experiment::clone;
            vec![
                worst("front", &tpp),
                worst("front", &mercury),
                worst(VECTORDB, &tpp),
                worst(VECTORDB, &mercury),
            ]
            .into()
        }),
        note: "its 80 programs are three here, with 1, 4 and 12 threads; targets are not published: 12 and 14 % above local memory",
        ..ROW
    },
    Row {
        id: "M-F13",
        title: "memory given: Redis, llama, VectorDB; VectorDB's gain over TPP",
        source: "Mercury, figure 13",
        published: &[10.0, 10.0, 20.0, 53.4],
        unit: "GB; %",
        find: Some(|lab| {
            let (mercury, tpp) = (mixed(), mixed().without_targets("tpp"));
            let given = |name| {
                gib(steady(lab, &mercury, name).used_bytes.first().copied().unwrap_or_default())
            };
            let rate = |of| late_throughput(lab, of, VECTORDB);
            let gain = 100.0 * (rate(&mercury) / rate(&tpp) - 1.0);
            vec![given("redis"), given("llama"), given(VECTORDB), gain].into()
        }),
        note: "targets and priorities are not published: the targets are those of M-S562; VectorDB comes first, as it has all its memory local, then Redis. What is left beyond the needs is lent in this order",
        ..ROW
    },
    Row {
        id: "M-F13-SLO",
        title: "targets met: Mercury, TPP",
        source: "Mercury, figure 13",
        published: &[3.0, 1.0],
        unit: "of 3",
        find: Some(|lab| {
            let met = |of: Experiment| {
                let means = |name| steady(lab, &of, name);
                let latency =
                    |name, most: f64| means(name).latency_ns.is_some_and(|ns| ns <= most * 1.02);
                let met = [
                    latency("redis", 200.0),
                    means("llama").bytes_per_second >= 70e9 * 0.98,
                    latency(VECTORDB, 180.0),
                ];
                met.map(|met| f64::from(u8::from(met))).iter().sum::<f64>()
            };
            vec![met(mixed()), met(mixed().without_targets("tpp"))].into()
        }),
        note: "a target counts as met within 2 %",
        ..ROW
    },
    Row {
        id: "M-PAR",
        title: "adaptation period; degradation threshold; profiling time, at most",
        source: "Mercury, 4",
        published: &[200.0, 10.0, 1.0],
        unit: "ms; %",
        find: Some(|_| {
            use tierline_core::qos::controller::PERIOD;
            use tierline_core::qos::thresholds::DEGRADED;
            // Profiles come from the distribution of accesses: they take no time of the program.
            vec![PERIOD.as_secs_f64() * 1e3, DEGRADED * 100.0, 1.0].into()
        }),
        ..GIVEN
    },
];

const VECTORDB: &str = "vectordb";
/// Threads of a program beside VectorDB, which has [`EQUAL`].
const COLDER: u8 = 1;
const EQUAL: u8 = 4;
const HOTTER: u8 = 12;

fn random(local: f64) -> Experiment {
    genoa().tenant("ls", "service:set=4GiB,threads=1").with("hot_share_fast", local)
}

fn streaming(local: f64) -> Experiment {
    let program = "service:set=12GiB,threads=96,stream=1,updates=1";
    genoa().tenant("bi", program).with("hot_share_fast", local)
}

/// VectorDB beside another program, each with 20 GB, on 20 GB of local memory (MERC). Popularity follows Zipf's
/// law, so that both have cold memory. The targets are 12 and 14 % more than the 70 ns of local memory.
fn contended(threads: u8) -> Experiment {
    let front = format!("service:set=20GiB,skew=0.99,threads={threads}");
    let vectordb = format!("service:set=20GiB,skew=0.99,threads={EQUAL}");
    xeon("tpp", 400, 20)
        .tenant(VECTORDB, &vectordb)
        .needs(2, "80ns")
        .tenant("front", &front)
        .needs(1, "79ns")
}

/// By how much a program is slower than alone in local memory, %.
fn loses(lab: &Lab, of: &Experiment, name: &str) -> f64 {
    let programs = &lab.report(of).steady.programs;
    let own = programs.iter().find(|program| program.name == name);
    100.0 * (1.0 - own.and_then(|program| program.speedup).unwrap_or(1.0))
}

fn alone(name: &str, program: &str, slo: &str) -> Experiment {
    xeon("tierline", 100, 64)
        .tenant(name, program)
        .needs(1, slo)
        .but(|scenario| scenario.lend = false)
}

fn tracking(lab: &Lab) -> Found {
    let redis = [100.0, 125.0, 150.0, 175.0, 200.0].map(|ns: f64| {
        let program = format!("service:set=20GiB,threads=4,compute={REDIS_COMPUTES}");
        let of = alone("redis", &program, &format!("{ns}ns"));
        (steady(lab, &of, "redis").latency_ns.unwrap_or(1.0) / ns - 1.0).abs()
    });
    let mut limited = true;
    let llama = [20.0, 30.0, 50.0, 70.0].map(|gb: f64| {
        let slo = format!("{}B/s", gb * 1e9);
        let program = format!("service:set=40GiB,stream=1,threads={LLAMA_CORES}");
        let means = steady(lab, &alone("llama", &program, &slo), "llama");
        limited &= (means.cpu_share < 1.0) == (gb < 40.0);
        (means.bytes_per_second / (gb * 1e9) - 1.0).abs()
    });
    let worst = |errors: &[f64]| 100.0 * errors.iter().copied().fold(0.0, f64::max);
    let ours = vec![worst(&redis), worst(&llama)];
    Found { holds: limited && ours.iter().all(|error| *error <= 5.0), ours }
}

/// Figure 13: 40 GB of local memory for 100 GB.
pub fn mixed() -> Experiment {
    let llama = format!("service:set=40GiB,stream=1,threads={LLAMA_CORES}");
    xeon("tpp", 600, 40)
        .tenant("redis", &format!("service:set=40GiB,threads=6,compute={REDIS_COMPUTES}"))
        .needs(2, "200ns")
        .tenant("llama", &llama)
        .needs(1, LLAMA_SLO)
        .tenant(VECTORDB, "service:set=20GiB,threads=2")
        .needs(3, "180ns")
}
