// SPDX-License-Identifier: Apache-2.0
//! Questions after single pages: was it accessed lately?
//!
//! A reclaimer does not watch pages, it looks at the few that it is about to take. A policy asks in one
//! tick and has the answers in the next.

use crate::page::{PageIdx, PageTable};
use crate::port::{Capability, Question, World};
use crate::unit::Nanos;

/// What a policy asks, and what it was told.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// Pages to ask after before the next decision, and how far back.
    pub asked: Vec<(PageIdx, Nanos)>,
    /// The answers to what was asked last; `None` where the world cannot tell.
    pub answers: Vec<(PageIdx, Option<bool>)>,
    questions: Vec<Question>,
    accessed: Vec<bool>,
}

impl Questions {
    /// Asks the world. Pages that are gone by now get no answer.
    ///
    /// # Panics
    /// Where the world answers, but not for every page.
    pub fn put(&mut self, now: Nanos, pages: &PageTable, world: &mut dyn World) {
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
        world.accessed(now, &self.questions, &mut self.accessed);
        assert_eq!(self.accessed.len(), self.answers.len(), "a world answers every question");
        for ((_, answer), &accessed) in self.answers.iter_mut().zip(&self.accessed) {
            *answer = Some(accessed);
        }
    }
}
