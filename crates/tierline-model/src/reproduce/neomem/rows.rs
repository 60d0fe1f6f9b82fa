// SPDX-License-Identifier: Apache-2.0
//! The rows.

use super::setup::{App, Bench, JUMP_SECONDS, SECONDS, System, Varied};
use super::speed;
use crate::machine::list::Entry as MachineEntry;
use crate::reproduce::Lab;
use crate::reproduce::row::{Found, Kind, ROW, Row, Test};

const ORDER: Row = Row { kind: Kind::Order, test: Test::Own, ..ROW };
/// One load in so many misses (the artifact's baseline; table V: 200 to 5000).
const PEBS: System = System::Pebs(997);
/// Figure 16 names its rate.
const PEBS_16: System = System::Pebs(397);
/// As fast as another: within the 3 % that fitted rows promise.
const ALIKE: f64 = 0.97;

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "N-F3a",
        title: "CXL latency, ns; over DDR",
        source: "NeoMem, figure 3",
        published: &[430.0, 3.6],
        unit: "ns; x",
        kind: Kind::Fitted,
        find: Some(|_| latencies()),
        note: "unloaded: the machine file's",
        ..ROW
    },
    Row {
        id: "N-F11-FT",
        title: "over first touch: XSBench, GUPS",
        source: "NeoMem, figure 11",
        published: &[3.5, 4.7],
        unit: "x",
        find: Some(|lab| {
            [App::XsBench, App::Gups]
                .map(|app| over(lab, Bench::of(app, System::NeoMem), System::FirstTouch))
                .to_vec()
                .into()
        }),
        note: "here first touch has 47 % of GUPS' accesses in fast memory, as the hot set is spread evenly, and all of XSBench's index, which comes first; where the hot set comes last it would have none",
        ..ROW
    },
    Row {
        id: "N-F11-XS",
        title: "XSBench over AutoNUMA, over PTE scan",
        source: "NeoMem, figure 11",
        published: &[2.8, 3.2],
        unit: "x",
        find: Some(|lab| {
            [System::AutoNuma, System::PteScan]
                .map(|other| over(lab, Bench::of(App::XsBench, System::NeoMem), other))
                .to_vec()
                .into()
        }),
        note: "as N-F11-FT: with its index in fast memory from the start there is nothing to gain",
        ..ROW
    },
    Row {
        id: "N-F12",
        title: "GUPS, fast:slow 1:2, 1:4, 1:8: NeoMem over PEBS: above 1 always",
        source: "NeoMem, figure 12",
        unit: "x",
        find: Some(ratios),
        note: "within 0.3 %: at the rate of accesses here one in 997 seems to be samples enough",
        ..ORDER
    },
    Row {
        id: "N-F13",
        title: "GUPS, slow-tier traffic of NeoMem, PEBS, PTE scan, AutoNUMA, TPP, first touch: NeoMem's least",
        source: "NeoMem, figure 13",
        unit: "GB/s",
        find: Some(traffic),
        note: "PEBS is level with it (N-F12); the others promote next to nothing in 60 s: under TPP no page faults twice in that time; of the rest the cause was not looked into",
        ..ORDER
    },
    Row {
        id: "N-CPU",
        title: "profiling, of GUPS' time, at most",
        source: "NeoMem, VI-D",
        published: &[0.021],
        unit: "%",
        test: Test::AtMost,
        find: Some(profiling),
        note: "register reads of 1 us each (ours) over the time of 32 threads, as if it took theirs; a mean over a run in which the hot set is found, where the paper's is of one that runs on",
        ..ROW
    },
    Row {
        id: "N-F15a",
        title: "migration interval of 10, 100, 1000, 5000 ms: shorter is better (ours: GUPS, over all of the run)",
        source: "NeoMem, figure 15a",
        unit: "G/s",
        find: Some(intervals),
        ..ORDER
    },
    Row {
        id: "N-F15b",
        title: "quota of 64 MB/s against 256 (ours: GUPS, over all of the run)",
        source: "NeoMem, figure 15b",
        published: &[-10.0],
        unit: "%",
        test: Test::Within(5.0),
        find: Some(|lab| {
            let [low, default] = [Varied::Quota(64), Varied::Nothing].map(|v| overall(lab, v));
            vec![100.0 * (low / default - 1.0)].into()
        }),
        note: "the quota only halves p; presumably any p finds a hot set whose pages are alike",
        ..ROW
    },
    Row {
        id: "N-F15c",
        title: "sketch of 32 K x 2, 512 K x 2, 512 K x 1: wider is better, one lane is worse (ours: GUPS, over all of the run)",
        source: "NeoMem, figures 15c and 15d",
        unit: "G/s",
        find: Some(sketches),
        ..ORDER
    },
    Row {
        id: "N-F16",
        title: "GUPS, hot set moved: before, 10 s, 20 s after, of NeoMem, PEBS, TPP, PTE scan: highest plateau, fastest recovery",
        source: "NeoMem, figure 16",
        unit: "G/s",
        find: Some(jump),
        note: "the plateau is the highest; PEBS at 1 in 397 is 1 % ahead 10 s after the jump; its counts are of single pages, where counters are shared, which may be why",
        ..ORDER
    },
    Row {
        id: "N-F17",
        title: "GUPS over MEMTIS: where it is worst; MEMTIS promotes fewer pages",
        source: "NeoMem, figure 17",
        unit: "x; x",
        find: Some(memtis),
        ..ORDER
    },
];

fn over(lab: &Lab, bench: Bench, system: System) -> f64 {
    speed(lab, bench) / speed(lab, Bench { system, ..bench })
}

fn gups(system: System) -> Bench {
    Bench::of(App::Gups, system)
}

fn latencies() -> Found {
    let machine = MachineEntry::find("neomem-spr-fpga").and_then(MachineEntry::machine);
    let tiers = machine.map(|machine| machine.tiers).unwrap_or_default();
    let ns = |at: usize| tiers.get(at).map_or(1.0, |tier| tier.queue.curve.unloaded_ns);
    vec![ns(1), ns(1) / ns(0)].into()
}

fn ratios(lab: &Lab) -> Found {
    let ours =
        [2, 4, 8].map(|ratio| over(lab, Bench { ratio, ..gups(System::NeoMem) }, PEBS)).to_vec();
    Found { holds: ours.iter().all(|&gain| gain > 1.0), ours }
}

fn traffic(lab: &Lab) -> Found {
    let systems =
        [System::NeoMem, PEBS, System::PteScan, System::AutoNuma, System::Tpp, System::FirstTouch];
    let slow = |system| {
        let tiers = &lab.report(&gups(system)).steady.tiers;
        tiers.get(1).map_or(0.0, |tier| tier.bytes_per_second * 1e-9)
    };
    let ours = systems.map(slow).to_vec();
    Found { holds: ours[1..].iter().all(|&other| ours[0] < other), ours }
}

fn profiling(lab: &Lab) -> Found {
    let seconds = lab.report(&gups(System::NeoMem)).moves.tracker_seconds;
    vec![100.0 * seconds / (32.0 * f64::from(SECONDS))].into()
}

/// Updates a second over all of a run, in 10⁹: getting there counts.
fn overall(lab: &Lab, varied: Varied) -> f64 {
    let report = lab.report(&Bench { varied, ..gups(System::NeoMem) });
    report.overall.programs.first().map_or(1.0, |program| program.throughput * 1e-9)
}

fn intervals(lab: &Lab) -> Found {
    let longer = [100, 1_000, 5_000].map(Varied::Interval);
    let ours: Vec<f64> =
        [Varied::Nothing].into_iter().chain(longer).map(|varied| overall(lab, varied)).collect();
    let holds = ours.windows(2).all(|pair| pair[1] <= pair[0] / ALIKE) && ours[3] < ours[0];
    Found { ours, holds }
}

fn sketches(lab: &Lab) -> Found {
    let varied = [Varied::Sketch(15, 2), Varied::Nothing, Varied::Sketch(19, 1)];
    let ours = varied.map(|varied| overall(lab, varied)).to_vec();
    Found { holds: ours[0] < ours[1] && ours[2] < ours[1], ours }
}

fn jump(lab: &Lab) -> Found {
    let at = |system, seconds: u16| {
        let series = &lab.report(&Bench { jumps: true, ..gups(system) }).series;
        let row = series.iter().rfind(|row| row.seconds <= f64::from(seconds) + 0.5);
        let program = row.and_then(|row| row.means.programs.first());
        program.map_or(0.0, |program| program.throughput * 1e-9)
    };
    let times = [JUMP_SECONDS - 1, JUMP_SECONDS + 10, JUMP_SECONDS + 20];
    let systems = [System::NeoMem, PEBS_16, System::Tpp, System::PteScan];
    let ours: Vec<f64> =
        systems.into_iter().flat_map(|system| times.map(|seconds| at(system, seconds))).collect();
    let (neomem, others) = ours.split_at(times.len());
    let best = |other: &[f64]| neomem.iter().zip(other).all(|(ours, other)| ours >= other);
    Found { holds: others.chunks(times.len()).all(best), ours }
}

#[expect(clippy::cast_precision_loss, reason = "pages of one run")]
fn memtis(lab: &Lab) -> Found {
    let promoted = |system| (lab.report(&gups(system)).moves.promoted_pages as f64).max(1.0);
    let gain = over(lab, gups(System::NeoMem), System::Memtis);
    let share = promoted(System::Memtis) / promoted(System::NeoMem);
    Found { holds: gain > 1.0 && share < 1.0, ours: vec![gain, share] }
}
