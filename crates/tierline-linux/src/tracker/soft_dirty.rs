// SPDX-License-Identifier: Apache-2.0
//! Soft-dirty bits: which pages were *written*, for kernels without a better way.
//!
//! What it does. Writes `4` to `/proc/PID/clear_refs`, which write-protects every page and clears its
//! soft-dirty bit; after the window, pages with bit 55 set in `/proc/PID/pagemap` were written. If the kernel
//! supports it, the `PAGEMAP_SCAN` call finds those without reading an entry per page.
//!
//! When it helps. If `/proc/kcore` is locked and hint faults are in use by another program; for programs that
//! write what they read.
//!
//! When it hurts. Reads are not observed: a read-mostly hot set looks cold. Each first write to a page after
//! arming faults (about 1 us natively), so short pauses slow the program down.
//!
//! Knobs. Those of [`WindowSettings`].
//!
//! Where it comes from. CRIU's incremental checkpoints (Documentation/admin-guide/mm/soft-dirty.rst).

use std::ops::Range;

use tierline_core::port::{Observations, PageSize, SpaceId};
use tierline_core::tier::Tiers;
use tierline_core::unit::Bytes;

use crate::error::{Error, Result};
use crate::nodes::{FrameTiers, Nodes};
use crate::pagemap::{Pagemap, mapped_ranges, page, scan};
use crate::root::Root;
use crate::tracker::access_bits::{AccessBits, ReadCounts};
use crate::tracker::entry::TrackerEntry;
use crate::tracker::needs::{self, readable};
use crate::tracker::tier_runs::{TierRun, TierRuns};
use crate::tracker::window::WindowSettings;
use crate::tracker::windowed::{Windowed, clear_refs, is_gone, unless_gone};

/// In every 16th scan all entries are read, for the tiers and the number of pages.
const RESIDENCE_EVERY: u64 = 16;

const WRITTEN: u64 = scan::PRESENT | scan::SOFT_DIRTY;

/// The tracker in the list.
pub const SOFT_DIRTY: TrackerEntry = TrackerEntry {
    name: "soft_dirty",
    sees: "stores only, to single pages, in every tier",
    costs: "a page fault for every page written in a window",
    samples: false,
    needs: |root| {
        vec![
            needs::clear_refs(root),
            (readable(root, "/proc/self/pagemap"), "/proc/PID/pagemap"),
            (soft_dirty_works(root), "CONFIG_MEM_SOFT_DIRTY"),
        ]
    },
    open: |at| Ok(Box::new(SoftDirty::new(at.root, at.tiers, WindowSettings::default())?)),
};

/// The tracker.
pub type SoftDirty = Windowed<SoftDirtyBits>;

/// Clears and reads soft-dirty bits.
pub struct SoftDirtyBits {
    root: Root,
    tiers: Tiers,
    frames: FrameTiers,
    /// False after the kernel refused `PAGEMAP_SCAN`.
    can_scan: bool,
}

/// State of one process.
#[derive(Default)]
pub struct Known {
    scans: u64,
    present: u64,
}

impl SoftDirty {
    /// A tracker for a machine with these tiers.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Format`] if the machine's memory blocks cannot be read, [`Error::Missing`] if
    /// the kernel was built without soft-dirty bits.
    pub fn new(root: &Root, tiers: &Tiers, settings: WindowSettings) -> Result<Self> {
        if !soft_dirty_works(root) {
            return Err(Error::Missing {
                what: "soft-dirty tracking".into(),
                why: "this kernel was built without CONFIG_MEM_SOFT_DIRTY".into(),
                hint: "use another tracker; `tierline trackers` lists what this kernel supports"
                    .into(),
            });
        }
        let fast = tiers.0.first().map_or(Bytes::ZERO, |tier| tier.capacity);
        let frames = Nodes::read(root)?.by_tier(tiers);
        let probe =
            SoftDirtyBits { root: root.clone(), tiers: tiers.clone(), frames, can_scan: true };
        Ok(Self::with(probe, fast, settings))
    }
}

impl AccessBits for SoftDirtyBits {
    const NAME: &'static str = SOFT_DIRTY.name;
    type Space = Known;

    fn arm(&mut self, space: SpaceId, _: &mut Known) -> Result<bool> {
        unless_gone(clear_refs(&self.root, space, "4"))
    }

    fn read(
        &mut self,
        space: SpaceId,
        known: &mut Known,
        out: &mut Observations,
    ) -> Result<Option<ReadCounts>> {
        let full = known.scans.is_multiple_of(RESIDENCE_EVERY);
        let result = if self.can_scan && !full {
            self.scan(space, known, out)
        } else {
            self.read_all(space, full, out)
        };
        match result {
            Ok(seen) => {
                known.scans += 1;
                known.present = seen.present;
                Ok(Some(seen))
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn refresh(&mut self) -> Result<()> {
        self.frames = Nodes::read(&self.root)?.by_tier(&self.tiers);
        Ok(())
    }
}

impl SoftDirtyBits {
    /// Reads every entry.
    fn read_all(&self, space: SpaceId, full: bool, out: &mut Observations) -> Result<ReadCounts> {
        let mut pagemap = Pagemap::open(&self.root, space.0)?;
        let mut runs = TierRuns::new(space, Some(true));
        let mut seen = ReadCounts::default();
        for range in mapped_ranges(&self.root, space.0)? {
            pagemap.read(range, |vpn, entry| {
                let Some(page) = page(vpn, entry, &self.frames) else { return };
                seen.present += 1;
                if entry.is_soft_dirty() {
                    seen.accessed += 1;
                    runs.add_accessed(page, out);
                }
                if full {
                    runs.add_present(page, out);
                }
            })?;
        }
        runs.finish(out);
        Ok(seen)
    }

    /// Lets the kernel find the written pages. It reports neither their tiers nor the number of all pages.
    fn scan(
        &mut self,
        space: SpaceId,
        known: &Known,
        out: &mut Observations,
    ) -> Result<ReadCounts> {
        let pagemap = Pagemap::open(&self.root, space.0)?;
        let mut runs = TierRuns::new(space, Some(true));
        let mut seen = ReadCounts { present: known.present, ..ReadCounts::default() };
        for range in mapped_ranges(&self.root, space.0)? {
            let written = scan::runs(pagemap.file(), range, WRITTEN, |range| {
                let run = run(&range);
                seen.accessed += u64::from(run.pages);
                runs.add_accessed(run, out);
            });
            match written {
                Ok(()) => {}
                Err(error) if scan::is_unknown(&error) => {
                    self.can_scan = false;
                    return self.read_all(space, false, out);
                }
                Err(source) => {
                    return Err(Error::Call { call: "ioctl(PAGEMAP_SCAN)".into(), source });
                }
            }
        }
        runs.finish(out);
        Ok(seen)
    }
}

fn run(pages: &Range<u64>) -> TierRun {
    let count = u32::try_from(pages.end.saturating_sub(pages.start)).unwrap_or(u32::MAX);
    TierRun { start: pages.start, pages: count, size: PageSize::Base, tier: None }
}

/// A kernel with soft-dirty bits marks new pages: some writable mapping of ours has the flag `sd`, which the
/// kernel shows only if it has the bits.
fn soft_dirty_works(root: &Root) -> bool {
    let smaps = root.read("/proc/self/smaps").unwrap_or_default();
    let mut flags = smaps.lines().filter_map(|line| line.strip_prefix("VmFlags:"));
    flags.any(|line| line.split_whitespace().any(|flag| flag == "sd"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::tests::{fake, tiers};
    use crate::tracker::Tracker;
    use crate::tracker::window::tests::apart;
    use tierline_core::unit::Nanos;

    fn says(folder: &tempfile::TempDir, flags: &str) {
        std::fs::create_dir_all(folder.path().join("proc/self")).expect("a folder");
        std::fs::write(folder.path().join("proc/self/smaps"), flags).expect("written");
    }

    #[test]
    fn a_kernel_without_the_bits_is_refused() {
        let (folder, root) = fake(&[]);
        says(&folder, "VmFlags: rd wr mr mw me ac\n");
        let error = SoftDirty::new(&root, &tiers(), apart()).err().expect("refused");
        assert!(error.to_string().contains("CONFIG_MEM_SOFT_DIRTY"), "{error}");
    }

    #[test]
    fn written_pages_are_samples_with_their_tier() {
        let (present, dirty) = (1 << 63, 1 << 55);
        let (folder, root) = fake(&[present | dirty | 1, present | dirty | 2, present | 0x8000]);
        says(&folder, "VmFlags: rd wr mr mw me ac sd\n");
        let mut tracker = SoftDirty::new(&root, &tiers(), apart()).expect("readable");
        tracker.watch(&[SpaceId(7), SpaceId(8)]).expect("fine");
        let mut out = Observations::default();
        tracker.poll(Nanos(1), &mut out).expect("arms");
        assert_eq!(root.read("/proc/7/clear_refs").expect("written"), "4");
        tracker.poll(tracker.next_due(), &mut out).expect("reads");
        assert_eq!((tracker.stats().present, tracker.stats().accessed), (3, 2));
        assert_eq!((out.samples.len(), out.samples[0].base_pages), (1, 2));
        assert_eq!((out.samples[0].write, out.residence.len()), (Some(true), 2));
        // The second scan tries the call, which fails on a plain file, and falls back.
        tracker.poll(tracker.next_due(), &mut out).expect("arms");
        tracker.poll(tracker.next_due(), &mut out).expect("reads");
        assert_eq!((tracker.stats().accessed, out.samples.len()), (2, 2));
    }
}
