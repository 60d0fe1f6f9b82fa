// SPDX-License-Identifier: Apache-2.0
//! Trackers: the ways to observe accesses on this kernel.

pub mod access_bits;
pub mod brief;
pub mod clear_accessed;
pub mod cost;
pub mod entry;
mod families;
pub mod flush;
mod folios;
pub mod inspect;
pub mod ladder;
mod last_scan;
mod look_into;
pub(crate) mod moment;
pub(crate) mod needs;
pub mod pmu;
pub mod quick_scan;
mod reservoir;
mod second_look;
pub mod tier_runs;
pub mod units;
pub mod window;
pub mod windowed;

use std::collections::BTreeSet;

use tierline_core::port::{
    Attention, DeviceCounts, Observations, PageAddress, Region, SpaceId, Spread, Tracking,
};
use tierline_core::unit::Nanos;

use crate::conflicts::OwnUse;
use crate::error::Result;
pub use entry::TrackerEntry;

/// Declares the modules and the list of trackers: one line for a file, with its entries. rustfmt does not follow it, so
/// `./test` formats these files separately.
macro_rules! trackers {
    ($($file:ident: $($entry:ident),+;)*) => {
        $(pub mod $file;)*

        /// All trackers, best first: the first that the machine offers is used.
        pub const TRACKERS: &[TrackerEntry] = &[$($($file::$entry,)+)*];
    };
}

trackers! {
    neoprof: NEOPROF, CHMU;
    pebs: PEBS;
    ibs: IBS;
    accessed: ACCESSED;
    page_idle: PAGE_IDLE;
    hint_faults: HINT_FAULTS;
    damon: DAMON;
    soft_dirty: SOFT_DIRTY;
}

/// A source of observations on a running Linux.
///
/// A tracker is a state machine without a thread: the manager calls it when it is due. It does not know the
/// policy. When dropped, it restores what it changed on the machine.
pub trait Tracker {
    /// The name for users.
    fn name(&self) -> &'static str;

    /// The kernel features that it uses exclusively.
    fn uses(&self) -> OwnUse {
        OwnUse::default()
    }

    /// Sets the processes to watch; called whenever the set changes.
    fn watch(&mut self, spaces: &[SpaceId]) -> Result<()>;

    /// Does what is due (arms, reads) and appends observations. A process that has ended is not an error.
    fn poll(&mut self, now: Nanos, out: &mut Observations) -> Result<()>;

    /// When it should be polled next.
    fn next_due(&self) -> Nanos;

    /// Sets how closely to observe.
    fn set_attention(&mut self, attention: Attention);

    /// Sets the processes whose pages decide how long a scan watches, as their memory is the one to be found; none: all
    /// processes. A tracker without such windows continues unchanged.
    fn focus(&mut self, _spaces: &BTreeSet<SpaceId>) {}

    /// Tells that a mapping has become known. What was reported of its pages before is lost: they are to be reported again.
    fn report_again(&mut self, _mapping: &Region) {}

    /// Records base pages that were promoted, as it may be what the tracker's last report was good for.
    fn record_promotions(&mut self, _base_pages: u64) {}

    /// Records the CPU time that the manager spent on what was reported last: it is part of what looking costs.
    fn record_processing(&mut self, _cpu: Nanos) {}

    /// Reconfigures access tracking for a policy's request. A tracker that does not support the request continues
    /// unchanged.
    fn reconfigure(&mut self, _watch: Tracking) -> Result<bool> {
        Ok(false)
    }

    /// True if it reports huge pages itself.
    fn reports_page_sizes(&self) -> bool {
        false
    }

    /// False if it does not observe fast memory: the absence of samples there has no meaning.
    fn observes_fast_memory(&self) -> bool {
        true
    }

    /// True if it can look into huge pages that were just split.
    fn looks_into_splits(&self) -> bool {
        false
    }

    /// Watches the base pages of one huge page of each process that were just split, at once and briefly, and appends what was seen.
    fn look_into(&mut self, _split: &[PageAddress], _out: &mut Vec<Spread>) {}

    /// The device's latest counts of its own accesses, if there are new ones since the last call.
    fn take_device_counts(&mut self) -> Option<DeviceCounts> {
        None
    }

    /// CPU time of kernel threads for this tracker so far (kdamond), if any.
    fn kernel_cpu(&self) -> Nanos {
        Nanos::ZERO
    }
}
