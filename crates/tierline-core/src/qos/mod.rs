// SPDX-License-Identifier: Apache-2.0
//! Who may use how much of which tier.

use crate::tier::TierId;
use crate::unit::Bytes;

/// Limits on what the managed programs together may hold in a tier. No entry: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// One optional limit a tier, fastest first; tiers beyond the end have none.
    pub per_tier: Vec<Option<Bytes>>,
}

impl Limits {
    /// Bytes that may still come into `tier` when `used` are there; `None` where there is no limit.
    pub fn room(&self, tier: TierId, used: Bytes) -> Option<Bytes> {
        let limit = (*self.per_tier.get(tier.index())?)?;
        Some(limit.saturating_sub(used))
    }
}
