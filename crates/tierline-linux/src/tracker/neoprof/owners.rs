// SPDX-License-Identifier: Apache-2.0
//! The page stored in a frame. The kernel maps pages to frames (`/proc/PID/pagemap`), not frames to pages, so the
//! mapping is read and inverted, eight bytes per frame. The table grows with the lookups: a lookup of an unknown or
//! outdated frame is followed by walking the programs' memory a little further.

use std::ops::Range;

use rustc_hash::FxHashSet;
use tierline_core::port::{SpaceId, Vpn};

use crate::pagemap::{Pagemap, mapped_ranges};
use crate::root::Root;

/// Frames per chunk of the table; a chunk is created when one of its frames is known.
const CHUNK: usize = 4096;
/// Bits of a page number, enough for five levels of page tables; above them is the program, counted from 1.
/// 0: not known.
const VPN_BITS: u32 = 44;
const VPN: u64 = (1 << VPN_BITS) - 1;
/// The most programs watched, ended ones included, before the table is emptied.
const MOST_SPACES: usize = 1 << 14;

/// Pages by frame, of some programs in a range of frames.
pub struct Owners {
    root: Root,
    frames: Range<u64>,
    table: Vec<Option<Box<[u64; CHUNK]>>>,
    spaces: Vec<Space>,
    /// The rest of the walk; the next range is last.
    walk: Vec<(usize, Range<u64>)>,
    rounds: u64,
}

/// A program; it keeps its index after it has ended.
struct Space {
    id: SpaceId,
    pagemap: Option<Pagemap>,
}

impl Owners {
    /// An empty table for these frames.
    pub fn new(root: &Root, frames: Range<u64>) -> Self {
        let (root, table, spaces, walk) = (root.clone(), Vec::new(), Vec::new(), Vec::new());
        Self { root, frames, table, spaces, walk, rounds: 0 }
    }

    /// Sets the programs whose pages are looked up.
    pub fn watch(&mut self, spaces: &[SpaceId]) {
        let wanted: FxHashSet<SpaceId> = spaces.iter().copied().collect();
        let mut open = FxHashSet::default();
        for known in &mut self.spaces {
            if !wanted.contains(&known.id) {
                known.pagemap = None;
            } else if known.pagemap.is_some() {
                open.insert(known.id);
            }
        }
        for &id in wanted.difference(&open) {
            if self.spaces.len() == MOST_SPACES {
                (self.table, self.spaces) = (Vec::new(), Vec::new());
                return self.watch(spaces);
            }
            // A program that has already ended is handled like one that ends later.
            self.spaces.push(Space { id, pagemap: Pagemap::open(&self.root, id.0).ok() });
        }
        self.walk.clear();
    }

    /// The page that is now in `frame`, if known.
    pub fn page_of(&mut self, frame: u64) -> Option<(SpaceId, Vpn)> {
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

    /// Walks over `pages` more pages, in rounds.
    pub fn walk(&mut self, mut pages: u64) {
        let mut refilled = false;
        while pages > 0 {
            let Some((slot, range)) = self.walk.pop() else {
                if std::mem::replace(&mut refilled, true) {
                    return;
                }
                self.rounds += 1;
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

    /// Rounds started so far.
    pub fn passes(&self) -> u64 {
        self.rounds
    }

    /// Bytes of the table.
    pub fn footprint(&self) -> usize {
        self.table.iter().flatten().count() * size_of::<[u64; CHUNK]>()
    }

    fn refill(&mut self) {
        for (slot, space) in self.spaces.iter().enumerate().filter(|(_, s)| s.pagemap.is_some()) {
            // A program that has ended maps nothing.
            let ranges = mapped_ranges(&self.root, space.id.0).unwrap_or_default();
            self.walk.extend(ranges.into_iter().map(|range| (slot, range)));
        }
    }

    fn read(&mut self, slot: usize, pages: Range<u64>) {
        let Some(mut pagemap) = self.spaces.get_mut(slot).and_then(|space| space.pagemap.take())
        else {
            return;
        };
        // If a program ends meanwhile, the reading ends.
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

    /// The entry of a frame, created if missing; `None` outside the range.
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
        assert_eq!(owners.page_of(0x8001), None, "not walked yet");
        owners.walk(2);
        assert_eq!(owners.page_of(0x8001), Some((ME, Vpn(2))));
        assert_eq!((owners.page_of(5), owners.page_of(0x9fff), owners.passes()), (None, None, 1));
        owners.walk(2);
        assert_eq!(owners.page_of(0x9fff), Some((ME, Vpn(5))));
        assert_eq!(owners.footprint(), 2 * 8 * CHUNK);
        owners.walk(1);
        assert_eq!(owners.passes(), 2, "two rounds");
        owners.watch(&[]);
        assert_eq!(owners.page_of(0x8001), None, "without an owner");
        owners.walk(1000);
    }

    #[test]
    fn a_known_page_is_followed_when_it_moves() {
        let (folder, root) = fake(&[PRESENT | 0x8001, PRESENT | 0x8002]);
        let mut owners = Owners::new(&root, 0x8000..0xa000);
        owners.watch(&[ME]);
        owners.walk(2);
        let pages = [0, 0, PRESENT | 0x8003, PRESENT | 4].map(u64::to_ne_bytes).concat();
        std::fs::write(folder.path().join("proc/7/pagemap"), pages).expect("a file");
        assert_eq!((owners.page_of(0x8001), owners.page_of(0x8002)), (None, None), "moved");
        assert_eq!(owners.page_of(0x8003), Some((ME, Vpn(2))), "followed without a walk");
    }
}
