// SPDX-License-Identifier: Apache-2.0
//! Whose page a frame holds. The kernel tells frames by page (`/proc/PID/pagemap`), not pages by frame; so what is read
//! of the one is kept as the other, eight bytes a frame, and grows with what is asked: a frame that is not known, or
//! not right any more, pays for walking the programs' memory a little further.

use std::ops::Range;

use tierline_core::port::{SpaceId, Vpn};

use crate::pagemap::{Pagemap, mapped};
use crate::root::Root;

/// Frames a chunk of the table, made when one of them is known.
const CHUNK: usize = 4096;
/// Bits of a page's number, as many as five levels of page tables can have; above them is the program, counted
/// from 1. 0: not known.
const VPN_BITS: u32 = 44;
const VPN: u64 = (1 << VPN_BITS) - 1;
/// More programs than have ever been watched since the table was last emptied.
const MOST_SPACES: usize = (1 << (64 - VPN_BITS)) - 1;

/// Pages by frame, of some programs in a range of frames.
pub struct Owners {
    root: Root,
    frames: Range<u64>,
    table: Vec<Option<Box<[u64; CHUNK]>>>,
    spaces: Vec<Space>,
    /// What is left of the walk, the next one last.
    walk: Vec<(usize, Range<u64>)>,
    passes: u64,
}

/// A program; it keeps its place in the list when it goes.
struct Space {
    id: SpaceId,
    pagemap: Option<Pagemap>,
}

impl Owners {
    /// A table for these frames, of which none is known.
    pub fn new(root: &Root, frames: Range<u64>) -> Self {
        let (root, table, spaces, walk) = (root.clone(), Vec::new(), Vec::new(), Vec::new());
        Self { root, frames, table, spaces, walk, passes: 0 }
    }

    /// Sets whose pages are asked for.
    pub fn watch(&mut self, spaces: &[SpaceId]) {
        for known in &mut self.spaces {
            if !spaces.contains(&known.id) {
                known.pagemap = None;
            }
        }
        for &id in spaces {
            if self.spaces.iter().any(|known| known.id == id && known.pagemap.is_some()) {
                continue;
            }
            if self.spaces.len() == MOST_SPACES {
                (self.table, self.spaces) = (Vec::new(), Vec::new());
                return self.watch(spaces);
            }
            // One that is gone already is found out like one that goes later.
            self.spaces.push(Space { id, pagemap: Pagemap::open(&self.root, id.0).ok() });
        }
        self.walk.clear();
    }

    /// The page that is in `frame` now, where that is known.
    pub fn of(&mut self, frame: u64) -> Option<(SpaceId, Vpn)> {
        let entry = *self.entry(frame)?;
        let slot = usize::try_from(entry >> VPN_BITS).ok()?.checked_sub(1)?;
        let vpn = entry & VPN;
        let space = self.spaces.get_mut(slot)?;
        let mut now = None;
        let read = space.pagemap.as_mut()?.read(vpn..vpn + 1, |_, entry| now = entry.pfn());
        let id = space.id;
        if read.is_ok() && now == Some(frame) {
            return Some((id, Vpn(vpn)));
        }
        // The page has moved, perhaps to another of these frames.
        *self.entry(frame)? = 0;
        now.into_iter().for_each(|frame| self.note(frame, slot, vpn));
        None
    }

    /// Walks over so many pages more, round and round.
    pub fn walk(&mut self, mut pages: u64) {
        let mut refilled = false;
        while pages > 0 {
            let Some((slot, range)) = self.walk.pop() else {
                if std::mem::replace(&mut refilled, true) {
                    return;
                }
                self.passes += 1;
                self.refill();
                continue;
            };
            let end = range.end.min(range.start + pages);
            if end < range.end {
                self.walk.push((slot, end..range.end));
            }
            pages -= end - range.start;
            self.read(slot, range.start..end);
        }
    }

    /// Rounds begun.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Bytes of the table.
    pub fn footprint(&self) -> usize {
        self.table.iter().flatten().count() * size_of::<[u64; CHUNK]>()
    }

    fn refill(&mut self) {
        for (slot, space) in self.spaces.iter().enumerate().filter(|(_, s)| s.pagemap.is_some()) {
            // A program that is gone maps nothing.
            let ranges = mapped(&self.root, space.id.0).unwrap_or_default();
            self.walk.extend(ranges.into_iter().map(|range| (slot, range)));
        }
    }

    fn read(&mut self, slot: usize, pages: Range<u64>) {
        let Some(mut pagemap) = self.spaces.get_mut(slot).and_then(|space| space.pagemap.take())
        else {
            return;
        };
        // A program that goes away meanwhile ends the reading.
        let _ = pagemap.read(pages, |vpn, entry| {
            entry.pfn().into_iter().for_each(|frame| self.note(frame, slot, vpn));
        });
        self.spaces[slot].pagemap = Some(pagemap);
    }

    fn note(&mut self, frame: u64, slot: usize, vpn: u64) {
        if let Some(entry) = self.entry(frame) {
            *entry = (slot as u64 + 1) << VPN_BITS | vpn & VPN;
        }
    }

    /// The entry of a frame, made where there was none; `None` outside the range.
    fn entry(&mut self, frame: u64) -> Option<&mut u64> {
        let inside = self.frames.contains(&frame).then(|| frame - self.frames.start)?;
        let index = usize::try_from(inside).ok()?;
        let chunk = index / CHUNK;
        if chunk >= self.table.len() {
            self.table.resize_with(chunk + 1, || None);
        }
        Some(&mut self.table[chunk].get_or_insert_with(|| Box::new([0; CHUNK]))[index % CHUNK])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::tests::fake;

    const PRESENT: u64 = 1 << 63;
    const ME: SpaceId = SpaceId(7);

    #[test]
    fn a_walk_finds_pages_in_the_range_and_goes_on_where_it_stopped() {
        let (_folder, root) = fake(&[PRESENT | 0x8001, PRESENT | 5, 0, PRESENT | 0x9fff]);
        let mut owners = Owners::new(&root, 0x8000..0xa000);
        owners.watch(&[ME, SpaceId(8)]);
        assert_eq!(owners.of(0x8001), None, "not walked yet");
        owners.walk(2);
        assert_eq!(owners.of(0x8001), Some((ME, Vpn(2))));
        assert_eq!((owners.of(5), owners.of(0x9fff), owners.passes()), (None, None, 1));
        owners.walk(2);
        assert_eq!(owners.of(0x9fff), Some((ME, Vpn(5))));
        assert_eq!(owners.footprint(), 2 * 8 * CHUNK);
        owners.walk(1);
        assert_eq!(owners.passes(), 2, "round and round");
        owners.watch(&[]);
        assert_eq!(owners.of(0x8001), None, "nobody's any more");
        owners.walk(1000);
    }

    #[test]
    fn a_page_that_moved_is_followed_where_it_was_known() {
        let (folder, root) = fake(&[PRESENT | 0x8001, PRESENT | 0x8002]);
        let mut owners = Owners::new(&root, 0x8000..0xa000);
        owners.watch(&[ME]);
        owners.walk(2);
        let pages = [0, 0, PRESENT | 0x8003, PRESENT | 4].map(u64::to_ne_bytes).concat();
        std::fs::write(folder.path().join("proc/7/pagemap"), pages).expect("a file");
        assert_eq!((owners.of(0x8001), owners.of(0x8002)), (None, None), "moved");
        assert_eq!(owners.of(0x8003), Some((ME, Vpn(2))), "followed without a walk");
    }
}
