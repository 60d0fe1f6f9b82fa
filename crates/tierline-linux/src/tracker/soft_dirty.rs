// SPDX-License-Identifier: Apache-2.0
//! Soft-dirty bits: which pages were *written*, on kernels that show nothing better.
//!
//! What it does. Writes `4` to `/proc/PID/clear_refs`, which write-protects every page and forgets that
//! it was written; after the window, the pages with a set bit 55 in `/proc/PID/pagemap` were written.
//! Where the kernel has it, the `PAGEMAP_SCAN` call finds those without reading an entry a page.
//!
//! When it helps. Where `/proc/kcore` is locked and hint faults are taken; for programs that write what
//! they read.
//!
//! When it hurts. Reads are not seen: a read-mostly hot set looks cold. Each first write to a page after
//! an arming faults (about 1 us natively), so short pauses tax the program.
//!
//! Knobs. Those of [`Settings`].
//!
//! Where it comes from. CRIU's incremental checkpoints (Documentation/admin-guide/mm/soft-dirty.rst).

use std::os::fd::AsRawFd;

use tierline_core::port::{Observations, PageSize, SpaceId};
use tierline_core::tier::Tiers;
use tierline_core::unit::Bytes;

use crate::error::{Error, Result};
use crate::nodes::{FrameTiers, Nodes};
use crate::pagemap::{Pagemap, mapped, page};
use crate::root::Root;
use crate::tracker::runs::{Run, Runs};
use crate::tracker::window::Settings;
use crate::tracker::windowed::{Probe, Seen, Windowed, is_gone, unless_gone};

/// Every so many scans, all entries are read: for where pages live, and how many there are.
const RESIDENCE_EVERY: u64 = 16;
/// Regions that one `PAGEMAP_SCAN` call returns at most.
const REGIONS: usize = 512;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SOFT_DIRTY: u64 = 1 << 7;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// The tracker.
pub type SoftDirty = Windowed<SoftDirtyBits>;

/// Clears and reads soft-dirty bits.
pub struct SoftDirtyBits {
    root: Root,
    tiers: Tiers,
    frames: FrameTiers,
    /// False once the kernel refused `PAGEMAP_SCAN`.
    can_scan: bool,
}

/// What is kept of one process.
#[derive(Default)]
pub struct Known {
    scans: u64,
    present: u64,
}

impl SoftDirty {
    /// A tracker for a machine with these tiers.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Format`] where the machine's memory blocks cannot be read.
    pub fn new(root: &Root, tiers: &Tiers, settings: Settings) -> Result<Self> {
        let fast = tiers.0.first().map_or(Bytes::ZERO, |tier| tier.capacity);
        let frames = Nodes::read(root)?.in_tiers(tiers);
        let probe =
            SoftDirtyBits { root: root.clone(), tiers: tiers.clone(), frames, can_scan: true };
        Ok(Self::with(probe, fast, settings))
    }
}

impl Probe for SoftDirtyBits {
    const NAME: &'static str = "soft_dirty";
    type Space = Known;

    fn arm(&mut self, space: SpaceId, _: &mut Known) -> Result<bool> {
        unless_gone(self.root.write(format!("/proc/{}/clear_refs", space.0), "4"))
    }

    fn read(
        &mut self,
        space: SpaceId,
        known: &mut Known,
        out: &mut Observations,
    ) -> Result<Option<Seen>> {
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
        self.frames = Nodes::read(&self.root)?.in_tiers(&self.tiers);
        Ok(())
    }
}

impl SoftDirtyBits {
    /// Reads every entry.
    fn read_all(&self, space: SpaceId, full: bool, out: &mut Observations) -> Result<Seen> {
        let mut pagemap = Pagemap::open(&self.root, space.0)?;
        let mut runs = Runs::new(space, Some(true));
        let mut seen = Seen::default();
        for range in mapped(&self.root, space.0)? {
            pagemap.read(range, |vpn, entry| {
                let Some(page) = page(vpn, entry, &self.frames) else { return };
                seen.present += 1;
                if entry.is_soft_dirty() {
                    seen.accessed += 1;
                    runs.touched(page, out);
                }
                if full {
                    runs.living(page, out);
                }
            })?;
        }
        runs.finish(out);
        Ok(seen)
    }

    /// Lets the kernel find the written pages. Their tiers are not seen, nor how many pages there are.
    fn scan(&mut self, space: SpaceId, known: &Known, out: &mut Observations) -> Result<Seen> {
        let pagemap = Pagemap::open(&self.root, space.0)?;
        let mut runs = Runs::new(space, Some(true));
        let mut seen = Seen { present: known.present, ..Seen::default() };
        for range in mapped(&self.root, space.0)? {
            let mut at = range.start;
            while at < range.end {
                let mut regions = [Region::default(); REGIONS];
                let Some((found, end)) = written(&pagemap, at..range.end, &mut regions)? else {
                    self.can_scan = false;
                    return self.read_all(space, false, out);
                };
                for region in &regions[..found] {
                    let run = region.run();
                    seen.accessed += u64::from(run.pages);
                    runs.touched(run, out);
                }
                at = end.max(at + 1);
            }
        }
        runs.finish(out);
        Ok(seen)
    }
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

impl Region {
    fn run(self) -> Run {
        let (start, end) = (self.start / 4096, self.end / 4096);
        let pages = u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX);
        Run { start, pages, size: PageSize::Base, tier: None }
    }
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The written pages of a range: how many regions, and the page after the last one looked at.
/// `None` where this kernel cannot tell (before 6.7, or a fake).
fn written(
    pagemap: &Pagemap,
    pages: std::ops::Range<u64>,
    regions: &mut [Region],
) -> Result<Option<(usize, u64)>> {
    let wanted = PAGE_IS_PRESENT | PAGE_IS_SOFT_DIRTY;
    let mut arg = ScanArg {
        size: size_of::<ScanArg>() as u64,
        start: pages.start * 4096,
        end: pages.end * 4096,
        vec: regions.as_mut_ptr() as u64,
        vec_len: regions.len() as u64,
        category_mask: wanted,
        return_mask: PAGE_IS_SOFT_DIRTY,
        ..ScanArg::default()
    };
    // SAFETY: `arg` is the structure that the call expects, with its own size in it; `vec` and
    // `vec_len` describe `regions`, which outlives the call and is written by nobody else.
    let found = unsafe { libc::ioctl(pagemap.file().as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
    if let Ok(found) = usize::try_from(found) {
        return Ok(Some((found.min(regions.len()), arg.walk_end / 4096)));
    }
    let source = std::io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::ENOTTY | libc::EINVAL) => Ok(None),
        _ => Err(Error::Call { call: "ioctl(PAGEMAP_SCAN)".into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pagemap::tests::{fake, tiers};
    use crate::tracker::Tracker;
    use crate::tracker::window::tests::apart;
    use tierline_core::unit::Nanos;

    #[test]
    fn written_pages_are_samples_with_their_tier() {
        let (present, dirty) = (1 << 63, 1 << 55);
        let (_folder, root) = fake(&[present | dirty | 1, present | dirty | 2, present | 0x8000]);
        let mut tracker = SoftDirty::new(&root, &tiers(), apart()).expect("readable");
        tracker.watch(&[SpaceId(7), SpaceId(8)]).expect("fine");
        let mut out = Observations::default();
        tracker.poll(Nanos(1), &mut out).expect("arms");
        assert_eq!(root.read("/proc/7/clear_refs").expect("written"), "4");
        tracker.poll(tracker.next_due(), &mut out).expect("reads");
        assert_eq!((tracker.stats().present, tracker.stats().accessed), (3, 2));
        assert_eq!((out.samples.len(), out.samples[0].base_pages), (1, 2));
        assert_eq!((out.samples[0].write, out.residence.len()), (Some(true), 2));
        // The second scan tries the call, which a plain file refuses, and falls back.
        tracker.poll(tracker.next_due(), &mut out).expect("arms");
        tracker.poll(tracker.next_due(), &mut out).expect("reads");
        assert_eq!((tracker.stats().accessed, out.samples.len()), (2, 2));
    }

    #[test]
    fn the_call_has_the_kernels_layout() {
        assert_eq!(size_of::<ScanArg>(), 96);
        assert_eq!(PAGEMAP_SCAN >> 16 & 0x3fff, 96);
    }
}
