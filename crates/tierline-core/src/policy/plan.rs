// SPDX-License-Identifier: Apache-2.0
//! A plan: the moves that a policy wants now, and those that exceed a tenant's limit.

use std::ops::{Deref, DerefMut};

use crate::port::Move;

/// Moves over a limit that are kept; more would be useless in one tick.
const MAX_OVER_LIMIT: usize = 1 << 12;

/// The moves, most wanted first.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    moves: Vec<Move>,
    over_limit: Vec<Move>,
}

impl Plan {
    /// Records a move that its tenant's limit forbids. It is carried out if another page of the same tenant is
    /// demoted for it ([`crate::qos::enforcer`]).
    pub fn push_over_limit(&mut self, m: Move) {
        if self.over_limit.len() < MAX_OVER_LIMIT {
            self.over_limit.push(m);
        }
    }

    /// Takes the moves over limits, most wanted first.
    pub fn take_over_limit(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.over_limit)
    }

    /// Clears the plan.
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
