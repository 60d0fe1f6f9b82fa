// SPDX-License-Identifier: Apache-2.0
//! first-touch: new pages go to the fastest tier with room, and stay.
//!
//! What it does: allocates in the fastest tier with room, and moves nothing.
//! When it helps: as the baseline of every comparison, and where memory is allocated in the order of its heat.
//! When it hurts: as soon as the hot pages are not those allocated first.
//! Knobs: none.
//! Where it comes from: Linux without tiering; "default Linux" in TPP (section 6.1).

use super::interface::{Policy, Wants};
use crate::policy::plan::Plan;
use crate::policy::view::View;
use crate::port::Allocation;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct FirstTouch;

impl Policy for FirstTouch {
    fn name(&self) -> &'static str {
        "first-touch"
    }

    fn plan(&mut self, _view: &mut View<'_>, _plan: &mut Plan) {}

    fn wants(&self) -> Wants {
        Wants { allocation: Some(Allocation::FirstTouch), ..Wants::default() }
    }
}
