// SPDX-License-Identifier: Apache-2.0
//! Policies: which pages should move, and why. A policy never performs a move.
//!
//! A policy reads what is believed (page heat, tier telemetry) and writes a plan. Its cost must grow
//! with what happened, samples and moves, never with how much memory is managed: it is told which
//! pages were touched and may keep lists of its own, but it never walks the page table.

pub mod hold;
pub mod tierline;

use serde::Serialize;

use crate::migrator::size_index;
use crate::page::{PageIdx, PageTable};
use crate::port::{Move, PageSize, Telemetry};
use crate::qos::Limits;
use crate::telemetry::hotness::Hotness;
use crate::tier::Tiers;
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
}

impl Reason {
    /// A stable number for fingerprints.
    pub(crate) fn code(self) -> u64 {
        match self {
            Self::Hot { .. } => 0,
            Self::MakeRoom { .. } => 1,
            Self::Headroom { .. } => 2,
        }
    }

    /// The access rate it was decided on.
    pub fn rate_per_sec(self) -> f32 {
        match self {
            Self::Hot { rate_per_sec }
            | Self::MakeRoom { rate_per_sec }
            | Self::Headroom { rate_per_sec } => rate_per_sec,
        }
    }
}

/// All that a policy may look at in one tick.
#[derive(Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Nanos,
    /// The pages; a policy may set `queued` and `listed`, which are its own.
    pub pages: &'a mut PageTable,
    /// How to read a page's heat.
    pub hotness: &'a Hotness,
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
    /// The pages that were hit or seen in a new place since the last tick, in order of observation.
    pub touched: &'a [PageIdx],
}

impl View<'_> {
    /// What moving one page of `size` costs.
    pub fn move_cost(&self, size: PageSize) -> Nanos {
        self.move_costs[size_index(size)] * size.base_pages()
    }
}

/// Decides.
pub trait Policy {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// Appends the moves it wants now, most wanted first, demotions ahead of the promotions that need
    /// their room.
    fn plan(&mut self, view: &mut View<'_>, plan: &mut Vec<Move>);
}

/// An entry of the list of policies.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name users type.
    pub name: &'static str,
    /// The head of its file: what it does, when it helps, when it hurts, knobs, source.
    pub doc: &'static str,
    /// Makes one.
    pub make: fn() -> Box<dyn Policy>,
}

/// Every policy there is; the first is the default. Help, docs and tests range over this list.
pub const POLICIES: &[Entry] = &[
    Entry {
        name: "tierline",
        doc: include_str!("tierline.rs"),
        make: || Box::<tierline::Tierline>::default(),
    },
    Entry { name: "hold", doc: include_str!("hold.rs"), make: || Box::new(hold::Hold) },
];

impl Entry {
    /// The policy of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|entry| entry.name == name)
    }

    /// The head of the policy's file as plain text.
    pub fn explain(&self) -> String {
        let lines = self.doc.lines().skip(1).take_while(|line| line.starts_with("//!"));
        lines
            .map(|line| {
                line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_string() + "\n"
            })
            .collect()
    }
}
