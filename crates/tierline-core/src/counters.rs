// SPDX-License-Identifier: Apache-2.0
//! Counts of what tiering did, with TPP's counters: attempts, successes by kind of page, failures by cause.
//!
//! A policy counts its decisions: accesses to slow pages, candidates, candidates that were demoted before,
//! attempts, and candidates without room. The migrator counts the results of its moves. All in base pages.
//! Shared memory counts as file pages, as in the paper's figures.
//!
//! Source: TPP (ASPLOS 2023), section 5.5, and the counters of its public patch.

use serde::{Deserialize, Serialize};

use crate::port::{Move, Outcome, PageKind};

/// Base pages, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Pages below the fastest tier that were observed accessed.
    pub promote_sampled: u64,
    /// Those of them that were judged hot.
    pub promote_candidate: u64,
    /// Candidates that had been demoted before; a high number means ping-pong.
    pub promote_candidate_demoted: u64,
    /// Candidates that were to be promoted, including those without room.
    pub promote_tried: u64,
    /// Private pages promoted.
    pub promote_anon: u64,
    /// File pages and shared memory promoted.
    pub promote_file: u64,
    /// Not promoted: the fastest tier is low on memory.
    pub promote_fail_low_memory: u64,
    /// Not promoted: every tier is low on memory, so nothing can be demoted to make room.
    pub promote_fail_system_low: u64,
    /// Not promoted: the page is referenced elsewhere (busy or pinned).
    pub promote_fail_references: u64,
    /// Not promoted: the page was gone, or in another tier.
    pub promote_fail_gone: u64,
    /// Private pages demoted.
    pub demote_anon: u64,
    /// File pages and shared memory demoted.
    pub demote_file: u64,
    /// Not demoted, for any cause.
    pub demote_fail: u64,
    /// Private pages paged out.
    pub page_out_anon: u64,
    /// File pages and shared memory paged out.
    pub page_out_file: u64,
}

impl Counters {
    /// Counts the outcome of a move.
    pub fn count_move(&mut self, m: &Move, kind: PageKind, outcome: Outcome) {
        let counter = match (m.to < m.from, outcome) {
            (_, Outcome::Skipped) => return,
            (true, Outcome::Done) => match kind {
                PageKind::Anonymous => &mut self.promote_anon,
                PageKind::File | PageKind::Shared => &mut self.promote_file,
            },
            (true, Outcome::NoRoom) => &mut self.promote_fail_low_memory,
            (true, Outcome::Busy | Outcome::Shared | Outcome::Refused) => {
                &mut self.promote_fail_references
            }
            (true, _) => &mut self.promote_fail_gone,
            (false, Outcome::Done) => match kind {
                PageKind::Anonymous => &mut self.demote_anon,
                PageKind::File | PageKind::Shared => &mut self.demote_file,
            },
            (false, _) => &mut self.demote_fail,
        };
        *counter += m.size.base_pages();
    }

    /// Counts a page that was paged out.
    pub fn count_page_out(&mut self, kind: PageKind, base_pages: u64) {
        match kind {
            PageKind::Anonymous => self.page_out_anon += base_pages,
            PageKind::File | PageKind::Shared => self.page_out_file += base_pages,
        }
    }

    /// Base pages not promoted, for any cause.
    pub fn promote_failed(&self) -> u64 {
        self.promote_fail_low_memory
            + self.promote_fail_system_low
            + self.promote_fail_references
            + self.promote_fail_gone
    }

    /// Base pages promoted, of any kind.
    pub fn promoted(&self) -> u64 {
        self.promote_anon + self.promote_file
    }

    /// Base pages demoted, of any kind.
    pub fn demoted(&self) -> u64 {
        self.demote_anon + self.demote_file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{PageSize, Reason, SpaceId, Vpn};
    use crate::tier::TierId;

    #[test]
    fn every_outcome_of_a_move_is_counted_once() {
        let outcomes = [
            Outcome::Done,
            Outcome::Elsewhere(TierId(1)),
            Outcome::Busy,
            Outcome::Shared,
            Outcome::NoRoom,
            Outcome::PageGone,
            Outcome::SpaceGone,
            Outcome::Refused,
        ];
        for (from, to) in [(1, 0), (0, 1)] {
            for kind in [PageKind::Anonymous, PageKind::File, PageKind::Shared] {
                let mut counters = Counters::default();
                let m = Move {
                    space: SpaceId(1),
                    vpn: Vpn(0),
                    size: PageSize::Huge,
                    from: TierId(from),
                    to: TierId(to),
                    reason: Reason::Hot { rate_per_sec: 1.0 },
                };
                outcomes.iter().for_each(|&outcome| counters.count_move(&m, kind, outcome));
                let c = counters;
                let failed = c.promote_fail_low_memory
                    + c.promote_fail_references
                    + c.promote_fail_gone
                    + c.demote_fail;
                assert_eq!(c.promoted() + c.demoted(), 512, "{c:?}");
                assert_eq!(failed, 7 * 512, "{c:?}");
                counters.count_move(&m, kind, Outcome::Skipped);
                assert_eq!(counters, c, "a dry run moves nothing");
            }
        }
    }
}
