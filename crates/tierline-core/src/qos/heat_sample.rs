// SPDX-License-Identifier: Apache-2.0
//! The need curve of a running program from the heat of its pages: a prediction, without moving a page.
//!
//! Every k-th page stands for k pages, so the cost does not grow with the program. The heat is the policy's own;
//! if that is not in proportion to accesses, the curve only orders memory. Ours.

use super::heat_curve::HeatCurve;
use crate::page::PageIdx;
use crate::policy::interface::Policy;
use crate::policy::view::Memory;
use crate::port::TenantId;

/// Pages looked up, at most.
const PAGES: u64 = 4096;

/// The need curve of a tenant.
pub fn curve(memory: &Memory<'_>, policy: &dyn Policy, tenant: TenantId) -> HeatCurve {
    let runs = memory.pages.runs_of(tenant);
    let all: u64 = runs.iter().map(|run| u64::from(run.1)).sum();
    let step = all.div_ceil(PAGES).max(1);
    let (mut parts, mut skip) = (Vec::new(), 0);
    for (first, count) in runs {
        let count = u64::from(count);
        while skip < count {
            let offset = usize::try_from(skip).unwrap_or(usize::MAX);
            let page = PageIdx::from_index(first.index() + offset);
            if let Some(at) = memory.pages.locate(page) {
                let heat = policy.heat(memory, page).likely;
                parts.push((at.size.bytes() * step, f64::from(heat)));
            }
            skip += step;
        }
        skip -= count;
    }
    HeatCurve::of_parts(parts)
}
