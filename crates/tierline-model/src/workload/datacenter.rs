// SPDX-License-Identifier: Apache-2.0
//! datacenter: Meta's Web1, Cache1, Cache2 and Data Warehouse, reconstructed from published facts.
//!
//! What it does: a program with private memory, files and short-lived pages loads for two or three minutes,
//! then serves requests. A part of each kind of memory is hot: a core gets nearly all accesses, and the rest of
//! the hot part is accessed about once a minute. Of cold memory, little is accessed again within minutes, and
//! most within hours.
//! Where it comes from: TPP (ASPLOS 2023), sections 3.2 to 3.6 and 6; the code names each fact. These are
//! reconstructions of 96 GiB each, loaded in minutes, where the paper's servers take hours. Not published, and
//! ours: the distribution of accesses among kinds, the rate of the core, the amount of short-lived memory.
//! Think time and the share of a file's latency hidden by prefetching are fitted, to the throughput of Web1 and
//! Cache2 on the default kernel (T-T1-Web1-21, T-T1-Cache2-21).

use tierline_core::port::PageKind::{self, Anonymous, File, Shared};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use toml::Value;

use super::knob::{MAX_THREADS, Setting, expected, program_knobs};
use super::program::{Change, Churn, Layout, Memory, Phase, Placement, Program, Reach};

/// The application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    /// The HipHop virtual machine, which serves web requests.
    Web1,
    /// An object cache in front of databases.
    Cache1,
    /// Another object cache.
    Cache2,
    /// Parallel computing on data sets.
    Warehouse,
}

program_knobs! {
    /// Its knobs.
    pub struct Datacenter {
        /// Application.
        app: App = App::Web1, App::Web1, App::Warehouse;
        /// Think time between two misses of a slot, ns.
        think_ns: f64 = 215.0, 0.0, 1e6;
        /// Share of a file page's latency that threads wait for.
        file_exposed: f64 = 0.3, 0.0, 1.0;
        /// Misses in flight per core.
        in_flight: f64 = 2.0, 0.1, 100.0;
        /// Threads.
        threads: f64 = 26.0, 0.0, MAX_THREADS;
        /// Share of the hot memory that belongs to the core.
        core: f64 = 0.75, 0.0, 1.0;
        /// Memory size relative to 96 GiB.
        scale: f64 = 1.0, 0.001, 100.0;
    }
}

impl App {
    const ALL: [(&str, Self); 4] = [
        ("web1", Self::Web1),
        ("cache1", Self::Cache1),
        ("cache2", Self::Cache2),
        ("warehouse", Self::Warehouse),
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, app)| *app == self).map_or("", |(name, _)| name)
    }
}

impl Setting for App {
    const UNIT: &'static str = "name";
    fn read(value: &Value) -> Result<Self, String> {
        let app = Self::ALL.iter().find(|(name, _)| value.as_str() == Some(name));
        app.map(|(_, app)| *app).ok_or_else(|| {
            let range = Self::range(&Self::Web1, &Self::Warehouse);
            expected(&format!("one of {range}"), value)
        })
    }
    fn written(&self) -> String {
        self.name().into()
    }
    fn range(_: &Self, _: &Self) -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }
}

/// One kind of memory.
#[derive(Debug)]
struct Part {
    name: &'static str,
    kind: PageKind,
    gib: f64,
    /// Share accessed within two minutes.
    hot: f64,
    /// Share of all accesses.
    accesses: f64,
    /// Start of loading, in seconds.
    after: u64,
}

const fn part(
    name: &'static str,
    kind: PageKind,
    gib: f64,
    hot: f64,
    accesses: f64,
    after: u64,
) -> Part {
    Part { name, kind, gib, hot, accesses, after }
}

/// 95 to 98 % of memory are in use (3.2). 35 to 60 % of private pages are hot and 3 to 14 % of files (3.3).
/// Files are read first and fill local memory; private memory grows afterwards (3.4, 6.1.1). What the default
/// kernel serves locally, 22 %, is mostly files.
const WEB1: &[Part] =
    &[part("file", File, 63.0, 0.085, 0.12, 0), part("anon", Anonymous, 27.0, 0.48, 0.83, 127)];
/// 70 to 82 % of memory are files, most in tmpfs, allocated at the start (3.3 to 3.5). 40 % of private pages
/// are hot and 25 % of files (3.3). All private pages fit into a local node of two thirds of memory, and a
/// seventh into one of a fifth (6.1.1, 6.1.2), so they are allocated together with the files. Of hot memory, 8
/// % was allocated last (6.1.1).
const CACHE1: &[Part] = &[
    part("tmpfs", Shared, 40.0, 0.36, 0.33, 0),
    part("anon", Anonymous, 22.0, 0.40, 0.55, 26),
    part("file", File, 28.0, 0.08, 0.04, 80),
];
/// 70 to 82 % files (3.4). 75 % of private pages are hot (6.1.1), and almost as many files (3.3).
const CACHE2: &[Part] =
    &[part("tmpfs", Shared, 68.0, 0.70, 0.47, 0), part("anon", Anonymous, 22.0, 0.75, 0.45, 26)];
/// 15 % files, almost all of them cold (3.3, 3.4). A third of private pages is hot, most of it already local on
/// the default kernel (6.1.1), so it was allocated first.
const WAREHOUSE: &[Part] = &[
    part("file", File, 13.5, 0.02, 0.02, 0),
    part("anon", Anonymous, 50.0, 0.45, 0.88, 27),
    part("anon-late", Anonymous, 26.0, 0.10, 0.05, 128),
];

/// Rate of loading, for each part.
const LOAD: BytesPerSec = BytesPerSec(1 << 29);
const GIB: f64 = 1_073_741_824.0;
/// A page of the model is accessed as often as one base page of the paper (4 to 16 MB/s are 1 to 4 K pages a
/// second, 7). There are fewer and larger pages; kernel operations on one of them count for all base pages that
/// it represents.
const PAGE: f64 = 2_097_152.0;
/// Approximate accesses per second, to which the rates below refer.
const ACCESSES: f64 = 1.8e8;
/// Rate of a hot page outside the core: 43 % of Cache2's private pages are accessed within a minute and 75 %
/// within two (3.3, 6.1.1): ln 4 in two minutes.
const LUKEWARM_PER_SEC: f64 = 1.386 / 120.0;
/// Share of cold pages that are soon accessed again, and their rate: of pages that become hot again, 80 % were
/// cold for less than ten minutes (3.6).
const WARM: f64 = 0.05;
const WARM_PER_SEC: f64 = 1.0 / 300.0;
const FROZEN_PER_SEC: f64 = 1.0 / 18_000.0;
/// Size of objects and slabs that are contiguous.
const CHUNK: Bytes = Bytes::from_mib(16);
/// Pages for requests: short-lived, less than a minute (6.2), and hot (5.2).
const FRESH: Churn = Churn {
    rate: BytesPerSec(32 << 20),
    burst: 8.0,
    every: Nanos::from_secs(20),
    lasts: Nanos::from_secs(2),
    lifetime: Nanos::from_secs(15),
};
const FRESH_GIB: f64 = 1.25;

impl Datacenter {
    /// The program; the part loaded first is the leader.
    pub fn program(self) -> Result<Program, String> {
        let parts = match self.app {
            App::Web1 => WEB1,
            App::Cache1 => CACHE1,
            App::Cache2 => CACHE2,
            App::Warehouse => WAREHOUSE,
        };
        let mut memory: Vec<Program> = parts.iter().map(|part| self.memory(part)).collect();
        memory.push(self.fresh(1.0 - parts.iter().map(|part| part.accesses).sum::<f64>()));
        let mut lead = memory.remove(0);
        lead.name = self.app.name().into();
        lead.memory.further = memory;
        Ok(lead)
    }

    fn memory(&self, part: &Part) -> Program {
        let pages = part.gib * self.scale * GIB / PAGE;
        let gib = part.gib * self.scale;
        let until = |share: f64| bytes(gib * share);
        let rate = |share: f64, per_sec: f64| share * pages * per_sec / ACCESSES / part.accesses;
        let lukewarm = rate(part.hot * (1.0 - self.core), LUKEWARM_PER_SEC);
        let warm = rate(WARM, WARM_PER_SEC);
        let frozen = rate((1.0 - part.hot - WARM).max(0.0), FROZEN_PER_SEC);
        let bands = vec![
            (until(part.hot * self.core), 1.0 - lukewarm - warm - frozen),
            (until(part.hot), lukewarm),
            (until((part.hot + WARM).min(1.0)), warm),
            (until(1.0), frozen),
        ];
        let mut phase = Phase::forever(bands, Layout::Scattered(CHUNK));
        phase.change = Change::Load(Nanos::from_secs(part.after), self.scaled(LOAD));
        self.one(part.name, part.kind, gib, part.accesses, phase)
    }

    fn fresh(&self, accesses: f64) -> Program {
        let gib = FRESH_GIB * self.scale;
        let mut phase = Phase::forever(vec![(bytes(gib), 1.0)], Layout::Front);
        phase.change = Change::Churn(Churn { rate: self.scaled(FRESH.rate), ..FRESH });
        self.one("fresh", Anonymous, gib, accesses, phase)
    }

    fn scaled(&self, rate: BytesPerSec) -> BytesPerSec {
        BytesPerSec(
            bytes(self.scale * f64::from(u32::try_from(rate.0 >> 20).unwrap_or(0)) / 1024.0).0,
        )
    }

    fn one(&self, name: &str, kind: PageKind, gib: f64, weight: f64, phase: Phase) -> Program {
        let exposed = if kind == Anonymous { 1.0 } else { self.file_exposed };
        Program {
            name: name.into(),
            bytes: bytes(gib),
            kind,
            threads: self.threads,
            reach: Reach::Fixed(self.in_flight, self.think_ns),
            writes_per_read: 0.3,
            reads_per_op: 1.0,
            unit: "lines",
            phases: vec![phase],
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory { weight, exposed, in_base_pages: true, further: Vec::new() },
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the memory of one machine"
)]
fn bytes(gib: f64) -> Bytes {
    Bytes((gib * GIB) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(app: App) -> (Vec<Program>, f64) {
        let lead = Datacenter { app, ..Datacenter::default() }.program().unwrap();
        let mut parts = lead.memory.further.clone();
        parts.push(lead);
        let all = parts.iter().map(|part| gib(part.bytes)).sum();
        (parts, all)
    }

    fn gib(bytes: Bytes) -> f64 {
        f64::from(u32::try_from(bytes.base_pages()).unwrap()) * 4096.0 / GIB
    }

    /// 3.2: 95 to 98 % of the system's memory; 3.4: the shares of files.
    #[test]
    fn memory_sizes_match_the_paper() {
        for (app, files) in
            [(App::Cache1, 0.70..0.82), (App::Cache2, 0.70..0.82), (App::Warehouse, 0.14..0.16)]
        {
            let (parts, all) = of(app);
            let of_files = parts.iter().filter(|part| part.kind != Anonymous);
            let share = of_files.map(|part| gib(part.bytes)).sum::<f64>() / all;
            assert!(files.contains(&share), "{app:?}: {share}");
            assert!((0.94..0.98).contains(&(all / 96.0)), "{app:?}: {all}");
        }
    }

    /// Section 2: 55 to 80 % of allocated memory is idle in any two minutes. By section 6.1.1, Cache2 has less
    /// idle memory.
    #[test]
    fn idle_shares_match_the_paper() {
        for app in [App::Web1, App::Cache1, App::Warehouse] {
            let parts = match app {
                App::Web1 => WEB1,
                App::Cache1 => CACHE1,
                _ => WAREHOUSE,
            };
            let all: f64 = parts.iter().map(|part| part.gib).sum();
            let idle = parts.iter().map(|part| part.gib * (1.0 - part.hot)).sum::<f64>() / all;
            assert!((0.55..0.83).contains(&idle), "{app:?}: {idle}");
        }
    }

    /// 3.6: of pages that become hot, about 80 % were accessed within the ten minutes before.
    #[test]
    fn reaccess_times_match_the_paper() {
        let soon = WARM * WARM_PER_SEC;
        let late = 0.6 * FROZEN_PER_SEC;
        assert!((0.75..0.87).contains(&(soon / (soon + late))));
    }
}
