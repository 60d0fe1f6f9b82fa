// SPDX-License-Identifier: Apache-2.0
//! The page table: eight bytes of state for every managed page.
//!
//! A [`Region`] maps a run of virtual pages to a run of dense 32-bit indices (`regions.rs`, `indices.rs`). The
//! state of a page is one word at its index (`words.rs`), so a sample costs one cache miss. Memory that is
//! mapped and never sampled costs nothing. No function here walks pages that the caller did not name.
//!
//! An address space belongs to a tenant. Regions, words and moves do not depend on the tenant; a tenant's bytes
//! in each tier are the sums over its spaces.

mod indices;
mod mapping;
mod regions;
mod words;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use self::indices::Indices;
pub use self::indices::PageIdx;
pub use self::regions::PageLocation;
use self::regions::{Found, Space};
use self::words::Words;
pub use self::words::{METADATA_BYTES_PER_PAGE, PREFETCH_BATCH, PageState, PageWord, WORD_BITS};
use crate::port::{PageSize, Residence, SpaceEvent, SpaceId, TenantId, Vpn};
use crate::tier::TierId;
use crate::unit::Bytes;

/// Declares a form of heat that is a word of bits, interpreted by one module.
macro_rules! page_word {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u64);

        impl $crate::page::PageWord for $name {
            const FORM: &'static str = stringify!($name);

            fn of_bits(bits: u64) -> Self {
                Self(bits)
            }

            fn bits(self) -> u64 {
                self.0
            }
        }
    };
}
pub(crate) use page_word;

/// Bytes of each tenant that the page table knows, by tier.
pub type UseByTenant = BTreeMap<TenantId, [Bytes; TierId::MAX]>;

/// All managed pages.
#[derive(Default)]
pub struct PageTable {
    words: Words,
    spaces: BTreeMap<SpaceId, Space>,
    /// Each run by its first index.
    by_index: BTreeMap<u32, Found>,
    indices: Indices,
    /// Huge pages reported where memory is not mapped yet: first page and number of base pages.
    unmapped_huge: BTreeMap<(SpaceId, Vpn), u64>,
    in_tier: [u64; TierId::MAX],
    base_pages: u64,
    /// The run found last: most samples and moves are in few runs.
    last_found: Cell<Found>,
}

impl fmt::Debug for PageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageTable")
            .field("base_pages", &self.base_pages)
            .field("regions", &self.by_index.len())
            .finish_non_exhaustive()
    }
}

impl PageTable {
    /// Applies one change to the managed memory.
    pub fn apply(&mut self, event: SpaceEvent) {
        self.last_found.take();
        match event {
            SpaceEvent::Mapped(region) => self.map(region),
            SpaceEvent::Sized(space, vpn, base_pages, size) => {
                self.resize(space, vpn.0, vpn.0.saturating_add(base_pages), size);
            }
            SpaceEvent::Unmapped(space, vpn, base_pages) => {
                self.unmap(space, vpn.0, vpn.0.saturating_add(base_pages));
            }
            SpaceEvent::Gone(space) => self.remove_space(space),
            SpaceEvent::Owned(space, tenant) => {
                self.spaces.entry(space).or_default().tenant = tenant;
            }
            SpaceEvent::Represents(space, represents) => {
                self.spaces.entry(space).or_default().represents = represents;
            }
        }
    }

    /// Base pages mapped.
    pub fn base_pages(&self) -> u64 {
        self.base_pages
    }

    /// Bytes of managed memory known to be in `tier`.
    pub fn bytes_in(&self, tier: TierId) -> Bytes {
        Bytes::from_base_pages(self.in_tier[tier.index()])
    }

    /// Bytes known to be in each tier, for every tenant with an address space.
    pub fn by_tenant(&self) -> UseByTenant {
        let mut tenants = UseByTenant::new();
        for space in self.spaces.values() {
            let sums = tenants.entry(space.tenant).or_default();
            for (sum, &base_pages) in sums.iter_mut().zip(&space.in_tier) {
                *sum += Bytes::from_base_pages(base_pages);
            }
        }
        tenants
    }

    /// Bytes of a tenant known to be in `tier`.
    pub fn bytes_of(&self, tenant: TenantId, tier: TierId) -> Bytes {
        let own = self.spaces.values().filter(|space| space.tenant == tenant);
        own.map(|space| Bytes::from_base_pages(space.in_tier[tier.index()])).sum()
    }

    /// The runs of pages of a tenant: first page and length of each.
    pub(crate) fn runs_of(&self, tenant: TenantId) -> Vec<(PageIdx, u32)> {
        let own = self.spaces.values().filter(|space| space.tenant == tenant);
        own.flat_map(|space| space.runs.values())
            .map(|run| (PageIdx(run.first), run.pages()))
            .collect()
    }

    /// The tenant of an address space.
    pub fn tenant_of(&self, space: SpaceId) -> TenantId {
        self.spaces.get(&space).map(|space| space.tenant).unwrap_or_default()
    }

    /// Whether what is known of a space's shared pages is known of all spaces that share them.
    pub fn represents(&self, space: SpaceId) -> bool {
        self.spaces.get(&space).is_some_and(|space| space.represents)
    }

    /// The end of all indices ever allocated.
    pub(crate) fn indices(&self) -> usize {
        self.indices.end() as usize
    }

    /// Bytes of metadata held now.
    pub fn metadata_bytes(&self) -> usize {
        self.words.bytes()
    }

    /// All spaces, in order.
    pub fn spaces(&self) -> impl Iterator<Item = SpaceId> + '_ {
        self.spaces.keys().copied()
    }

    fn take_indices(&mut self, pages: u32) -> Option<u32> {
        let first = self.indices.take(pages)?;
        self.words.cover(self.indices.end());
        Some(first)
    }

    fn release_indices(&mut self, space: SpaceId, first: u32, pages: u32, base_pages_each: u64) {
        if pages == 0 {
            return;
        }
        let of_space = self.spaces.get_mut(&space).map(|space| &mut space.in_tier);
        let mut sums = [Some(&mut self.in_tier), of_space];
        self.words.reset(first, pages, |tier| {
            for sum in sums.iter_mut().flatten() {
                sum[tier.index()] -= base_pages_each;
            }
        });
        self.indices.release(first, pages);
    }

    /// The page that holds `vpn`.
    pub fn find(&self, space: SpaceId, vpn: Vpn) -> Option<PageIdx> {
        let mut found = None;
        self.for_each(space, vpn, 1, |page| found = Some(page));
        found
    }

    /// Calls `f` for every managed page in a run of base pages, once for a huge page.
    pub fn for_each(&self, space: SpaceId, vpn: Vpn, base_pages: u32, mut f: impl FnMut(PageIdx)) {
        self.for_each_sized(space, vpn, base_pages, |page, _| f(page));
    }

    /// The same with each page's size.
    #[inline]
    pub fn for_each_sized(
        &self,
        space: SpaceId,
        vpn: Vpn,
        base_pages: u32,
        mut f: impl FnMut(PageIdx, PageSize),
    ) {
        self.for_each_run(space, vpn, base_pages, |run, size| {
            run.map(PageIdx).for_each(|page| f(page, size));
        });
    }

    /// The same by runs of pages of one size.
    #[inline]
    fn for_each_run(
        &self,
        space: SpaceId,
        vpn: Vpn,
        base_pages: u32,
        mut f: impl FnMut(Range<u32>, PageSize),
    ) {
        let end = vpn.0.saturating_add(u64::from(base_pages));
        let last = self.last_found.get();
        if last.holds(space, vpn.0, end) {
            f(last.run.pages_in(vpn.0 - last.start.0, end - last.start.0), last.run.size);
        } else {
            self.search_runs(space, vpn, end, &mut f);
        }
    }

    #[cold]
    fn search_runs(
        &self,
        space: SpaceId,
        vpn: Vpn,
        end: u64,
        f: &mut dyn FnMut(Range<u32>, PageSize),
    ) {
        let Some(Space { runs, .. }) = self.spaces.get(&space) else { return };
        let from = runs.range(..=vpn).next_back().map_or(vpn, |(&start, _)| start);
        for (&start, run) in runs.range(from..Vpn(end.max(from.0))) {
            let lo = vpn.0.max(start.0) - start.0;
            let hi = (end.min(start.0 + run.base_pages)).saturating_sub(start.0);
            if lo >= hi {
                continue;
            }
            self.last_found.set(Found { space, start, run: *run });
            f(run.pages_in(lo, hi), run.size);
        }
    }

    /// Where `page` is, or `None` if it was unmapped.
    pub fn locate(&self, page: PageIdx) -> Option<PageLocation> {
        self.last_found.get().locate(page).or_else(|| {
            let (_, &found) = self.by_index.range(..=page.0).next_back()?;
            self.last_found.set(found);
            found.locate(page)
        })
    }

    /// Whether the page is huge.
    pub fn is_huge(&self, page: PageIdx) -> bool {
        self.size_of(page) == PageSize::Huge
    }

    /// The page's size; base if it is not mapped.
    pub fn size_of(&self, page: PageIdx) -> PageSize {
        self.locate(page).map_or(PageSize::Base, |at| at.size)
    }

    /// Loads the words of these pages into the cache. The misses of many pages overlap, which is several times
    /// faster than one after the other with work in between.
    pub fn prefetch(&self, pages: impl Iterator<Item = PageIdx>) {
        std::hint::black_box(pages.fold(0, |sum, page| sum ^ self.words.get(page)));
    }

    /// The page's heat.
    pub fn heat<W: PageWord>(&self, page: PageIdx) -> W {
        self.words.heat(page)
    }

    /// Replaces the page's heat.
    pub fn set_heat<W: PageWord>(&mut self, page: PageIdx, heat: W) {
        self.update_heat(page, |_| heat);
    }

    /// Updates the page's heat with `renew`; returns its flags.
    #[inline]
    pub fn update_heat<W: PageWord>(
        &mut self,
        page: PageIdx,
        renew: impl FnOnce(W) -> W,
    ) -> PageState {
        self.words.renew(page, renew)
    }

    /// The page's flags.
    pub fn state(&self, page: PageIdx) -> PageState {
        self.words.state(page)
    }

    /// Sets whether a policy has the page in its queue of candidates.
    pub fn set_queued(&mut self, page: PageIdx, on: bool) {
        self.words.set_state(page, self.state(page).queued(on));
    }

    /// Sets whether a policy has the page in its list of residents.
    pub fn set_listed(&mut self, page: PageIdx, on: bool) {
        self.words.set_state(page, self.state(page).listed(on));
    }

    /// Records whether the kernel refuses to move the page.
    pub fn set_refused(&mut self, page: PageIdx, refused: bool) {
        self.words.set_state(page, self.state(page).refused(refused));
    }

    /// Records how often the page moved back soon after a move; more than 3 count as 3.
    pub fn set_ping_pongs(&mut self, page: PageIdx, returns: u8) {
        self.words.set_state(page, self.state(page).with_ping_pongs(returns));
    }

    /// Records the tier that a page is in.
    pub fn set_tier(&mut self, page: PageIdx, tier: TierId) {
        self.put_in_tier(page, Some(tier));
    }

    /// Records the tier of all managed pages in a run of base pages. Those whose tier was unknown get this heat, if there is
    /// one.
    pub fn set_tier_of_run<W: PageWord>(&mut self, at: &Residence, heat: Option<W>) {
        let (mut words, mut added, mut removed) =
            (std::mem::take(&mut self.words), 0, [0; TierId::MAX]);
        self.for_each_run(at.space, at.vpn, at.base_pages, |run, size| {
            words.put_run(run, at.tier, heat, |before| {
                added += size.base_pages();
                if let Some(before) = before {
                    removed[before.index()] += size.base_pages();
                }
            });
        });
        self.words = words;
        let of_space = self.spaces.get_mut(&at.space).map(|space| &mut space.in_tier);
        for sums in [Some(&mut self.in_tier), of_space].into_iter().flatten() {
            sums[at.tier.index()] += added;
            sums.iter_mut().zip(removed).for_each(|(sum, removed)| *sum -= removed);
        }
        debug_assert!(self.in_tier.iter().sum::<u64>() <= self.base_pages, "more than is mapped");
    }

    /// Records that a page is in no tier: it was paged out.
    pub fn clear_tier(&mut self, page: PageIdx) {
        self.put_in_tier(page, None);
    }

    fn put_in_tier(&mut self, page: PageIdx, tier: Option<TierId>) {
        let before = self.state(page).tier();
        let Some(at) = self.locate(page).filter(|_| before != tier) else { return };
        self.words.set_state(page, self.state(page).in_tier(tier));
        let of_space = self.spaces.get_mut(&at.space).map(|space| &mut space.in_tier);
        for sum in [Some(&mut self.in_tier), of_space].into_iter().flatten() {
            if let Some(before) = before {
                sum[before.index()] -= at.size.base_pages();
            }
            if let Some(tier) = tier {
                sum[tier.index()] += at.size.base_pages();
            }
        }
        debug_assert!(self.in_tier.iter().sum::<u64>() <= self.base_pages, "more than is mapped");
    }

    /// Recomputes all counts from the pages themselves. Walks everything: for tests only.
    ///
    /// # Panics
    /// If a count differs.
    pub fn check(&self) {
        let mut in_tier = [0; TierId::MAX];
        let (mut base_pages, mut indices) = (0, 0);
        for (&id, space) in &self.spaces {
            let (mut last_end, mut in_space) = (0, [0; TierId::MAX]);
            for (&vpn, run) in &space.runs {
                assert!(vpn.0 >= last_end, "regions overlap at {vpn:?}");
                let odd = (vpn.0 | run.base_pages) % run.size.base_pages();
                assert_eq!(odd, 0, "part of a huge page at {vpn:?}");
                last_end = vpn.0 + run.base_pages;
                base_pages += run.base_pages;
                indices += u64::from(run.pages());
                let found = Found { space: id, start: vpn, run: *run };
                assert_eq!(self.by_index.get(&run.first), Some(&found));
                for i in 0..run.pages() {
                    if let Some(tier) = self.state(PageIdx(run.first + i)).tier() {
                        in_space[tier.index()] += run.size.base_pages();
                    }
                }
            }
            assert_eq!(in_space, space.in_tier, "{id}");
            in_tier.iter_mut().zip(in_space).for_each(|(sum, n)| *sum += n);
        }
        self.indices.check(indices);
        assert_eq!(base_pages, self.base_pages);
        assert_eq!(in_tier, self.in_tier);
    }
}

#[cfg(test)]
pub(crate) mod tests;
