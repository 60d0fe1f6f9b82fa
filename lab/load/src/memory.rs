// SPDX-License-Identifier: Apache-2.0
//! Anonymous memory with tagged pages.
//!
//! The first word of each page is a tag, a hash of page number and seed. Loads never write it. So a page that
//! was lost, swapped with another or copied in part is detected at the end.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clap::ValueEnum;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use serde::Serialize;

use crate::rng::hash;
use crate::unit::PAGE;

/// 64-bit words of a page.
pub const WORDS: usize = PAGE / 8;

/// Advice to the kernel about huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Thp {
    /// MADV_NOHUGEPAGE
    Never,
    /// None: the system's setting applies
    Allow,
    /// MADV_HUGEPAGE
    Always,
}

/// An anonymous mapping, unmapped when dropped.
pub struct Memory {
    base: NonNull<u8>,
    pages: usize,
    seed: u64,
}

// SAFETY: the memory is accessed only through atomics, and the mapping lives as long as the value that owns it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps private pages without touching them.
    pub fn map(pages: usize, thp: Thp, seed: u64) -> io::Result<Memory> {
        Self::map_as(MapFlags::PRIVATE, pages, thp, seed)
    }

    /// Maps pages of shared memory without touching them.
    pub fn map_shared(pages: usize, thp: Thp, seed: u64) -> io::Result<Memory> {
        Self::map_as(MapFlags::SHARED, pages, thp, seed)
    }

    fn map_as(flags: MapFlags, pages: usize, thp: Thp, seed: u64) -> io::Result<Memory> {
        assert!(pages > 0, "an empty mapping");
        let bytes = pages * PAGE;
        // SAFETY: no address is requested, so no existing mapping is replaced.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        let memory =
            Memory { base: NonNull::new(base.cast()).expect("page 0 is never given"), pages, seed };
        let advice = match thp {
            Thp::Never => Some(Advice::LinuxNoHugepage),
            Thp::Allow => None,
            Thp::Always => Some(Advice::LinuxHugepage),
        };
        if let Some(advice) = advice {
            // SAFETY: the range is ours, and the advice does not change contents.
            match unsafe { madvise(base, bytes, advice) } {
                // A kernel without huge pages rejects the advice.
                Err(rustix::io::Errno::INVAL) => {}
                other => other?,
            }
        }
        Ok(memory)
    }

    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The address of a page.
    pub fn address(&self, page: usize) -> usize {
        assert!(page < self.pages);
        self.base.as_ptr() as usize + page * PAGE
    }

    /// All words of the mapping.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, readable, writable, and this long. It is accessed only through
        // this slice while self is borrowed.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.pages * WORDS) }
    }

    /// One word of a page.
    pub fn word(&self, page: usize, word: usize) -> &AtomicU64 {
        assert!(word < WORDS);
        &self.words()[page * WORDS + word]
    }

    /// Writes the tags, which populates every page.
    pub fn tag(&self) {
        self.tag_range(0..self.pages);
    }

    /// Writes the tags of some pages, which populates them.
    pub fn tag_range(&self, pages: Range<usize>) {
        for page in pages {
            self.word(page, 0).store(hash(self.seed, page as u64), Relaxed);
        }
    }

    /// Whether a page's tag is correct.
    pub fn tag_holds(&self, page: usize) -> bool {
        self.word(page, 0).load(Relaxed) == hash(self.seed, page as u64)
    }

    /// Pages with a wrong tag.
    pub fn mismatches(&self) -> impl Iterator<Item = usize> {
        (0..self.pages).filter(|&page| !self.tag_holds(page))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and no borrow of it outlives self.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.pages * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_tag_is_detected_and_other_words_may_change() {
        let memory = Memory::map(16, Thp::Never, 5).unwrap();
        memory.tag();
        memory.word(3, 1).store(9, Relaxed);
        assert_eq!(memory.mismatches().count(), 0);
        memory.word(7, 0).store(0, Relaxed);
        assert_eq!(memory.mismatches().collect::<Vec<_>>(), [7]);
    }
}
