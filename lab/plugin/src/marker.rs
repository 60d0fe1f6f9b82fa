// SPDX-License-Identifier: Apache-2.0
//! Markers: a program in the guest marks the start or end of a phase.
//!
//! A marker is the instruction `nopl 0x7e11e7ID(%rax)`. It has no effect on any x86-64, so a marked program
//! also runs without the plugin. The program chooses `ID`, 0 to 255. In Rust, with a constant `ID`:
//!
//! ```text
//! asm!("nopl {}(%rax)", const 0x7e11_e700 | ID, options(att_syntax, nostack, preserves_flags));
//! ```
//!
//! (Without `nomem`, so that the compiler does not move accesses across it.) Only instrumented code is marked:
//! with `kernel=0`, user code.

use serde::Serialize;

use crate::args::Costs;
use crate::vcpu::Totals;

/// Maximum number of recorded markers; later ones are only counted.
const KEPT: usize = 100_000;
/// The summary is rewritten at each of this many first markers, then whenever their number has grown by a
/// sixteenth. A summary grows with its markers, so rewriting it at each would cost quadratic time.
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
    /// Instructions started, without the marker.
    pub instructions: u64,
    /// The same of all code, the guest's kernel included.
    pub all_instructions: u64,
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
    /// A marker with the present counts.
    pub fn new(id: u8, vcpu: u32, totals: &Totals, costs: Costs) -> Marker {
        Marker {
            id,
            vcpu,
            modelled_ps: totals.modelled_ps(costs),
            instructions: totals.instructions,
            all_instructions: totals.all_instructions,
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
    /// The recorded markers.
    pub kept: Vec<Marker>,
    /// Number of markers that were not recorded.
    pub dropped: u64,
    /// Number of markers at which the next summary is due.
    due: usize,
}

impl Log {
    /// Adds a marker. Returns whether the summary is due.
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
    fn the_log_is_bounded_and_summaries_become_rarer() {
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
