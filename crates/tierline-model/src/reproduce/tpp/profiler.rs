// SPDX-License-Identifier: Apache-2.0
//! Section 3: what Chameleon says of the programs, and what it costs.

use tierline_core::port::PageKind;
use tierline_core::telemetry::profile::Heat;
use tierline_core::unit::{Bytes, Nanos};

use super::over;
use super::setup::{App, Local, run as of};
use crate::error::Result;
use crate::profile::profile;
use crate::reproduce::row::{Found, Kind, ROW, Row, Test};
use crate::run::run;
use crate::scenario::Scenario;
use crate::workload::list::written;
use App::{Cache1, Cache2, Warehouse, Web1};

/// Chameleon's interval.
const MINUTE: Nanos = Nanos::from_secs(60);
/// One of so many loads that miss the caches.
const SAMPLED: f64 = 200.0;
/// What runs and samples all the time is measured after this.
const SHORT_SECONDS: f64 = 0.2;

/// The rows. Their runs take a tenth of a second, and are not kept.
pub const ROWS: &[Row] = &[
    Row {
        id: "T-cham",
        title: "throughput lost to sampling one load of 200, by a program that all cores and their bandwidth serve",
        source: "TPP, 3",
        published: &[7.0],
        unit: "%",
        find: Some(|_| {
            sampling_costs().map_or_else(|_| Found::default(), |lost| vec![lost].into())
        }),
        note: "all cores are sampled at once here, where Chameleon takes them in groups, of which the number was not published; its own 3 to 5 % of a core are not modelled",
        ..ROW
    },
    Row {
        id: "T-wl",
        title: "memory idle for 2 min, least and most of Web1, Cache1, Cache2, Data Warehouse",
        source: "TPP, 2",
        published: &[55.0, 80.0],
        unit: "%",
        find: Some(|_| {
            let idle = [Web1, Cache1, Cache2, Warehouse].map(|app| 100.0 - used(app, 2)[0]);
            let (least, most) =
                (idle.into_iter().reduce(f64::min), idle.into_iter().reduce(f64::max));
            least.into_iter().chain(most).collect()
        }),
        note: "Cache2 is the least: three quarters of its private pages are hot in two minutes (6.1.1) and as many of its files (3.3), which leaves no more idle",
        ..ROW
    },
    Row {
        id: "T-wl-web",
        title: "Web1: 35 to 60 % of private memory and 3 to 14 % of files used in 2 min",
        source: "TPP, 3.3",
        kind: Kind::Order,
        test: Test::Own,
        find: Some(|_| {
            let [_, private, files] = used(Web1, 2);
            let holds = (35.0..=60.0).contains(&private) && (3.0..=14.0).contains(&files);
            Found { ours: Vec::new(), holds }
        }),
        note: "a fact that the program is put together from",
        ..ROW
    },
    Row {
        id: "T-wl-cache",
        title: "private memory and files used: Cache1 in 2 min, Cache2 in 1 min",
        source: "TPP, 3.3",
        published: &[40.0, 25.0, 43.0, 30.0],
        unit: "%",
        kind: Kind::Fitted,
        find: Some(|_| {
            [used(Cache1, 2), used(Cache2, 1)].iter().flat_map(|of| of[1..].to_vec()).collect()
        }),
        note: "Cache1 is put together from it; Cache2 from 75 % in 2 min (6.1.1), of which pages that are accessed independently of each other use half in 1 min at least, and ours more",
        ..ROW
    },
];

/// Of a program's memory, its private memory and its files: what was used within the last minutes, %.
fn used(app: App, minutes: u32) -> [f64; 3] {
    let scenario = of(app, Local::All, "hold").scenario();
    let profile = scenario.and_then(|scenario| profile(&scenario, MINUTE));
    let report = profile.map_or_else(|_| Vec::new(), |profile| profile.report());
    let share = |of: fn(Option<PageKind>) -> bool| {
        let sum = |bytes: &dyn Fn(&Heat) -> Bytes| -> f64 {
            report.iter().filter(|heat| of(heat.kind)).map(|heat| gib(bytes(heat))).sum()
        };
        let used = |heat: &Heat| heat.used_within(minutes).unwrap_or_default();
        100.0 * over(sum(&used), sum(&|heat| heat.memory))
    };
    [
        share(|kind| kind.is_none()),
        share(|kind| kind == Some(PageKind::Anonymous)),
        share(|kind| matches!(kind, Some(PageKind::File | PageKind::Shared))),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
fn gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 30)
}

/// Throughput lost, %.
fn sampling_costs() -> Result<f64> {
    let rate = |tracker: &str| -> Result<f64> {
        let mut scenario = Scenario {
            machine: "tpp".into(),
            policy: "hold".into(),
            tracker: Some(tracker.into()),
            seconds: SHORT_SECONDS,
            workload: vec![written("scan")?],
            ..Scenario::default()
        };
        scenario.tracker_knobs.sample_period = SAMPLED;
        scenario.tracker_knobs.ring = 1 << 24;
        let report = run(&scenario)?;
        Ok(report.steady.programs.first().map_or(0.0, |program| program.throughput))
    };
    Ok(100.0 * (1.0 - over(rate("pebs")?, rate("truth")?)))
}
