// SPDX-License-Identifier: Apache-2.0
//! paging: the kernel without tiering: new pages go where there is room, and nothing is ever promoted.
//!
//! What it does: a new page goes to the fastest tier whose low watermark is free, else to the next. A tier that
//! fell below it gets no new pages until a reclaimer has paged out inactive file pages up to the high
//! watermark; all tiers are treated alike. A placed page never moves.
//!
//! When it helps: as a baseline, and if everything hot was allocated first.
//!
//! When it hurts: programs that read files first and allocate later: files fill fast memory, paging out is
//! slower than moving by orders of magnitude, and memory allocated meanwhile stays slow.
//!
//! Knobs: none.
//!
//! Where it comes from: Linux 5.12 as TPP (ASPLOS 2023) describes it in sections 5.1, 5.2 and 6.1; watermarks as in
//! `tierline-core`'s watermarks. There is no swap device, as in the paper's experiments.

use super::goal::Goal;
use super::goal::pack::Pack;
use super::interface::Wants;
use super::parts::on_fault::{Fault, OnFault, Rules, TierWatermarks};
use super::parts::watermarks::Watermarks;
use crate::knob::Knob;
use crate::page::PageTable;
use crate::port::{Allocation, Capability, Tracking};
use crate::telemetry::lru::Lru;
use crate::unit::{Bytes, Nanos};

/// The rules.
#[derive(Debug)]
pub struct Paging;

/// The policy.
pub fn paging() -> OnFault<Paging> {
    let goal: Box<dyn Goal> = Box::new(Pack);
    OnFault::new("paging", Paging, goal)
}

impl Rules for Paging {
    fn judge_fault(&mut self, _fault: &Fault, _lru: &mut Lru, _pages: &mut PageTable) -> bool {
        false
    }

    fn watermarks(&self, capacity: Bytes) -> TierWatermarks {
        TierWatermarks::of(Watermarks::of(capacity))
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::PageOut]
    }

    fn demotes(&self) -> bool {
        false
    }

    fn wants(&self, _fast_too: bool) -> Wants {
        Wants {
            // It needs no observations: nothing is armed.
            tracking: Some(Tracking::HintFaults {
                pass: Nanos::ZERO,
                bytes: Bytes::ZERO,
                floor: Nanos::from_secs(3600),
                fast_too: false,
            }),
            allocation: Some(Allocation::Kernel { coupled: true, by_type: false }),
            ..Wants::default()
        }
    }

    fn knobs(&self) -> Vec<Knob> {
        Vec::new()
    }

    fn set(&mut self, _knob: &str, _value: f64) -> bool {
        false
    }
}
