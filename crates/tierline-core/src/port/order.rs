// SPDX-License-Identifier: Apache-2.0
//! Orders to a world, their reasons, and their outcomes.

use serde::Serialize;

use super::address::{PageAddress, PageSize, SpaceId, Vpn};
use crate::tier::TierId;

/// The reason of a move.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Reason {
    /// Its accesses are expected to repay the move within the payback horizon.
    Hot {
        /// Its estimated accesses per second.
        rate_per_sec: f32,
    },
    /// It is the coldest page found, and a hotter page needs its room.
    MakeRoom {
        /// Its estimated accesses per second.
        rate_per_sec: f32,
    },
    /// It is the coldest page found, and new allocations need headroom.
    Headroom {
        /// Its estimated accesses per second.
        rate_per_sec: f32,
    },
    /// The tiers' loaded latencies differ, and moving it brings them closer.
    Balance {
        /// Its estimated accesses per second.
        rate_per_sec: f32,
    },
    /// It is the coldest page found of a tenant above its limit in this tier.
    Limit {
        /// Its estimated accesses per second.
        rate_per_sec: f32,
    },
    /// Its tier was fixed beforehand, from true rates.
    Placed {
        /// Its accesses per second.
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

    /// The access rate behind the decision.
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

/// One page to be moved, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Move {
    /// Its address space.
    pub space: SpaceId,
    /// The page.
    pub vpn: Vpn,
    /// Its size.
    pub size: PageSize,
    /// The tier it should be in now.
    pub from: TierId,
    /// The target tier.
    pub to: TierId,
    /// The reason.
    pub reason: Reason,
}

/// One order to a world, about one page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Move the page to another tier.
    Move(Move),
    /// The same for a page that other processes map, too: it moves for all of them.
    MoveShared(Move),
    /// Page it out: write its content to its file or to swap and free its memory. The next access pages it in,
    /// into the tier that new pages get then.
    PageOut(PageAddress),
    /// Split a huge page into base pages, in place. Whether and when a huge page is re-formed there is up to
    /// the world, which reports it by [`super::SpaceEvent::Sized`].
    Split(PageAddress),
}

impl Order {
    /// The page of the order.
    pub fn page(&self) -> PageAddress {
        match *self {
            Self::Move(Move { space, vpn, size, .. })
            | Self::MoveShared(Move { space, vpn, size, .. }) => PageAddress { space, vpn, size },
            Self::PageOut(page) | Self::Split(page) => page,
        }
    }

    /// The move, if it is one.
    pub fn as_move(&self) -> Option<Move> {
        match *self {
            Self::Move(m) | Self::MoveShared(m) => Some(m),
            Self::PageOut(_) | Self::Split(_) => None,
        }
    }
}

/// The outcome of one order, as reported by the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Carried out.
    Done,
    /// The page was in another tier than expected or arrived in another: it is in this tier.
    Elsewhere(TierId),
    /// Busy or pinned for now; another try may succeed.
    Busy,
    /// Written to during the copy: it stays; another try may succeed.
    Dirtied,
    /// Another process maps it, too: a child just after a fork, for a moment, or for good. [`Order::MoveShared`] moves it.
    Shared,
    /// The target tier has no room.
    NoRoom,
    /// No such page is mapped there.
    PageGone,
    /// The whole address space is gone.
    SpaceGone,
    /// Impossible: the page is unmovable, or not ours.
    Refused,
    /// Not tried: a dry run.
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
            Self::Shared => "shared",
            Self::NoRoom => "no_room",
            Self::PageGone => "page_gone",
            Self::SpaceGone => "space_gone",
            Self::Refused => "refused",
            Self::Skipped => "skipped",
        }
    }
}
