// SPDX-License-Identifier: Apache-2.0
//! Trackers: what this kernel offers to see accesses with.

pub mod accessed;
pub mod cool;
pub mod damon;
pub mod flush;
pub mod glance;
pub mod hint_faults;
pub mod ibs;
pub mod inspect;
pub mod ladder;
pub mod list;
pub(crate) mod needs;
pub mod neoprof;
pub mod page_idle;
pub mod pebs;
pub mod pmu;
pub mod runs;
pub mod soft_dirty;
pub mod window;
pub mod windowed;

use tierline_core::port::{Attention, Counted, Observations, SpaceId, Watch};
use tierline_core::unit::Nanos;

use crate::citizen::Plan;
use crate::error::Result;
pub use list::{TRACKERS, TrackerEntry};

/// A source of signs of access on a running Linux.
///
/// A tracker is a state machine without a thread: the manager calls it when it is due. It never sees
/// a policy. It restores what it changed on the machine when it is dropped.
pub trait Tracker {
    /// The name users know it by.
    fn name(&self) -> &'static str;

    /// What of the kernel it uses, which nobody else may use meanwhile.
    fn uses(&self) -> Plan {
        Plan::default()
    }

    /// Sets which processes to watch; called whenever the set changes.
    fn watch(&mut self, spaces: &[SpaceId]) -> Result<()>;

    /// Does what is due (arms, reads) and appends what was seen. A process that has gone is no error.
    fn poll(&mut self, now: Nanos, out: &mut Observations) -> Result<()>;

    /// When it wants to be polled next.
    fn next_due(&self) -> Nanos;

    /// Hears how closely to look.
    fn attend(&mut self, attention: Attention);

    /// Hears how accesses are to be seen from now on, when a policy wishes for it otherwise than before. A
    /// tracker that cannot goes on as it did.
    fn rewatch(&mut self, _watch: Watch) -> Result<bool> {
        Ok(false)
    }

    /// True if it tells of huge pages itself.
    fn tells_sizes(&self) -> bool {
        false
    }

    /// False if it sees nothing of fast memory: silence there says nothing then.
    fn sees_fast_memory(&self) -> bool {
        true
    }

    /// What a device that counts its accesses says of them, where it was asked anew since the last call.
    fn counted(&mut self) -> Option<Counted> {
        None
    }

    /// CPU time that kernel threads spent for this tracker so far (kdamond), where there are any.
    fn kernel_cpu(&self) -> Nanos {
        Nanos::ZERO
    }
}
