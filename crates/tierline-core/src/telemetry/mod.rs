// SPDX-License-Identifier: Apache-2.0
//! Estimates: page hotness from samples, in several forms, and whether placement is settled.

pub mod access_levels;
pub mod attention;
pub mod bandwidth;
pub mod counts;
pub mod estimate;
pub mod ewma;
pub mod fault_latency;
mod found_again;
pub mod heat;
pub mod histogram;
pub mod hot_spots;
pub mod hotness;
pub mod lru;
pub mod observed_regions;
pub mod page_hinkley;
mod phase_change;
pub(crate) mod population;
pub mod profile;
pub mod rates;
pub mod recapture;
pub mod sketch;
pub mod slow_hits;
pub mod subpages;
pub mod tally;

use crate::page::PageIdx;
use crate::port::{Sample, SpaceId};
use crate::tier::TierId;
use crate::unit::{BASE_PER_HUGE, Nanos};

/// Hits of one address space by tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpaceHits {
    /// The space.
    pub space: SpaceId,
    /// Its hits; those of a huge page watched for a shorter window count more.
    pub by_tier: [f64; TierId::MAX],
}

/// Whether a page belongs to the panel, the pages whose hits are reported one by one where accesses are sampled: all huge
/// pages, and one base page in 16.
pub fn is_on_panel(page: PageIdx, is_huge: bool) -> bool {
    is_huge || page.is_drawn(4)
}

/// One observed access of one page, for a policy with its own heat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The page.
    pub page: PageIdx,
    /// The tier it was in.
    pub tier: Option<TierId>,
    /// Accesses observed.
    pub hits: f32,
    /// How long the page was watched before this hit, if known: for a hint fault, its time to fault.
    pub exposure: Option<Nanos>,
    /// Whether it was a store, where known.
    pub write: Option<bool>,
    /// Which base page of a huge page was hit, by address, if the tracker knows it.
    pub base_page: Option<u16>,
}

impl Hit {
    /// The hit that `sample` reports of one of its pages.
    pub fn of(page: PageIdx, tier: Option<TierId>, sample: &Sample) -> Self {
        let &Sample { vpn, hits, exposure, write, .. } = sample;
        let within = (sample.base_pages == 1).then_some((vpn.0 % BASE_PER_HUGE) as u16);
        Self { page, tier, hits, exposure, write, base_page: within }
    }
}
