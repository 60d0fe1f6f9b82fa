// SPDX-License-Identifier: Apache-2.0
//! The state of a page in one word: its heat, in some form, and its flags.
//!
//! Words lie in chunks, allocated when one of their pages is first touched.

use std::ops::Range;

use super::indices::PageIdx;
use crate::tier::TierId;

/// A chunk is as large as a huge page, so that an allocator can put it into one.
const CHUNK_BITS: u32 = 18;
pub(super) const CHUNK_PAGES: usize = 1 << CHUNK_BITS;
/// Bits of the tier: its number plus one, or zero if unknown.
const TIER: u8 = 0b111;

/// Bytes of metadata of one page, base or huge.
pub const METADATA_BYTES_PER_PAGE: usize = size_of::<Chunk>() / CHUNK_PAGES;

/// Number of pages to load into the cache together ([`super::PageTable::prefetch`]): enough to overlap as many
/// misses as processors can, few enough to stay cached until used.
pub const PREFETCH_BATCH: usize = 64;

/// Bits of a page's heat; the flags are above them.
pub const WORD_BITS: u32 = 56;

/// The words of a run of pages.
type Chunk = [u64; CHUNK_PAGES];

/// The word of an unknown page: zero, so that a fresh chunk needs no writing.
const UNKNOWN: u64 = 0;
/// The bits of heat.
const WORD: u64 = (1 << WORD_BITS) - 1;

/// A form of heat, stored in a page's word. A table holds one form only; reading it as another fails an
/// assertion.
pub trait PageWord: Copy {
    /// The form's name.
    const FORM: &'static str;

    /// From the lower [`WORD_BITS`] of a word; zero means unknown.
    fn of_bits(bits: u64) -> Self;

    /// The same bits again; at most [`WORD_BITS`].
    fn bits(self) -> u64;
}

/// The flags of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState(u8);

impl PageState {
    const QUEUED: u8 = 1 << 3;
    const LISTED: u8 = 1 << 4;
    const PING_PONGS_SHIFT: u8 = 5;
    const REFUSED: u8 = 1 << 7;

    fn of(known: u64) -> Self {
        Self((known >> WORD_BITS) as u8)
    }

    /// The tier it is in, if known.
    pub fn tier(self) -> Option<TierId> {
        (self.0 & TIER).checked_sub(1).map(TierId)
    }

    /// It is in a policy's queue of candidates.
    pub fn is_queued(self) -> bool {
        self.0 & Self::QUEUED != 0
    }

    /// It is in a policy's list of a tier's residents.
    pub fn is_listed(self) -> bool {
        self.0 & Self::LISTED != 0
    }

    /// A policy needs no further notice of it: it is listed in the fastest tier, or queued.
    pub fn is_held(self) -> bool {
        self.is_queued() || self.is_listed() && self.tier() == Some(TierId::FAST)
    }

    /// The kernel refused to move it: it is not tried again while it is mapped, or, if another process maps it, for a while.
    pub fn is_refused(self) -> bool {
        self.0 & Self::REFUSED != 0
    }

    /// How often it moved back soon after a move, up to 3.
    pub fn ping_pongs(self) -> u8 {
        (self.0 >> Self::PING_PONGS_SHIFT) & 0b11
    }

    /// The factor by which it must be hotter than others for another promotion: it doubles with each of its ping-pongs, as in
    /// NeoMem (Algorithm 1).
    pub fn ping_pong_damping(self) -> f32 {
        f32::from(1u8 << self.ping_pongs())
    }

    pub(super) fn queued(self, on: bool) -> Self {
        self.with(Self::QUEUED, on)
    }

    pub(super) fn listed(self, on: bool) -> Self {
        self.with(Self::LISTED, on)
    }

    pub(super) fn refused(self, refused: bool) -> Self {
        self.with(Self::REFUSED, refused)
    }

    pub(super) fn with_ping_pongs(self, times: u8) -> Self {
        let cleared = self.with(0b11 << Self::PING_PONGS_SHIFT, false);
        cleared.with(times.min(3) << Self::PING_PONGS_SHIFT, true)
    }

    pub(super) fn in_tier(self, tier: Option<TierId>) -> Self {
        debug_assert!(tier.is_none_or(|tier| tier.index() < TierId::MAX), "{tier:?} is no tier");
        Self(self.0 & !TIER | tier.map_or(0, |tier| tier.0 + 1))
    }

    fn with(self, flag: u8, on: bool) -> Self {
        Self(if on { self.0 | flag } else { self.0 & !flag })
    }
}

/// The words of all pages, by index.
#[derive(Default)]
pub(super) struct Words {
    chunks: Vec<Option<Box<Chunk>>>,
    /// The form of the heat in them, set by the first write.
    form: Option<&'static str>,
}

impl Words {
    /// Makes room for indices below `end`.
    pub fn cover(&mut self, end: u32) {
        debug_assert!((end as usize).div_ceil(CHUNK_PAGES) >= self.chunks.len(), "it only grows");
        self.chunks.resize_with((end as usize).div_ceil(CHUNK_PAGES), || None);
    }

    pub fn bytes(&self) -> usize {
        self.chunks.iter().flatten().count() * size_of::<Chunk>()
    }

    pub fn get(&self, page: PageIdx) -> u64 {
        let chunk = self.chunks[page.index() / CHUNK_PAGES].as_ref();
        chunk.map_or(UNKNOWN, |chunk| chunk[page.index() % CHUNK_PAGES])
    }

    fn get_mut(&mut self, page: PageIdx) -> &mut u64 {
        let chunk = &mut self.chunks[page.index() / CHUNK_PAGES];
        let chunk = chunk.get_or_insert_with(unknown_chunk);
        &mut chunk[page.index() % CHUNK_PAGES]
    }

    pub fn heat<W: PageWord>(&self, page: PageIdx) -> W {
        debug_assert!(
            self.form.is_none_or(|form| form == W::FORM),
            "heat of form {:?} read as {}",
            self.form,
            W::FORM
        );
        W::of_bits(self.get(page) & WORD)
    }

    #[inline]
    pub fn renew<W: PageWord>(&mut self, page: PageIdx, renew: impl FnOnce(W) -> W) -> PageState {
        debug_assert_eq!(
            *self.form.get_or_insert(W::FORM),
            W::FORM,
            "a table holds one form of heat"
        );
        let known = self.get_mut(page);
        let bits = renew(W::of_bits(*known & WORD)).bits();
        debug_assert!(bits <= WORD, "a page's heat has {WORD_BITS} bits: {bits:#x}");
        *known = *known & !WORD | bits;
        PageState::of(*known)
    }

    pub fn state(&self, page: PageIdx) -> PageState {
        PageState::of(self.get(page))
    }

    pub fn set_state(&mut self, page: PageIdx, state: PageState) {
        let known = self.get_mut(page);
        *known = *known & WORD | u64::from(state.0) << WORD_BITS;
    }

    /// Puts a run of pages into `tier`; those whose tier was unknown get this heat, if there is one. Calls `changed` with the
    /// tier before of each page that was not there.
    pub fn put_run<W: PageWord>(
        &mut self,
        run: Range<u32>,
        tier: TierId,
        heat: Option<W>,
        mut changed: impl FnMut(Option<TierId>),
    ) {
        for page in run.map(PageIdx) {
            let before = self.state(page);
            if before.tier() == Some(tier) {
                continue;
            }
            if before.tier().is_none()
                && let Some(heat) = heat
            {
                self.renew(page, |_: W| heat);
            }
            self.set_state(page, before.in_tier(Some(tier)));
            changed(before.tier());
        }
    }

    /// Resets a run of pages and calls `was_in` with the tier of each page that had one. Whole chunks are
    /// freed, not written.
    pub fn reset(&mut self, first: u32, pages: u32, mut was_in: impl FnMut(TierId)) {
        let (mut at, end) = (first as usize, first as usize + pages as usize);
        debug_assert!(
            end <= self.chunks.len() * CHUNK_PAGES,
            "pages up to {end} exceed the chunks"
        );
        while at < end {
            let (c, offset) = (at / CHUNK_PAGES, at % CHUNK_PAGES);
            let n = (CHUNK_PAGES - offset).min(end - at);
            if let Some(chunk) = &mut self.chunks[c] {
                for known in &mut chunk[offset..offset + n] {
                    if *known != UNKNOWN {
                        PageState::of(*known).tier().into_iter().for_each(&mut was_in);
                        *known = UNKNOWN;
                    }
                }
            }
            if n == CHUNK_PAGES {
                self.chunks[c] = None;
            }
            at += n;
        }
    }
}

/// Allocates a chunk directly on the heap, not on the stack first.
#[cold]
fn unknown_chunk() -> Box<Chunk> {
    let words = vec![UNKNOWN; CHUNK_PAGES].into_boxed_slice();
    words.try_into().expect("a chunk's length")
}
