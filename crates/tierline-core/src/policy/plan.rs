// SPDX-License-Identifier: Apache-2.0
//! A plan: the moves that a policy wants now, and those that a tenant's limit does not allow as they are.

use std::ops::{Deref, DerefMut};

use crate::port::Move;

/// Moves over a limit that are kept; more are of no use in one tick.
const MAX_OVER_LIMIT: usize = 1 << 12;

/// The moves, most wanted first.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    moves: Vec<Move>,
    over_limit: Vec<Move>,
}

impl Plan {
    /// Notes a move that would be planned, if its tenant's limit allowed it. It is made where another page of the same
    /// tenant gives way ([`crate::qos::enforcer`]).
    pub fn push_over_limit(&mut self, m: Move) {
        if self.over_limit.len() < MAX_OVER_LIMIT {
            self.over_limit.push(m);
        }
    }

    /// Takes the moves over limits, most wanted first.
    pub fn take_over_limit(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.over_limit)
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.moves.clear();
        self.over_limit.clear();
    }
}

impl Deref for Plan {
    type Target = Vec<Move>;

    fn deref(&self) -> &Vec<Move> {
        &self.moves
    }
}

impl DerefMut for Plan {
    fn deref_mut(&mut self) -> &mut Vec<Move> {
        &mut self.moves
    }
}
