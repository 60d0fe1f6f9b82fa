// SPDX-License-Identifier: Apache-2.0
//! Idle page tracking: `/sys/kernel/mm/page_idle/bitmap`, on kernels that have it.
//!
//! What it does. Finds the frames of a process (`pagemap`), marks them idle in the bitmap, waits for the
//! window, and reads the bitmap back: a frame that is no longer idle was accessed, by any process.
//!
//! When it helps. Kernels with `CONFIG_IDLE_PAGE_TRACKING` (few: neither Debian's nor the cloud ones)
//! where `/proc/kcore` is locked. Reads and writes of all tiers are observed, without faults.
//!
//! When it hurts. Only pages on the LRU lists can be marked; a page that migrates within the window counts as
//! accessed. Marking walks the reverse map of each page: several times the cost of `accessed`. Like
//! `accessed` it does not flush the TLB, so a page whose entry stays there looks idle.
//!
//! Knobs. Those of [`WindowSettings`].
//!
//! Where it comes from. Davidov's idle page tracking, Linux 4.3
//! (Documentation/admin-guide/mm/idle_page_tracking.rst). Not tested on a kernel that has it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use tierline_core::port::{Observations, SpaceId};
use tierline_core::tier::Tiers;
use tierline_core::unit::Bytes;

use crate::error::{Error, Result};
use crate::nodes::{FrameTiers, Nodes};
use crate::pagemap::{Pagemap, mapped_ranges, page};
use crate::root::Root;
use crate::tracker::access_bits::{AccessBits, ReadCounts};
use crate::tracker::entry::TrackerEntry;
use crate::tracker::needs::readable;
use crate::tracker::tier_runs::{TierRun, TierRuns};
use crate::tracker::window::WindowSettings;
use crate::tracker::windowed::{Windowed, is_gone};

const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
/// In every 16th scan the tiers of all pages are reported, not only those of accessed pages.
const RESIDENCE_EVERY: u64 = 16;

/// The tracker in the list.
pub const PAGE_IDLE: TrackerEntry = TrackerEntry {
    name: "page_idle",
    sees: "every page accessed within a window, in every tier",
    costs: "no faults in the program; one write and one read of a bitmap per window",
    samples: false,
    needs: |root| {
        vec![
            (
                readable(root, BITMAP),
                "/sys/kernel/mm/page_idle/bitmap (CONFIG_IDLE_PAGE_TRACKING, root)",
            ),
            (readable(root, "/proc/kpageflags"), "a readable /proc/kpageflags (root)"),
        ]
    },
    open: |at| Ok(Box::new(PageIdle::new(at.root, at.tiers, WindowSettings::default())?)),
};

/// The tracker.
pub type PageIdle = Windowed<IdleBits>;

/// Marks frames idle and reads which still are.
pub struct IdleBits {
    root: Root,
    tiers: Tiers,
    frames: FrameTiers,
    path: PathBuf,
    bitmap: File,
}

/// State of one process.
#[derive(Default)]
pub struct Known {
    scans: u64,
    /// The pages that were marked, by ascending address, with their frames.
    marked: Vec<(TierRun, u64)>,
}

impl PageIdle {
    /// A tracker for a machine with these tiers.
    ///
    /// # Errors
    /// [`Error::Missing`] on a kernel without the bitmap.
    pub fn new(root: &Root, tiers: &Tiers, settings: WindowSettings) -> Result<Self> {
        let path = root.path(BITMAP);
        let bitmap = OpenOptions::new().read(true).write(true).open(&path).map_err(|source| {
            Error::Missing {
                what: "idle page tracking".into(),
                why: format!("{}: {source}", path.display()),
                hint: "it needs CONFIG_IDLE_PAGE_TRACKING=y; try the tracker `accessed`".into(),
            }
        })?;
        let fast = tiers.0.first().map_or(Bytes::ZERO, |tier| tier.capacity);
        let frames = Nodes::read(root)?.by_tier(tiers);
        let (root, tiers) = (root.clone(), tiers.clone());
        Ok(Self::with(IdleBits { root, tiers, frames, path, bitmap }, fast, settings))
    }
}

impl AccessBits for IdleBits {
    const NAME: &'static str = PAGE_IDLE.name;
    type Space = Known;

    fn arm(&mut self, space: SpaceId, known: &mut Known) -> Result<bool> {
        known.marked.clear();
        match self.find(space, &mut known.marked) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        for (word, bits) in words(&known.marked) {
            // Zero bits leave their frames unchanged.
            let result = self.bitmap.write_all_at(&bits.to_ne_bytes(), word * 8);
            self.check("write", result)?;
        }
        Ok(true)
    }

    fn read(
        &mut self,
        space: SpaceId,
        known: &mut Known,
        out: &mut Observations,
    ) -> Result<Option<ReadCounts>> {
        let mut idle = words(&known.marked);
        for (word, bits) in &mut idle {
            let mut bytes = [0; 8];
            let result = self.bitmap.read_exact_at(&mut bytes, *word * 8);
            self.check("read", result)?;
            *bits = u64::from_ne_bytes(bytes);
        }
        let full = known.scans.is_multiple_of(RESIDENCE_EVERY);
        known.scans += 1;
        let mut runs = TierRuns::new(space, None);
        let mut seen = ReadCounts::default();
        for (run, pfn) in &known.marked {
            seen.present += 1;
            if idle.get(&(pfn / 64)).is_some_and(|bits| bits >> (pfn % 64) & 1 == 0) {
                seen.accessed += 1;
                runs.add_accessed(*run, out);
            }
            if full {
                runs.add_present(*run, out);
            }
        }
        runs.finish(out);
        Ok(Some(seen))
    }

    fn refresh(&mut self) -> Result<()> {
        self.frames = Nodes::read(&self.root)?.by_tier(&self.tiers);
        Ok(())
    }
}

impl IdleBits {
    fn find(&self, space: SpaceId, pages: &mut Vec<(TierRun, u64)>) -> Result<()> {
        let mut pagemap = Pagemap::open(&self.root, space.0)?;
        for range in mapped_ranges(&self.root, space.0)? {
            pagemap.read(range, |vpn, entry| {
                pages.extend(page(vpn, entry, &self.frames).zip(entry.pfn()));
            })?;
        }
        Ok(())
    }

    fn check(&self, action: &'static str, result: std::io::Result<()>) -> Result<()> {
        match result {
            // Past the last frame: memory that was just removed.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(()),
            other => {
                other.map_err(|source| Error::File { action, path: self.path.clone(), source })
            }
        }
    }
}

/// The words of the bitmap for these frames, with the frames' bits set.
fn words(pages: &[(TierRun, u64)]) -> BTreeMap<u64, u64> {
    let mut words = BTreeMap::new();
    for (_, pfn) in pages {
        *words.entry(pfn / 64).or_insert(0) |= 1 << (pfn % 64);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::tests::{fake, tiers};
    use crate::tracker::Tracker;
    use crate::tracker::window::tests::apart;
    use tierline_core::unit::Nanos;

    #[test]
    fn frames_that_are_no_longer_idle_were_accessed() {
        let present = 1 << 63;
        let (folder, root) = fake(&[present | 3, present | 70, present | 4]);
        let path = folder.path().join(&BITMAP[1..]);
        std::fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder");
        std::fs::write(&path, [0; 16]).expect("a file");
        let mut tracker = PageIdle::new(&root, &tiers(), apart()).expect("there");
        tracker.watch(&[SpaceId(7), SpaceId(8)]).expect("fine");
        let mut out = Observations::default();
        tracker.poll(Nanos(1), &mut out).expect("marks");
        let marked: Vec<u8> = [0b11000_u64, 1 << 6].iter().flat_map(|w| w.to_ne_bytes()).collect();
        assert_eq!(std::fs::read(&path).expect("there"), marked);
        std::fs::write(&path, [0b1000_u64, 0].map(u64::to_ne_bytes).concat()).expect("a file");
        tracker.poll(tracker.next_due(), &mut out).expect("reads");
        assert_eq!((tracker.stats().present, tracker.stats().accessed), (3, 2));
        assert_eq!((out.samples.len(), out.samples[0].vpn.0), (1, 3));
        assert_eq!(out.samples[0].base_pages, 2);
    }

    #[test]
    fn a_kernel_without_it_names_the_alternative() {
        let (_folder, root) = fake(&[]);
        let error =
            PageIdle::new(&root, &tiers(), WindowSettings::default()).err().expect("not there");
        assert!(error.hint().is_some_and(|hint| hint.contains("accessed")));
    }
}
