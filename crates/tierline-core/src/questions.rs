// SPDX-License-Identifier: Apache-2.0
//! Questions about single pages: was it accessed recently?
//!
//! A reclaimer does not watch pages; it checks the few that it is about to take. A policy asks in one tick and
//! gets the answers in the next.

use crate::page::{PageIdx, PageTable};
use crate::port::{Capability, Question, World};
use crate::unit::Nanos;

/// A policy's questions and the answers.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// Pages to ask about before the next decision, each with the time that the answer covers.
    pub asked: Vec<(PageIdx, Nanos)>,
    /// The answers to the last questions; `None` if the world cannot tell.
    pub answers: Vec<(PageIdx, Option<bool>)>,
    questions: Vec<Question>,
    accessed: Vec<bool>,
}

impl Questions {
    /// Asks the world. Pages that are gone get no answer.
    ///
    /// # Panics
    /// If the number of answers differs from that of the questions.
    pub fn ask(&mut self, now: Nanos, pages: &PageTable, world: &mut dyn World) {
        self.answers.clear();
        self.questions.clear();
        self.accessed.clear();
        for (page, within) in self.asked.drain(..) {
            if let Some(at) = pages.locate(page) {
                self.answers.push((page, None));
                self.questions.push(Question { space: at.space, vpn: at.vpn, within });
            }
        }
        if self.answers.is_empty() {
            return;
        }
        if !world.capabilities().has(Capability::Answers) {
            return;
        }
        world.check_accessed(now, &self.questions, &mut self.accessed);
        assert_eq!(
            self.accessed.len(),
            self.answers.len(),
            "a world gives one answer per question"
        );
        for ((_, answer), &accessed) in self.answers.iter_mut().zip(&self.accessed) {
            *answer = Some(accessed);
        }
    }
}
