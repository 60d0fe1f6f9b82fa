// SPDX-License-Identifier: Apache-2.0
//! Markers: they report the start of a phase to the plugin of QEMU.
//!
//! `nopl 0x7e11e7ID(%rax)` has no effect on any x86-64. When it is executed, the lab's plugin records its
//! counters (`lab/plugin/src/marker.rs`).

/// The measured phase starts.
pub const START: u32 = 1;
/// The hot set has changed.
pub const JUMP: u32 = 2;
/// The measured phase ends.
pub const END: u32 = 3;
/// An interval of the measured phase has passed.
pub const INTERVAL: u32 = 4;

/// Executes marker `ID`.
#[inline(never)]
pub fn mark<const ID: u32>() {
    const { assert!(ID < 256) };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a no-op whose operand is never dereferenced. Not `nomem`, so that the compiler does not move
    // accesses across it.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {disp}",
            disp = const 0x7e11_e700 | ID,
            options(nostack, preserves_flags)
        );
    }
}
