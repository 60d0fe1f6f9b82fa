// SPDX-License-Identifier: Apache-2.0
//! Markers: how a program in the guest says "here a phase begins or ends".
//!
//! A marker is the instruction `nopl 0x7e11e7ID(%rax)`, which does nothing on any
//! x86-64, so a marked program runs unchanged without the plugin. `ID`, 0 to 255,
//! is the program's to choose. In Rust, where `ID` is a constant:
//!
//! ```text
//! asm!("nopl {}(%rax)", const 0x7e11_e700 | ID, options(att_syntax, nostack, preserves_flags));
//! ```
//!
//! (Without `nomem`: the compiler must not move accesses across it.) Only
//! instrumented code marks: with `kernel=0`, user code.

use serde::Serialize;

use crate::args::Costs;
use crate::vcpu::Totals;

/// Markers that are kept; later ones are only counted.
const KEPT: usize = 100_000;
/// At each of this many first markers the summary is due; after that, whenever
/// there are a sixteenth more. A summary grows with its markers, so one at each of
/// them would cost their square.
const EAGER: usize = 256;

/// Bytes of a marker instruction.
pub const BYTES: usize = 7;

/// The id, if these bytes are a marker.
pub fn recognise(insn: &[u8]) -> Option<u8> {
    match *insn {
        [0x0f, 0x1f, 0x80, id, 0xe7, 0x11, 0x7e] => Some(id),
        _ => None,
    }
}

/// The counts of all vCPUs when a marker was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Marker {
    /// The low byte of the marker.
    pub id: u8,
    /// The vCPU that executed it.
    pub vcpu: u32,
    /// The modelled clock.
    pub modelled_ps: u64,
    /// Instructions begun, the marker not among them.
    pub instructions: u64,
    /// Misses to the fast node.
    pub fast_misses: u64,
    /// Misses to the slow node.
    pub slow_misses: u64,
    /// Loads from guest RAM.
    pub loads: u64,
    /// Stores to guest RAM.
    pub stores: u64,
}

impl Marker {
    /// A marker at this moment.
    pub fn new(id: u8, vcpu: u32, totals: &Totals, costs: Costs) -> Marker {
        Marker {
            id,
            vcpu,
            modelled_ps: totals.modelled_ps(costs),
            instructions: totals.instructions,
            fast_misses: totals.fast.sum(),
            slow_misses: totals.slow.sum(),
            loads: totals.all.loads,
            stores: totals.all.stores,
        }
    }
}

/// The markers so far, in order.
#[derive(Default)]
pub struct Log {
    /// The first of them.
    pub kept: Vec<Marker>,
    /// How many more there were than could be kept.
    pub dropped: u64,
    /// How many make the next summary due.
    due: usize,
}

impl Log {
    /// Adds a marker and says whether the summary is due.
    pub fn push(&mut self, marker: Marker) -> bool {
        if self.kept.len() == KEPT {
            self.dropped += 1;
            return false;
        }
        self.kept.push(marker);
        let n = self.kept.len();
        if n < self.due {
            return false;
        }
        self.due = n + 1 + if n < EAGER { 0 } else { n / 16 };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_magic_nop_is_a_marker() {
        assert_eq!(recognise(&[0x0f, 0x1f, 0x80, 0x2a, 0xe7, 0x11, 0x7e]), Some(42));
        assert_eq!(recognise(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]), None, "a compiler's padding");
        assert_eq!(recognise(&[0x0f, 0x1f, 0x80, 0x2a, 0xe7, 0x11]), None);
        assert_eq!(recognise(&[]), None);
    }

    #[test]
    fn the_log_is_bounded_and_asks_ever_more_rarely() {
        let mut log = Log::default();
        let marker = Marker::new(
            1,
            0,
            &Totals::default(),
            crate::args::Costs { insn_ps: 1, fast_ps: 1, slow_ps: 1 },
        );
        let due = (0..KEPT + 5).filter(|_| log.push(marker.clone())).count();
        assert!((EAGER..2 * EAGER).contains(&due), "{due}");
        assert_eq!((log.kept.len(), log.dropped), (KEPT, 5));
    }
}
