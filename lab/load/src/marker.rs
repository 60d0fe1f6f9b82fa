// SPDX-License-Identifier: Apache-2.0
//! Markers: how the plugin under the guest learns where a phase begins.
//!
//! `nopl 0x7e11e7ID(%rax)` does nothing on any x86-64; the lab's QEMU plugin
//! notes its counters when it is executed (`lab/plugin/src/marker.rs`).

/// The measured phase begins.
pub const START: u32 = 1;
/// The hot set has changed.
pub const JUMP: u32 = 2;
/// The measured phase is over.
pub const END: u32 = 3;
/// One more interval of the measured phase has gone by.
pub const INTERVAL: u32 = 4;

/// Executes marker `ID`.
#[inline(never)]
pub fn mark<const ID: u32>() {
    const { assert!(ID < 256) };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a no-op with an operand that is never dereferenced. Not `nomem`,
    // so that the compiler moves no access across it.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {disp}",
            disp = const 0x7e11_e700 | ID,
            options(nostack, preserves_flags)
        );
    }
}
