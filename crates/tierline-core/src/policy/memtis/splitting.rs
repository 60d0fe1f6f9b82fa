// SPDX-License-Identifier: Apache-2.0
//! MEMTIS's splitting of skewed huge pages.

use super::Memtis;
use super::words::{SKEW, SKEW_SHIFT, TO_SPLIT, size_of};
use crate::page::PageIdx;
use crate::policy::view::View;
use crate::port::{PageSize, SpaceId, Vpn};
use crate::telemetry::histogram::BinWord;

/// Huge pages that the thread of one tier splits per quantum, at most (100 MiB).
const SPLITS: usize = 50;

/// A huge page whose split was requested in the last tick.
#[derive(Debug)]
pub(super) struct Splitting {
    space: SpaceId,
    vpn: Vpn,
    page: PageIdx,
    word: u64,
}

impl Memtis {
    /// Halves the counts of a huge page whose counts are older than the last cooling, and computes its
    /// skewness.
    pub(super) fn cool(&mut self, page: PageIdx, word: u64) -> u64 {
        let known = self.histogram.stored_count(word).filter(|known| known.lag > 0);
        let Some(known) = known.filter(|_| size_of(word) == PageSize::Huge) else { return word };
        let skew = self.subpages.cool(page, known, self.histogram.hot());
        let word = word & !SKEW | u64::from(skew) << SKEW_SHIFT;
        self.histogram.apply_cooling(word, PageSize::Huge)
    }

    /// Requests the split of queued huge pages, some in every quantum.
    pub(super) fn split(&mut self, view: &mut View<'_>) {
        for _ in 0..(SPLITS * view.machine.tiers.len()).min(self.to_split.len()) {
            let Some(page) = self.to_split.pop_front() else { return };
            let word = view.memory.pages.heat::<BinWord>(page).0;
            let Some(at) = view.memory.pages.locate(page).filter(|_| word & TO_SPLIT != 0) else {
                continue; // unmapped since
            };
            self.residents.remove(view.memory.pages, page);
            view.memory.pages.set_heat(page, BinWord(word & !(SKEW | TO_SPLIT)));
            self.splitting.push(Splitting { space: at.space, vpn: at.vpn, page, word });
            view.orders.split.push(page);
        }
    }

    /// Lists the base pages of huge pages that were split, and lists unsplit ones again.
    pub(super) fn take_parts(&mut self, view: &mut View<'_>) {
        for Splitting { space, vpn, page, word } in std::mem::take(&mut self.splitting) {
            let Some(first) = view.memory.pages.find(space, vpn) else { continue };
            let is_split =
                view.memory.pages.locate(first).is_some_and(|at| at.size == PageSize::Base);
            if !is_split {
                self.residents.put(
                    view.memory.pages,
                    first,
                    self.class(view.memory.pages.heat::<BinWord>(first).0),
                );
                continue;
            }
            let Some(known) = self.histogram.stored_count(word) else { continue };
            let counts = self.subpages.split(page, known);
            self.histogram.split(word);
            let mut parts = Vec::with_capacity(counts.len());
            let pages = u32::try_from(counts.len()).unwrap_or(u32::MAX);
            view.memory.pages.for_each(space, vpn, pages, |part| parts.push(part));
            for (part, &count) in parts.into_iter().zip(counts.iter()) {
                let word = self.histogram.part(word, count);
                view.memory.pages.set_heat(part, BinWord(word));
                self.residents.put(view.memory.pages, part, self.class(word));
            }
        }
    }
}
