// SPDX-License-Identifier: Apache-2.0
//! What a world is asked to do with pages, why, and what came of it.

use serde::Serialize;

use super::address::{PageAt, PageSize, SpaceId, Vpn};
use crate::tier::TierId;

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
    /// It is the coldest found of a tenant that has more in this tier than its limit.
    Limit {
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
            Self::Limit { .. } => 5,
        }
    }

    /// The access rate it was decided on.
    pub fn rate_per_sec(self) -> f32 {
        match self {
            Self::Hot { rate_per_sec }
            | Self::MakeRoom { rate_per_sec }
            | Self::Headroom { rate_per_sec }
            | Self::Balance { rate_per_sec }
            | Self::Limit { rate_per_sec }
            | Self::Placed { rate_per_sec } => rate_per_sec,
        }
    }

    /// Its name in metrics and event files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hot { .. } => "hot",
            Self::MakeRoom { .. } => "make_room",
            Self::Headroom { .. } => "headroom",
            Self::Balance { .. } => "balance",
            Self::Limit { .. } => "limit",
            Self::Placed { .. } => "placed",
        }
    }
}

/// One page to be moved, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Move {
    /// Whose page.
    pub space: SpaceId,
    /// The page.
    pub vpn: Vpn,
    /// Its size.
    pub size: PageSize,
    /// Where it is believed to be.
    pub from: TierId,
    /// Where it is wanted.
    pub to: TierId,
    /// Why.
    pub reason: Reason,
}

/// One thing that a world is asked to do with one page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Move the page to another tier.
    Move(Move),
    /// Page it out: write its content to the file or the swap device behind it and free its memory. The next access
    /// brings the page back, wherever new pages go then.
    PageOut(PageAt),
    /// Split a huge page into base pages, which stay where they are. Whether and when the world forms a huge page
    /// there again is up to the world, which reports it by [`super::SpaceEvent::Sized`].
    Split(PageAt),
}

impl Order {
    /// The page it is about.
    pub fn page(&self) -> PageAt {
        match *self {
            Self::Move(Move { space, vpn, size, .. }) => PageAt { space, vpn, size },
            Self::PageOut(page) | Self::Split(page) => page,
        }
    }

    /// The move, where it is one.
    pub fn as_move(&self) -> Option<Move> {
        if let Self::Move(m) = *self { Some(m) } else { None }
    }
}

/// What became of one order, as read back from the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done as ordered.
    Done,
    /// The page was there already, or went somewhere else: it is in this tier.
    Elsewhere(TierId),
    /// Busy or pinned for now; another try may succeed.
    Busy,
    /// Written to while it was copied: it stays; another try may succeed.
    Dirtied,
    /// The target tier has no room.
    NoRoom,
    /// No such page is mapped there.
    PageGone,
    /// The whole address space is gone.
    SpaceGone,
    /// It will not happen: the page is shared, unmovable, or not ours.
    Refused,
    /// It was not tried: a dry run.
    Skipped,
}

impl Outcome {
    /// Its name in counters, metrics and event files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Elsewhere(_) => "elsewhere",
            Self::Busy => "busy",
            Self::Dirtied => "dirtied",
            Self::NoRoom => "no_room",
            Self::PageGone => "page_gone",
            Self::SpaceGone => "space_gone",
            Self::Refused => "refused",
            Self::Skipped => "skipped",
        }
    }
}
