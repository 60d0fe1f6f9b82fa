// SPDX-License-Identifier: Apache-2.0
//! The lab's ground truth: a QEMU TCG plugin that sees every load and store of
//! the guest, passes them through a model of caches, and counts what reaches
//! memory: per node, per page and per phase of the workload.
//!
//! The modules in the order the data meets them: [`args`] configure;
//! `plugin` is called by QEMU, through the declarations of `api`; the caches of `tierline_trace`
//! filters; [`vcpu`] counts; [`device`] is a NeoProf in the slow node's memory, whose registers [`serve`] shows to the
//! guest; [`marker`] cuts the run into phases; [`report`]
//! writes the files.
//!
//! # Build
//!
//! | QEMU | plugin API | command |
//! |---|---|---|
//! | 11 | 7 | `cargo build --release -p lab-plugin` |
//! | 10 | 4 | `cargo build --release -p lab-plugin --features api4 --target-dir target/plugin-api4` |
//!
//! Two builds, because QEMU reads one number, `qemu_plugin_version`, and 10
//! refuses 7 as 11 refuses 4.
//!
//! # Use
//!
//! `-plugin liblab_plugin.so,out=PATH[,KEY=VALUE]...`
//!
//! | key | default | meaning |
//! |---|---|---|
//! | `out` | required | the JSON summary: written at exit and, with `"complete":false`, at markers |
//! | `pages` | none | misses per guest page, written at exit; format in [`report::write_pages`] |
//! | `trace`, `epoch_ms` | none, 100 | a trace (docs/design/trace-format.md) of guest frames, in epochs of the modelled clock |
//! | `neoprof` | none | a socket: NeoProf counts the slow node's accesses, and is a PCI device there (`-device vfio-user-pci`) |
//! | `neoprof_log` | none | all it sees and is asked, for `hardware/neoprof/check --replay` |
//! | `slow` | none | guest-physical ranges of the slow node, hex, end excluded: `40000000-80000000+100000000-140000000` |
//! | `kernel` | 0 | 1: the guest's kernel counts too |
//! | `llc`, `ways` | 1048576, 8 | bytes and ways of the last-level cache |
//! | `insn_ps`, `fast_ps`, `slow_ps` | 300, 80000, 200000 | picoseconds of an instruction and of a miss to either node |
//!
//! The default costs are this project's own round numbers, measured on no
//! machine; a machine profile should replace them.
//!
//! # What the numbers are
//!
//! The clock is `instructions * insn_ps + fast misses * fast_ps + slow misses *
//! slow_ps`: work as an in-order core without prefetcher would do it. It is
//! summed over vCPUs (CPU time, not elapsed time) and idle time is not in it.
//! It is a yardstick for placements, no claim about hardware:
//!
//! - Caches are per vCPU, a 32 KiB direct-mapped first level and the last-level
//!   cache, so that no lock is taken in the hot path (a trace takes one, at misses). There is no coherence, no
//!   write-back traffic, no prefetch, and an access that crosses a line counts
//!   as one access to its first line.
//! - Page-table walks, instruction fetches and device DMA are not seen.
//! - "Kernel" means that bit 63 of the code's address is set, which is known when
//!   code is translated and therefore free. Firmware and the first steps of boot
//!   run at low addresses and count as user code, and the firmware's ROM as fast
//!   memory: take differences of markers.
//! - Instructions are added when a translation block is entered. One that faults
//!   leaves its block early, and the rest of the block is counted a second time
//!   when it is resumed; loads and stores are exact.

#[cfg(not(test))]
mod api;
pub mod args;
pub mod device;
pub mod marker;
// Tests link without QEMU, which alone has what `api` declares.
#[cfg(not(test))]
mod plugin;
pub mod recorder;
pub mod report;
pub mod serve;
pub mod vcpu;
