// SPDX-License-Identifier: Apache-2.0
//! A running program's accesses from the heat of its pages: its need curve, a prediction without moving a page,
//! and its accesses per tier.
//!
//! Every k-th page stands for k pages, so the cost does not grow with the program. The heat is the policy's own;
//! if that is not in proportion to accesses, the curve only orders memory. Ours.

use super::heat_curve::HeatCurve;
use crate::page::PageIdx;
use crate::policy::interface::Policy;
use crate::policy::view::Memory;
use crate::port::TenantId;
use crate::tier::TierId;
use crate::unit::Bytes;

/// Pages looked up for a need curve, at most.
const PAGES: u64 = 4096;
/// Pages looked up for accesses per tier, at most. With 50 applications and five periods a second these are 128,000
/// pages a second. Ours.
const PAGES_OFTEN: u64 = 512;

/// How many pages are looked up, and which.
#[derive(Clone, Copy)]
struct Part {
    most: u64,
    turn: u64,
}

/// The need curve of a tenant.
pub fn curve(memory: &Memory<'_>, policy: &dyn Policy, tenant: TenantId) -> HeatCurve {
    let mut parts = Vec::new();
    let part = Part { most: PAGES, turn: 0 };
    sample(memory, policy, tenant, part, |_, bytes, heat| parts.push((bytes, heat)));
    HeatCurve::of_parts(parts)
}

/// The accesses per second of a tenant in each tier, in proportion, from other pages in each turn: averages over turns
/// become exact. Heat counts per page, whatever its size, as accesses do.
pub fn accesses(
    memory: &Memory<'_>,
    policy: &dyn Policy,
    tenant: TenantId,
    turn: u64,
) -> [f64; TierId::MAX] {
    let mut found = [0.0; TierId::MAX];
    let part = Part { most: PAGES_OFTEN, turn };
    sample(memory, policy, tenant, part, |page, _, heat| {
        let tier = memory.pages.state(page).tier();
        if let Some(sum) = tier.and_then(|tier| found.get_mut(tier.index())) {
            *sum += heat.max(0.0);
        }
    });
    found
}

/// Calls `each` with every k-th page of a tenant, the bytes that it stands for, and its heat.
fn sample(
    memory: &Memory<'_>,
    policy: &dyn Policy,
    tenant: TenantId,
    part: Part,
    mut each: impl FnMut(PageIdx, Bytes, f64),
) {
    let runs = memory.pages.runs_of(tenant);
    let all: u64 = runs.iter().map(|run| u64::from(run.1)).sum();
    let step = all.div_ceil(part.most).max(1);
    // A large prime, so that successive turns are far apart.
    let mut skip = (part.turn % step).wrapping_mul(2_654_435_761) % step;
    for (first, count) in runs {
        let count = u64::from(count);
        while skip < count {
            let offset = usize::try_from(skip).unwrap_or(usize::MAX);
            let page = PageIdx::from_index(first.index() + offset);
            if let Some(at) = memory.pages.locate(page) {
                let heat = policy.heat(memory, page).likely;
                each(page, at.size.bytes() * step, f64::from(heat));
            }
            skip += step;
        }
        skip -= count;
    }
}
