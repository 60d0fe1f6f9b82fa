// SPDX-License-Identifier: Apache-2.0
//! hold: never moves anything.
//!
//! What it does: nothing; pages stay where first touch or another program put them.
//! When it helps: as a baseline, and to observe a program without changing it.
//! When it hurts: whenever hot pages are in slow memory.
//! Knobs: none.
//! Where it comes from: the do-nothing baseline of every paper in the field ("first touch").

use super::interface::Policy;
use crate::policy::plan::Plan;
use crate::policy::view::View;

/// The policy that moves nothing.
#[derive(Clone, Copy, Debug)]
pub struct Hold;

impl Policy for Hold {
    fn name(&self) -> &'static str {
        "hold"
    }

    fn plan(&mut self, _view: &mut View<'_>, _plan: &mut Plan) {}
}
