// SPDX-License-Identifier: Apache-2.0
//! The rows of all programs and of GUPS.

use super::setup::{
    self, APPS, App, LONGER, System, THREADS, bench, gups, interval, longer, sketch,
};
use super::{ALIKE, BASELINES, PEBS, first_minute, gains, mean, over, over_at, speed};
use crate::arithmetic::geometric_mean;
use crate::machine::list::MachineEntry;
use crate::report::Means;
use crate::reproduce::row::{Found, GIVEN, Kind, ORDER, ROW, Row, Test};
use crate::reproduce::{Experiment, Lab};

/// The rate is stated in figure 16.
const PEBS_16: System = System::Pebs(397);
/// Programs of figure 12: for the first two the gain grows, for the last two it is constant.
const RATIOS: [App; 4] = [App::PageRank, App::Btree, App::Gups, App::XsBench];

/// The rows.
pub const ROWS: &[Row] = &[
    Row {
        id: "N-F3a",
        title: "CXL latency, ns; over DDR",
        source: "NeoMem, figure 3",
        published: &[430.0, 3.6],
        unit: "ns; x",
        find: Some(|_| latencies()),
        note: "unloaded: from the machine file",
        ..GIVEN
    },
    Row {
        id: "N-F3b",
        title: "slowdown with all data in CXL: PageRank",
        source: "NeoMem, figure 3",
        published: &[295.0],
        unit: "%",
        find: Some(all_slow),
        note: "of the time in N-T6. The computing part of GAPBS was not published, and 1.2 GiB of its rows do not fit into 16 GiB. For Redis (64 %) no such facts were published",
        ..ROW
    },
    Row {
        id: "N-F4c",
        title: "slowdown by PEBS at one in 10 misses relative to one in 10 000, at least (ours: GUPS)",
        source: "NeoMem, figure 4",
        published: &[50.0],
        unit: "%",
        test: Test::AtLeast,
        find: Some(sampled),
        note: "a record costs 300 ns, as in A-ovh; our text of the paper does not contain the program's name of figure 4",
        ..ROW
    },
    Row {
        id: "N-F11",
        title: "over the best of five baselines: DeathStarBench, PageRank, XSBench, GUPS, Silo, Btree, bwaves, roms: never below 1",
        source: "NeoMem, figure 11",
        unit: "x",
        find: Some(order),
        note: "Silo: no fast page is idle for a full cycle of the reclaimer, so hardly anything is demoted, and presumably samples find hotter pages first. Btree, bwaves, roms: no page stays hotter than others for long. For DeathStarBench and XSBench see N-F11-DSB and N-F11-FT",
        ..ORDER
    },
    Row {
        id: "N-F11-geo",
        title: "geomean over PEBS, over first touch",
        source: "NeoMem, figure 11",
        published: &[1.32, 1.67],
        unit: "x",
        test: Test::Gain,
        note: "as N-F11 and N-F11-FT",
        find: Some(|lab| {
            [PEBS, System::FirstTouch]
                .map(|other| geometric_mean(&gains(lab, other)))
                .to_vec()
                .into()
        }),
        ..ROW
    },
    Row {
        id: "N-F11-DSB",
        title: "DeathStarBench over the baselines, minimum and maximum",
        source: "NeoMem, figure 11",
        published: &[1.19, 1.67],
        unit: "x",
        test: Test::Gain,
        find: Some(death_star),
        note: "the minimum is over PEBS, which presumably promotes fewer lukewarm pages; the maximum over first touch, which places every post in slow memory once fast memory is full. The distribution of accesses between new and old posts is ours",
        ..ROW
    },
    Row {
        id: "N-F11-FT",
        title: "over first touch: XSBench, GUPS",
        source: "NeoMem, figure 11",
        published: &[3.5, 4.7],
        unit: "x",
        test: Test::Gain,
        find: Some(|lab| {
            [App::XsBench, App::Gups].map(|app| over(lab, app, System::FirstTouch)).to_vec().into()
        }),
        note: "XSBench fills its index first (GridInit.c), so first touch has it in fast memory. GUPS has a hot part in each thread's 32nd, so first touch serves 47 % of its accesses there; a gain of 4.7 would require a link with a third of the modelled 27.7 GB/s, which is the bandwidth of other FPGA cards",
        ..ROW
    },
    Row {
        id: "N-F11-XS",
        title: "XSBench over AutoNUMA, over PTE scan",
        source: "NeoMem, figure 11",
        published: &[2.8, 3.2],
        unit: "x",
        test: Test::Gain,
        find: Some(|lab| {
            [System::AutoNuma, System::PteScan]
                .map(|other| over(lab, App::XsBench, other))
                .to_vec()
                .into()
        }),
        note: "as N-F11-FT: its index is in fast memory from the start, so nothing can be gained",
        ..ROW
    },
    Row {
        id: "N-F12",
        title: "NeoMem over PEBS at 1:2, 1:4, 1:8: PageRank, Btree, GUPS, XSBench: above 1; grows for two, constant for two",
        source: "NeoMem, figure 12",
        unit: "x",
        find: Some(ratios),
        note: "on PageRank it is above PEBS at all three, but the gain does not grow; on GUPS at 1:8 the hot set and the pages that NeoMem exchanges do not fit; Btree's index stays where it was first touched",
        ..ORDER
    },
    Row {
        id: "N-F13",
        title: "slow-tier bytes per operation, minimum of the five over NeoMem, programs as N-F11: never below 1",
        source: "NeoMem, figure 13",
        unit: "x",
        find: Some(traffic),
        note: "as N-F11",
        ..ORDER
    },
    Row {
        id: "N-F13-moves",
        title: "promoted in total by AutoNUMA, NeoMem, PTE scan, PEBS, TPP, first touch: from most to least, NeoMem and PTE scan equal",
        source: "NeoMem, figure 13",
        unit: "GB",
        find: Some(promotions),
        note: "more than half of NeoMem's promotions are pages swept by bwaves and roms, which TPP and AutoNUMA do not promote: hint faults here follow the present rate, so a page that a sweep has passed never faults. Most of TPP's and AutoNUMA's promotions are on XSBench and GUPS",
        ..ORDER
    },
    Row {
        id: "N-CPU",
        title: "profiling, share of GUPS' time, at most",
        source: "NeoMem, VI-D",
        published: &[0.021],
        unit: "%",
        test: Test::AtMost,
        find: Some(profiling),
        note: "register reads of 1 us each (ours), relative to the time of 32 threads, as if they ran in these threads; most reads are of hot pages, which are found again after each clearing",
        ..ROW
    },
    Row {
        id: "N-F15a",
        title: "migration interval of 10, 100, 1000, 5000 ms: shorter is better (ours: GUPS, in its first minute)",
        source: "NeoMem, figure 15a",
        unit: "G/s",
        find: Some(intervals),
        note: "published on PageRank",
        ..ORDER
    },
    Row {
        id: "N-F15b",
        title: "quota of 64 MB/s against 256 (ours: GUPS, in its first minute)",
        source: "NeoMem, figure 15b",
        published: &[-10.0],
        unit: "%",
        test: Test::Points,
        find: Some(|lab| {
            let low = longer().knob("m_quota", 64e6);
            let [low, default] = [low, longer()].map(|gups| first_minute(lab, &gups));
            vec![100.0 * (low / default - 1.0)].into()
        }),
        note: "the quota only halves p; presumably any p finds a hot set of equally hot pages",
        ..ROW
    },
    Row {
        id: "N-F15c",
        title: "sketch of 32 K x 2, 512 K x 2, 512 K x 1: wider is better, one lane is worse (ours: GUPS, in its first minute)",
        source: "NeoMem, figures 15c and 15d",
        unit: "G/s",
        find: Some(sketches),
        ..ORDER
    },
    Row {
        id: "N-F16",
        title: "GUPS, jump of the hot set: before, 10 s and 20 s after it, for NeoMem, PEBS, TPP, PTE scan: highest plateau, fastest recovery",
        source: "NeoMem, figure 16",
        unit: "G/s",
        find: Some(jump),
        ..ORDER
    },
    Row {
        id: "N-F17",
        title: "over MEMTIS, programs as N-F11: most on GUPS, equal on bwaves",
        source: "NeoMem, figure 17",
        unit: "x",
        find: Some(memtis),
        note: "below MEMTIS on Silo, as N-F11; most on DeathStarBench, whose new posts MEMTIS leaves in slow memory",
        ..ORDER
    },
    Row {
        id: "N-F17-geo",
        title: "over MEMTIS, geomean; pages promoted by MEMTIS, share of NeoMem's",
        source: "NeoMem, figure 17",
        published: &[1.58, 1.1],
        unit: "x; %",
        note: "as N-F17; here, MEMTIS' sampler uses 3 % of a core from the start, with which it finds as many pages as any other",
        find: Some(|lab| {
            let share = 100.0 * promoted(lab, System::Memtis) / promoted(lab, System::NeoMem);
            vec![geometric_mean(&gains(lab, System::Memtis)), share].into()
        }),
        ..ROW
    },
    Row {
        id: "N-HW",
        title: "NeoProf: area, power (not simulable)",
        source: "NeoMem",
        published: &[5.3, 152.2],
        unit: "mm2; mW",
        kinds: &[Kind::NotYet],
        ..ROW
    },
];

fn latencies() -> Found {
    let machine = MachineEntry::find("neomem-spr-fpga").and_then(MachineEntry::machine);
    let tiers = machine.map(|machine| machine.tiers).unwrap_or_default();
    let ns = |at: usize| tiers.get(at).map_or(1.0, |tier| tier.queue.curve.unloaded_ns);
    vec![ns(1), ns(1) / ns(0)].into()
}

/// How much slower than another speed, %.
fn slower(speed: f64, than: f64) -> Found {
    vec![100.0 * (than / speed - 1.0)].into()
}

fn all_slow(lab: &Lab) -> Found {
    let all = bench(App::PageRank, System::FirstTouch);
    let speed = |fast_mib| speed(lab, App::PageRank, &all.fast_mib(fast_mib));
    slower(speed(2), speed(24 << 10))
}

fn sampled(lab: &Lab) -> Found {
    let gups = gups(System::FirstTouch).lasting(1);
    let speed = |period| lab.program(&gups.sampled(period)).throughput;
    slower(speed(10), speed(10_000))
}

fn least(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(f64::INFINITY, f64::min)
}

fn order(lab: &Lab) -> Found {
    let gain = |app| least(BASELINES.map(|other| over(lab, app, other)));
    let ours = APPS.map(gain).to_vec();
    Found { holds: ours.iter().all(|&gain| gain >= 1.0), ours }
}

fn death_star(lab: &Lab) -> Found {
    let gains = BASELINES.map(|other| over(lab, App::DeathStar, other));
    vec![least(gains), gains.into_iter().fold(0.0, f64::max)].into()
}

fn ratios(lab: &Lab) -> Found {
    let gain = |app, ratio| over_at(lab, app, PEBS, ratio);
    let ours: Vec<f64> =
        RATIOS.into_iter().flat_map(|app| [2, 4, 8].map(|ratio| gain(app, ratio))).collect();
    let (widens, stays) = ours.split_at(6);
    let alike = |gains: &[f64]| least(gains.iter().copied()) >= gains[0].max(gains[2]) * ALIKE;
    let holds = ours.iter().all(|&gain| gain > 1.0)
        && widens.chunks(3).all(|gains| gains[2] > gains[0])
        && stays.chunks(3).all(alike);
    Found { ours, holds }
}

fn traffic(lab: &Lab) -> Found {
    let slow = |app, system| {
        let (bench, rate) = (bench(app, system), |means: &Means| {
            means.tiers.get(1).map_or(1.0, |tier| tier.bytes_per_second)
        });
        (mean(lab, app, &bench, rate) / speed(lab, app, &bench)).max(1e-9)
    };
    let of = |app| {
        let ours = slow(app, System::NeoMem);
        least(BASELINES.map(|other| slow(app, other) / ours))
    };
    let ours = APPS.map(of).to_vec();
    Found { holds: ours.iter().all(|&other| other >= 1.0), ours }
}

/// Bytes promoted in all programs' time.
fn promoted(lab: &Lab, system: System) -> f64 {
    let of = |app| {
        let rate = mean(lab, app, &bench(app, system), |means| means.promoted_bytes_per_second);
        f64::from(app.length()) * rate
    };
    APPS.into_iter().map(of).sum::<f64>().max(1.0)
}

fn promotions(lab: &Lab) -> Found {
    let systems =
        [System::AutoNuma, System::NeoMem, System::PteScan, PEBS, System::Tpp, System::FirstTouch];
    let ours = systems.map(|system| promoted(lab, system) * 1e-9).to_vec();
    let alike = ours[1].min(ours[2]) >= ours[1].max(ours[2]) * ALIKE;
    let holds = alike && ours[0] > ours[1] && ours[2..].windows(2).all(|pair| pair[0] > pair[1]);
    Found { ours, holds }
}

/// The tracker's time: in the simulated part, and for the rest as in the last third of a longer run.
fn profiling(lab: &Lab) -> Found {
    let settled = gups(System::NeoMem);
    let [long, all] = [LONGER, App::Gups.length()].map(f64::from);
    let spent = |bench: &Experiment| lab.report(bench).moves.tracker_seconds;
    let rate = (spent(&longer()) - spent(&settled)) / (long - settled.seconds());
    let threads = f64::from(THREADS);
    vec![100.0 * (spent(&longer()) + rate * (all - long)) / (threads * all)].into()
}

fn intervals(lab: &Lab) -> Found {
    let all = [longer(), interval(100), interval(1_000), interval(5_000)];
    let ours = all.map(|gups| first_minute(lab, &gups)).to_vec();
    let holds = ours.windows(2).all(|pair| pair[1] <= pair[0] / ALIKE) && ours[3] < ours[0];
    Found { ours, holds }
}

fn sketches(lab: &Lab) -> Found {
    let all = [sketch(15, 2), longer(), sketch(19, 1)];
    let ours = all.map(|gups| first_minute(lab, &gups)).to_vec();
    Found { holds: ours[0] < ours[1] && ours[2] < ours[1], ours }
}

fn jump(lab: &Lab) -> Found {
    let at = |system, after: i32| {
        let until = f64::from(i32::from(setup::jumps_at(system)) + after) + 0.5;
        let row = lab.report(&setup::jump(system)).series.iter().rfind(|row| row.seconds <= until);
        let program = row.and_then(|row| row.means.programs.first());
        program.map_or(0.0, |program| program.throughput * 1e-9)
    };
    let times = [-1, 10, 20];
    let systems = [System::NeoMem, PEBS_16, System::Tpp, System::PteScan];
    let ours: Vec<f64> =
        systems.into_iter().flat_map(|system| times.map(|after| at(system, after))).collect();
    let (neomem, others) = ours.split_at(times.len());
    let best = |other: &[f64]| neomem.iter().zip(other).all(|(ours, other)| ours >= other);
    Found { holds: others.chunks(times.len()).all(best), ours }
}

fn memtis(lab: &Lab) -> Found {
    let ours = gains(lab, System::Memtis);
    let of = |app| APPS.iter().position(|at| *at == app).map_or(0.0, |at| ours[at]);
    let [gups, bwaves] = [App::Gups, App::Bwaves].map(of);
    let holds = ours.iter().all(|&gain| gain <= gups) && (ALIKE..=1.0 / ALIKE).contains(&bwaves);
    Found { ours, holds }
}
