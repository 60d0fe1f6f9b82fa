// SPDX-License-Identifier: Apache-2.0
//! swap: a toy policy, to show that one file and one line in a list are enough.
//!
//! What it does: promotes every page that it sees, while there is room.
//! When it helps: in tests only, which check it against the contract of all policies.
//! When it hurts: when fast memory is full.
//! Knobs: none.
//! Where it comes from: the need for a test.

use tierline_core::policy::Policy;
use tierline_core::policy::entry::{PolicyEntry, Role};
use tierline_core::policy::parts::ledger::Ledger;
use tierline_core::policy::plan::Plan;
use tierline_core::policy::view::View;
use tierline_core::port::Reason;
use tierline_core::tier::TierId;
use tierline_core::unit::Bytes;

pub const SWAP: PolicyEntry = PolicyEntry {
    name: "swap",
    doc: include_str!("toy_policy.rs"),
    goal: None,
    role: Role::Rival,
    make: || Box::new(Swap),
};

struct Swap;

impl Policy for Swap {
    fn name(&self) -> &'static str {
        "swap"
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        let mut ledger = Ledger::new(view, view.machine.budget, |_| Bytes::ZERO);
        for &page in view
            .evidence
            .touched
            .iter()
            .filter(|page| !view.memory.pages.state(**page).is_refused())
        {
            let rate_per_sec = view.estimate(page).rate_per_sec();
            let reason = Reason::Hot { rate_per_sec };
            let _ = ledger.plan(view.memory.pages, page, TierId::FAST, reason, plan);
        }
    }
}
