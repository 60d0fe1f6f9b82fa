// SPDX-License-Identifier: Apache-2.0
//! Huge pages that are mapped by base pages.
//!
//! After a fork the first write to a huge page maps it by base pages; the page that is written to is copied, the others stay one
//! folio. The kernel moves such a folio whole, whichever of its pages is named: where it has been copied from, it splits it and
//! moves all of its pages. So it is taken for a huge page, and the pages that were copied for a part of it.
//!
//! Frames that are aligned and contiguous are not enough: pages of a folio that was split keep their frames.
//! `/proc/kpageflags` tells (Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::os::unix::fs::FileExt;

use tierline_core::unit::BASE_PER_HUGE;

use crate::pagetable::{PageTableFormat, TableEntries};
use crate::root::Root;

/// Flags of a frame: the first of a folio, another one of it, and of a folio of any size that can be mapped by its parts.
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;
const THP: u64 = 1 << 22;

/// Entries that map a folio, at least: one in eight may be a copy. Ours.
const MOST: usize = 448;
/// Entries that are looked at first, as most page tables map no folio: two of them agree.
const FIRST_LOOK: [usize; 3] = [64, 256, 448];

/// Finds the folios that page tables map.
#[derive(Debug)]
pub struct Folios {
    format: PageTableFormat,
    /// Without it none is found.
    flags: Option<File>,
}

impl Folios {
    /// On this machine, with tables of this format.
    pub fn open(root: &Root, format: PageTableFormat) -> Self {
        Self { format, flags: File::open(root.path("/proc/kpageflags")).ok() }
    }

    /// The first frame of the folio that most entries of a full table map, if that is a huge page.
    pub fn most(&self, entries: &TableEntries) -> Option<u64> {
        let flags = self.flags.as_ref()?;
        let first = |at: usize| self.format.frame(entries[at]).wrapping_sub(at as u64);
        let [a, b, c] = FIRST_LOOK.map(first);
        let frame = if a == b || a == c { a } else { b };
        if frame != a && b != c || !frame.is_multiple_of(BASE_PER_HUGE) {
            return None;
        }
        let maps = (0..entries.len()).filter(|at| first(*at) == frame).count();
        if maps < MOST {
            return None;
        }
        let flags_of = |frame: u64| {
            let mut word = [0; 8];
            flags.read_exact_at(&mut word, frame * 8).map_or(0, |()| u64::from_ne_bytes(word))
        };
        // The middle of a smaller folio is the first frame of another one.
        let is_huge = flags_of(frame) & (HEAD | THP) == HEAD | THP
            && flags_of(frame + BASE_PER_HUGE / 2) & TAIL != 0;
        is_huge.then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::fake;

    const FORMAT: PageTableFormat = PageTableFormat { levels: 4, encrypted: 0 };

    /// A machine whose frames from 512 to 1023 are a huge page, from 1024 on base pages, from 2048 on folios of 1 MiB.
    fn machine() -> (tempfile::TempDir, Folios) {
        let (folder, root) = fake(&[]);
        let flags = (0..3072_u64).map(|frame| match frame {
            512 | 2048 | 2304 => HEAD | THP,
            513..1024 | 2049.. => TAIL | THP,
            _ => 0,
        });
        let bytes: Vec<u8> = flags.flat_map(u64::to_ne_bytes).collect();
        std::fs::create_dir_all(root.path("/proc")).expect("a folder");
        std::fs::write(root.path("/proc/kpageflags"), bytes).expect("a file");
        let folios = Folios::open(&root, FORMAT);
        (folder, folios)
    }

    /// A table that maps the frames from this one on, of which these were copied.
    fn table(frame: u64, copied: std::ops::Range<usize>) -> TableEntries {
        std::array::from_fn(|at| {
            let frame =
                if copied.contains(&at) { 5_000 + 2 * at as u64 } else { frame + at as u64 };
            frame << 12 | 1
        })
    }

    #[test]
    fn a_folio_is_found_whichever_of_its_pages_were_copied() {
        let (_folder, folios) = machine();
        for copied in [0..0, 0..1, 64..65, 200..264, 448..512] {
            assert_eq!(folios.most(&table(512, copied.clone())), Some(512), "{copied:?}");
        }
        assert_eq!(folios.most(&table(512, 0..65)), None, "too few are left");
    }

    #[test]
    fn contiguous_frames_are_no_folio_if_it_was_split_or_is_not_aligned() {
        let (_folder, folios) = machine();
        assert_eq!(folios.most(&table(1024, 0..0)), None, "split");
        assert_eq!(folios.most(&table(2048, 0..0)), None, "two folios");
        assert_eq!(folios.most(&table(520, 0..0)), None, "not aligned");
        assert_eq!(folios.most(&table(4096, 0..0)), None, "nothing is known of these frames");
        assert_eq!(folios.most(&[0; 512]), None);
    }

    #[test]
    fn without_the_kernels_flags_there_is_none() {
        let (_folder, root) = fake(&[]);
        assert_eq!(Folios::open(&root, FORMAT).most(&table(512, 0..0)), None);
    }
}
