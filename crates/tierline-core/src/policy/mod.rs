// SPDX-License-Identifier: Apache-2.0
//! Policies: which pages should move, and why. A policy never performs a move.
//!
//! A policy reads what is believed (page heat, tier telemetry) and writes a plan. Its cost must grow
//! with what happened, samples and moves, never with how much memory is managed: it is told which
//! pages were touched and may keep lists of its own, but it never walks the page table.

pub mod arms;
pub mod autonuma;
pub mod autotiering;
pub mod damon;
pub mod first_touch;
pub mod fixed;
pub mod goal;
pub mod hemem;
pub mod hold;
pub mod kernel;
pub mod linux;
pub mod memtis;
pub mod neomem;
pub mod oracle;
pub mod paging;
pub mod parts;
pub mod tierline;
pub mod tmo;
pub mod tpp;

use serde::Serialize;

use self::autonuma::autonuma;
use self::goal::balance::Balance;
use self::goal::pack::Pack;
use self::hemem::Hemem;
use self::linux::linux;
use self::memtis::Memtis;
use self::tmo::Tmo;
use self::tpp::tpp;

use crate::knob::Knob;
use crate::migrator::counters::Counters;
use crate::migrator::{Latencies, size_index};
use crate::page::{PageIdx, PageTable};
use crate::port::{Move, PageSize, Stretch, Telemetry, TrueRate};
use crate::qos::Limits;
use crate::telemetry::Hit;
use crate::telemetry::hotness::{Estimate, Hotness};
use crate::telemetry::stretches::StretchHeat;
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Why a page is moved. Every move carries one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Reason {
    /// Its accesses are expected to repay the move within the payback horizon.
    Hot {
        /// Accesses per second it is believed to get.
        rate_per_sec: f32,
    },
    /// It is the coldest found, and a hotter page needs its room.
    MakeRoom {
        /// Accesses per second it is believed to get.
        rate_per_sec: f32,
    },
    /// It is the coldest found, and new allocations need headroom.
    Headroom {
        /// Accesses per second it is believed to get.
        rate_per_sec: f32,
    },
    /// The tiers' loaded latencies differ, and moving it brings them closer.
    Balance {
        /// Accesses per second it is believed to get.
        rate_per_sec: f32,
    },
    /// Where it is to be was fixed beforehand, from what is known of the program.
    Placed {
        /// Accesses per second it gets.
        rate_per_sec: f32,
    },
}

impl Reason {
    /// A stable number for fingerprints.
    pub(crate) fn code(self) -> u64 {
        match self {
            Self::Hot { .. } => 0,
            Self::MakeRoom { .. } => 1,
            Self::Headroom { .. } => 2,
            Self::Balance { .. } => 3,
            Self::Placed { .. } => 4,
        }
    }

    /// The access rate it was decided on.
    pub fn rate_per_sec(self) -> f32 {
        match self {
            Self::Hot { rate_per_sec }
            | Self::MakeRoom { rate_per_sec }
            | Self::Headroom { rate_per_sec }
            | Self::Balance { rate_per_sec }
            | Self::Placed { rate_per_sec } => rate_per_sec,
        }
    }
}

/// How a policy wants to be served. A world comes as close as it can; `None` leaves it to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How often it decides; ticks in between are for listening.
    pub quantum: Option<Nanos>,
    /// How accesses are to be seen.
    pub watch: Option<Watch>,
    /// Where new pages go.
    pub allocation: Option<Allocation>,
    /// Threads that copy a page together; Linux copies with one, whatever is asked for.
    pub copy_threads: Option<u32>,
    /// It pages out, also from the slowest tier: so it is told of pages that are seen there, too.
    pub pages_out: bool,
    /// It keeps the heat of pages in a form of its own and reads single hits; the shared estimator is
    /// left out.
    pub own_heat: bool,
    /// It looks into huge pages: single hits of their base pages are told, too.
    pub within: bool,
}

/// How accesses are to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Samples by the processor.
    Samples {
        /// One of so many loads that miss the caches.
        loads: u64,
        /// One of so many stores; `None`: no stores.
        stores: Option<u64>,
        /// Sample more rarely where sampling takes more than this of a core, in thousandths.
        cpu_permille: Option<u32>,
    },
    /// Pages are made to fault at their next access.
    HintFaults {
        /// Time in which all memory is armed once.
        pass: Nanos,
        /// Bytes armed in one round.
        bytes: Bytes,
        /// Time between two rounds, at least.
        floor: Nanos,
        /// Pages in the fastest tier too.
        fast_too: bool,
    },
    /// Memory in stretches, each by a random page at a time (DAMON).
    Stretches {
        /// Time between two looks at a stretch.
        sampling: Nanos,
        /// Time after which what was seen is told, and stretches are merged and split.
        aggregation: Nanos,
        /// Stretches of a program, at least and at most.
        count: [u32; 2],
    },
    /// A memory device below the fastest tier counts its accesses by page (NeoProf), and names a page once it was
    /// accessed more often than `threshold` since the counters were cleared. Without such a device: in any other way.
    Counters {
        /// θ: a page that was counted more often is named.
        threshold: u32,
        /// Time between two readings of the pages that it names.
        read: Nanos,
        /// Time between two readings of its histogram and its state monitor.
        update: Nanos,
        /// Time between two clearings of its counters.
        clear: Nanos,
    },
    /// The true rates themselves, which only a model can tell.
    Truth,
}

impl Watch {
    /// The time between two rounds of arming, for a program with that much memory; `None` where none are armed.
    pub fn round(&self, memory: Bytes) -> Option<Nanos> {
        let Self::HintFaults { pass, bytes, floor, .. } = *self else { return None };
        let rounds = memory.0.div_ceil(bytes.0.max(1)).max(1);
        Some(Nanos(pass.0 / rounds).max(floor))
    }
}

/// Where new pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// To the fastest tier with room.
    FirstTouch,
    /// As the kernel does: to the fastest tier with room above its low watermark.
    Kernel {
        /// A tier that fell to its low watermark gets new pages again only once its high one is free. Else
        /// as soon as the low one is: allocation and reclaim are decoupled (TPP section 5.2).
        coupled: bool,
        /// The page cache and shared memory go below the fastest tier (TPP section 5.4).
        by_type: bool,
    },
}

/// All that a policy may look at in one tick.
#[derive(Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Nanos,
    /// The pages; a policy may set `queued` and `listed`, which are its own.
    pub pages: &'a mut PageTable,
    /// How to read heat.
    pub hotness: &'a Hotness,
    /// The heat of stretches, where a tracker tells of those.
    pub stretch_heat: &'a StretchHeat,
    /// The machine.
    pub tiers: &'a Tiers,
    /// What was measured of it.
    pub telemetry: &'a Telemetry,
    /// Who may use how much.
    pub limits: &'a Limits,
    /// Bytes that the migrator can take this tick; a longer plan is cut there.
    pub budget: Bytes,
    /// What moving one base page costs, as measured, alone and as part of a huge page.
    pub move_costs: [Nanos; 2],
    /// What moving one page took of late, by direction.
    pub move_latency: Latencies,
    /// The pages that were hit or seen in a new place since the last tick, in order of observation. To
    /// policies that rely on the shared heat, a hit on a page that they hold is no news.
    pub touched: &'a [PageIdx],
    /// Every sign of access since the last tick, in order, for policies with heat of their own; for those that look
    /// into huge pages the ones that tell which base page it was.
    pub hits: &'a [Hit],
    /// Hits by tier since the last tick.
    pub hits_in: &'a [f64],
    /// The time in which they were seen; zero where nobody watched.
    pub watched: Nanos,
    /// Whether nobody sees accesses to the fastest tier: what is cold there must be asked for.
    pub fast_unseen: bool,
    /// The true rates of all pages, in the ticks in which a world that knows them tells them anew.
    pub truth: &'a [TrueRate],
    /// All stretches, in the ticks in which a tracker that watches stretches tells of them.
    pub stretches: &'a [Stretch],
    /// Whether the pages asked after in the last tick were accessed; `None` where the world cannot tell.
    pub answers: &'a [(PageIdx, Option<bool>)],
    /// Pages to ask after before the next tick, and how far back.
    pub ask: &'a mut Vec<(PageIdx, Nanos)>,
    /// Pages to be paged out, after what is planned.
    pub page_out: &'a mut Vec<PageIdx>,
    /// Huge pages to be split, after that; those for which there is no time are to be named again.
    pub split: &'a mut Vec<PageIdx>,
    /// What it counts of what it decided; the migrator counts what became of it.
    pub counters: &'a mut Counters,
}

impl View<'_> {
    /// The same, with other answers: for a policy that is not alone in asking.
    pub fn with_answers<'b>(&'b mut self, answers: &'b [(PageIdx, Option<bool>)]) -> View<'b> {
        View {
            now: self.now,
            pages: &mut *self.pages,
            hotness: self.hotness,
            stretch_heat: self.stretch_heat,
            tiers: self.tiers,
            telemetry: self.telemetry,
            limits: self.limits,
            budget: self.budget,
            move_costs: self.move_costs,
            move_latency: self.move_latency,
            touched: self.touched,
            hits: self.hits,
            hits_in: self.hits_in,
            watched: self.watched,
            fast_unseen: self.fast_unseen,
            truth: self.truth,
            stretches: self.stretches,
            answers,
            ask: &mut *self.ask,
            page_out: &mut *self.page_out,
            split: &mut *self.split,
            counters: &mut *self.counters,
        }
    }

    /// What is believed of a page.
    pub fn estimate(&self, page: PageIdx) -> Estimate {
        let of_stretch = || {
            let at = self.pages.locate(page)?;
            self.stretch_heat.heat(at.space, at.vpn)
        };
        let heat = if self.stretch_heat.is_empty() { None } else { of_stretch() };
        self.hotness.estimate(heat.unwrap_or_else(|| self.pages.heat(page)))
    }

    /// What moving one page of `size` costs.
    pub fn move_cost(&self, size: PageSize) -> Nanos {
        self.move_costs[size_index(size)] * size.base_pages()
    }

    /// What moving one page of `size` up or down takes, as measured; before that, at the speed of the slowest
    /// tier, where that is known.
    pub fn move_time(&self, size: PageSize, up: bool) -> Nanos {
        let measured = if up { self.move_latency.up } else { self.move_latency.down };
        let slowest = self.tiers.iter().filter_map(|(_, tier)| tier.bandwidth).min();
        let copying = slowest.map(|rate| Nanos(size.bytes().0 * 1_000_000_000 / rate.0.max(1)));
        measured[size_index(size)].or(copying).unwrap_or_else(|| self.move_cost(size))
    }

    /// Accesses per second that a page of that size gets in the mean in a tier; infinite where that is not measured.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a mean rate")]
    pub fn mean_rate(&self, tier: TierId, size: PageSize) -> f32 {
        let reads = self.telemetry.tiers.get(tier.index()).and_then(|tier| tier.reads_per_sec);
        let pages = self.pages.bytes_in(tier).base_pages().max(1) as f64;
        reads.map_or(f32::INFINITY, |reads| (reads / pages) as f32 * size.base_pages_f32())
    }

    /// The rate of a page with that share of all accesses: of what is measured; where nothing is, its
    /// samples stand for it.
    #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
    pub fn believed_rate(&self, share: f64, samples: f64) -> f32 {
        let measured: Option<f64> =
            self.telemetry.tiers.iter().map(|tier| tier.reads_per_sec).sum();
        measured.map_or(samples, |reads| share * reads) as f32
    }
}

/// Decides.
pub trait Policy {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// Appends the moves it wants now, most wanted first, demotions ahead of the promotions that need
    /// their room.
    fn plan(&mut self, view: &mut View<'_>, plan: &mut Vec<Move>);

    /// How it wants to be served.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// The settings under which the Linux kernel is to move pages in this policy's place; such a policy
    /// plans nothing, and exists on Linux only.
    fn kernel(&self) -> Option<&kernel::Kernel> {
        None
    }

    /// The numbers that may be set.
    fn knobs(&self) -> Vec<Knob> {
        Vec::new()
    }

    /// Sets the knob of that name, before the first plan; false where there is none.
    fn set(&mut self, _knob: &str, _value: f64) -> bool {
        false
    }
}

/// An entry of the list of policies.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name users type.
    pub name: &'static str,
    /// The head of its file: what it does, when it helps, when it hurts, knobs, source.
    pub doc: &'static str,
    /// The head of the file of what it is combined with: another goal than its own, a reclaimer above.
    pub goal: Option<&'static str>,
    /// Makes one.
    pub make: fn() -> Box<dyn Policy>,
}

/// The head of Colloid's file, for the policies that have it as their goal.
const COLLOID: &str = include_str!("goal/balance.rs");

/// The head of TMO's file, for the policies that it stands above.
const TMO: &str = include_str!("tmo.rs");

/// Every policy there is; the first is the default. Help, docs and tests range over this list.
pub const POLICIES: &[Entry] = &[
    Entry {
        name: "tierline",
        doc: include_str!("tierline.rs"),
        goal: None,
        make: || Box::<tierline::Tierline>::default(),
    },
    Entry {
        name: "hemem",
        doc: include_str!("hemem.rs"),
        goal: None,
        make: || Box::new(Hemem::new("hemem", Box::new(Pack))),
    },
    Entry {
        name: "hemem+colloid",
        doc: include_str!("hemem.rs"),
        goal: Some(COLLOID),
        make: || Box::new(Hemem::new("hemem+colloid", Box::<Balance>::default())),
    },
    Entry {
        name: "memtis",
        doc: include_str!("memtis.rs"),
        goal: None,
        make: || Box::new(Memtis::new("memtis", Box::new(Pack))),
    },
    Entry {
        name: "memtis+colloid",
        doc: include_str!("memtis.rs"),
        goal: Some(COLLOID),
        make: || Box::new(Memtis::new("memtis+colloid", Box::<Balance>::default())),
    },
    Entry {
        name: "arms",
        doc: include_str!("arms.rs"),
        goal: None,
        make: || Box::<arms::Arms>::default(),
    },
    Entry {
        name: "neomem",
        doc: include_str!("neomem.rs"),
        goal: None,
        make: || Box::new(neomem::neomem("neomem")),
    },
    Entry {
        name: "tpp",
        doc: include_str!("tpp.rs"),
        goal: None,
        make: || Box::new(tpp("tpp", Box::new(Pack))),
    },
    Entry {
        name: "tpp+colloid",
        doc: include_str!("tpp.rs"),
        goal: Some(COLLOID),
        make: || Box::new(tpp("tpp+colloid", Box::<Balance>::default())),
    },
    Entry {
        name: "linux",
        doc: include_str!("linux.rs"),
        goal: None,
        make: || Box::new(linux("linux", Box::new(Pack))),
    },
    Entry {
        name: "linux+colloid",
        doc: include_str!("linux.rs"),
        goal: Some(COLLOID),
        make: || Box::new(linux("linux+colloid", Box::<Balance>::default())),
    },
    Entry {
        name: "kernel",
        doc: include_str!("kernel.rs"),
        goal: None,
        make: || Box::<kernel::Kernel>::default(),
    },
    Entry {
        name: "tierline+tmo",
        doc: include_str!("tierline.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("tierline+tmo", Box::<tierline::Tierline>::default())),
    },
    Entry {
        name: "tpp+tmo",
        doc: include_str!("tpp.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("tpp+tmo", Box::new(tpp("tpp", Box::new(Pack))))),
    },
    Entry {
        name: "linux+tmo",
        doc: include_str!("linux.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("linux+tmo", Box::new(linux("linux", Box::new(Pack))))),
    },
    Entry {
        name: "paging+tmo",
        doc: include_str!("paging.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over_paging("paging+tmo", Box::new(paging::paging()))),
    },
    Entry {
        name: "first-touch+tmo",
        doc: include_str!("first_touch.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("first-touch+tmo", Box::new(first_touch::FirstTouch))),
    },
    Entry {
        name: "autonuma",
        doc: include_str!("autonuma.rs"),
        goal: None,
        make: || Box::new(autonuma("autonuma")),
    },
    Entry {
        name: "autotiering",
        doc: include_str!("autotiering.rs"),
        goal: None,
        make: || Box::<autotiering::Autotiering>::default(),
    },
    Entry {
        name: "damon",
        doc: include_str!("damon.rs"),
        goal: None,
        make: || Box::<damon::Damon>::default(),
    },
    Entry {
        name: "oracle",
        doc: include_str!("oracle.rs"),
        goal: None,
        make: || Box::<oracle::Oracle>::default(),
    },
    Entry {
        name: "fixed",
        doc: include_str!("fixed.rs"),
        goal: None,
        make: || Box::<fixed::Fixed>::default(),
    },
    Entry {
        name: "paging",
        doc: include_str!("paging.rs"),
        goal: None,
        make: || Box::new(paging::paging()),
    },
    Entry {
        name: "first-touch",
        doc: include_str!("first_touch.rs"),
        goal: None,
        make: || Box::new(first_touch::FirstTouch),
    },
    Entry { name: "hold", doc: include_str!("hold.rs"), goal: None, make: || Box::new(hold::Hold) },
];

impl Entry {
    /// The policy of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|entry| entry.name == name)
    }

    /// What the policy's file, and that of what it is combined with, say of themselves, as plain text.
    pub fn explain(&self) -> String {
        let policy = head(self.doc);
        let Some(goal) = self.goal.map(head) else { return policy };
        let summary = |text: &str| text.lines().next().unwrap_or_default().to_string();
        format!("{}: {} With {}\n\n{policy}\n{goal}", self.name, summary(&policy), summary(&goal))
    }
}

/// The head of a source file, without what marks it as one.
fn head(source: &str) -> String {
    let lines = source.lines().skip(1).take_while(|line| line.starts_with("//!"));
    lines
        .map(|line| {
            line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_string() + "\n"
        })
        .collect()
}
