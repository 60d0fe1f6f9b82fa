// SPDX-License-Identifier: Apache-2.0
//! Trackers: what a sampler, a scanner or a fault handler would have observed in a quantum, and its cost for
//! the program and the machine. A tracker has the same name on Linux (`tierline_linux::tracker`).

pub mod entry;

use tierline_core::port::{Attention, DeviceCounts, Observations, Tracking};
use tierline_core::rng::Rng;
use tierline_core::unit::Nanos;

use self::entry::TrackerEntry;
use crate::machine::Costs;
use crate::world::job::Job;

/// Declares the modules and the list of trackers: one line for a file, with its entries. rustfmt does not follow it, so
/// `./test` formats these files separately.
macro_rules! trackers {
    ($($file:ident: $($entry:ident),+;)*) => {
        $(pub mod $file;)*

        /// All trackers of the model; the first is the default.
        pub const TRACKERS: &[TrackerEntry] = &[$($($file::$entry,)+)*];
    };
}

trackers! {
    pebs: PEBS, IBS;
    accessed: ACCESSED, PAGE_IDLE;
    hint_faults: HINT_FAULTS;
    neoprof: NEOPROF;
    damon: DAMON;
    truth: TRUTH;
}

/// A quantum that has just ended.
#[derive(Clone, Copy, Debug)]
pub struct Quantum {
    /// Its start.
    pub start: Nanos,
    /// Its length, ns.
    pub ns: f64,
}

impl Quantum {
    /// Its end.
    pub fn end(&self) -> Nanos {
        self.start + crate::machine::nanos(self.ns)
    }
}

/// A source of observations in the model.
pub trait Tracker {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// Appends the observations of a quantum, and charges the programs for them. Returns the CPU time of the
    /// tracker's threads, ns.
    fn watch(
        &mut self,
        quantum: Quantum,
        jobs: &mut [Job],
        costs: &Costs,
        rng: &mut Rng,
        out: &mut Observations,
    ) -> f64;

    /// Reconfigures the tracker at a policy's request.
    fn reconfigure(&mut self, _watch: Tracking) -> bool {
        false
    }

    /// False if it observes nothing of the fastest tier: a missing access then means nothing.
    fn observes_fast_memory(&self) -> bool {
        true
    }

    /// Report of a counting device since the last call.
    fn take_device_counts(&mut self) -> Option<DeviceCounts> {
        None
    }

    /// Sets how closely to observe.
    fn set_attention(&mut self, _attention: Attention) {}
}
