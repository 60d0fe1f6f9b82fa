// SPDX-License-Identifier: Apache-2.0
//! The lab's ground truth: a QEMU TCG plugin that observes every load and store of the guest, passes them
//! through a model of caches, and counts those that reach memory: per node, per page and per phase of the
//! workload.
//!
//! The modules in the order of the data flow: [`args`] is the configuration; QEMU calls `plugin`, through the
//! declarations of `api`; the caches of `tierline_trace` filter accesses; [`vcpu`] counts; [`device`] is a
//! NeoProf in the slow node's memory, whose registers [`serve`] makes available to the guest; [`marker`]
//! divides the run into phases; [`report`] writes the files.
//!
//! # Build
//!
//! | QEMU | plugin API | command |
//! |---|---|---|
//! | 11 | 7 | `cargo build --profile guest -p lab-plugin` |
//! | 10 | 4 | `cargo build --profile guest -p lab-plugin --features api4 --target-dir target/plugin-api4` |
//!
//! Two builds are needed: QEMU reads one number, `qemu_plugin_version`; 10 refuses 7, and 11 refuses 4.
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
//! | `neoprof_log` | none | its accesses and register accesses, for `hardware/neoprof/check --replay` |
//! | `slow` | none | guest-physical ranges of the slow node, hex, end excluded: `40000000-80000000+100000000-140000000` |
//! | `kernel` | 0 | 1: count the guest's kernel too |
//! | `llc`, `ways` | 1048576, 8 | bytes and ways of the last-level cache |
//! | `insn_ps`, `fast_ps`, `slow_ps` | 300, 80000, 200000 | picoseconds of an instruction and of a miss to either node |
//!
//! The default costs are our own round numbers, not measured on any machine; a machine profile should replace them.
//!
//! # Meaning of the numbers
//!
//! The clock is `instructions * insn_ps + fast misses * fast_ps + slow misses * slow_ps`: the time of an
//! in-order core without prefetcher. It is summed over vCPUs (CPU time, not elapsed time) and excludes idle
//! time. It serves to compare placements; it is not a claim about hardware:
//!
//! - Caches are per vCPU: a 32 KiB direct-mapped first level and the last-level cache. So the hot path takes no
//!   lock (with a trace it takes one, at misses). There is no coherence, no write-back traffic and no prefetch.
//!   An access that crosses a line counts as one access to its first line.
//! - Page-table walks, instruction fetches and device DMA are not observed.
//! - Code is "kernel" if bit 63 of its address is set. This is known at translation and therefore costs
//!   nothing. Firmware and early boot run at low addresses and count as user code, and the firmware's ROM
//!   counts as fast memory: use differences between markers.
//! - Instructions are added when a translation block is entered. If one of them faults, the rest of the block
//!   is counted again when it resumes. Loads and stores are exact.

#[cfg(not(test))]
mod api;
pub mod args;
pub mod device;
pub mod marker;
// Tests link without QEMU, which defines the functions of `api`.
#[cfg(not(test))]
mod plugin;
pub mod recorder;
pub mod report;
pub mod serve;
pub mod vcpu;
