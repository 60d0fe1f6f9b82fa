// SPDX-License-Identifier: Apache-2.0
//! Offsets of registers, in bytes, and masks of their fields.
//! Generated from hardware/neoprof/registers.toml by `cargo run -p neoprof --example generate`; edit that file.

/// Write: 1: clears sketch, histogram, hot pages, monitors and hotlist; threshold and configuration stay (*ours*). Holds at once: from its answer on, lists are empty and counts are 0. Accesses that have left the crossing are forgotten; those in it wait, and count afterwards. The memory's side is cleared some cycles later; an access lost from then on is counted, an earlier one is not. A copy in progress is given up. During a clearing: starts it again. The end: STATUS.BUSY, CHMU_STATUS.IN_PROGRESS.
pub const RESET: u32 = 0x100;

/// Read: the active threshold (*ours*). Write: θ: a page is hot when its estimated count exceeds it. Clears nothing. After power-up all ones: nothing is hot (*ours*). Accesses in the pipeline may be compared with the old threshold or the new one; each with one of them.
pub const SET_THRESHOLD: u32 = 0x200;

/// Read: number of queued hot pages. At least this many can be taken. Includes every page whose access left the crossing 20 cycles ago.
pub const GET_NR_HOT_PAGE: u32 = 0x300;

/// Read: takes the oldest hot page: its page number on the device in units of 4 KiB; all ones (64 bits) if there is none (*ours*). Each page is returned once, in the order of reports. A page has 32 bits, so page ffffffff is told from none. A full queue loses no page for good: GET_NR_WITHHELD.
pub const GET_HOT_PAGE: u32 = 0x400;

/// Read: cycles sampled; 32 bits, wraps (*ours*). A value as old as four cycles of the core's clock, then four of the memory's, then four of the core's take before the request, or newer: if one of the clocks stands still, it gets older. 0 from a reset until the memory's side is cleared. The counts are not read at the same time.
pub const GET_NR_SAMPLE: u32 = 0x500;

/// Read: sampled cycles with a read; 32 bits, wraps (*ours*). As GET_NR_SAMPLE. Accesses that the sketch loses are included.
pub const GET_RD_CNT: u32 = 0x600;

/// Read: sampled cycles with a write; 32 bits, wraps (*ours*). As GET_NR_SAMPLE. Accesses that the sketch loses are included.
pub const GET_WR_CNT: u32 = 0x700;

/// Write: 1: copies the histogram, to be read by GET_HIST. The copy holds the accesses that have left the crossing when it begins, all of them and no others; the rest waits for about 105 cycles. Until the copy is whole, GET_NR_HIST_BIN reads 0. During a copy: a second copy follows, and only that is announced. During a clearing: the copy follows it.
pub const SET_HIST_EN: u32 = 0x800;

/// Read: bins of the copy not yet read: 64 after SET_HIST_EN. 0 from the write of SET_HIST_EN until the copy is whole, then 64: polling for 64 is enough.
pub const GET_NR_HIST_BIN: u32 = 0x900;

/// Read: takes the next bin, lowest first; 0 if there is none (*ours*). Valid while GET_NR_HIST_BIN is not 0.
pub const GET_HIST: u32 = 0xa00;

/// Read: the switches. Write: switches of the page monitor; both reproduce behaviour of the published artifact. Holds for accesses that leave the crossing afterwards.
pub const CONTROL: u32 = 0xb00;
/// writes are not counted.
pub const CONTROL_READS_ONLY: u64 = 0x1;
/// an access to the same page as the access before is not counted.
pub const CONTROL_DEDUPE: u64 = 0x2;

/// Read: the interval. Write: the state monitor samples one cycle in this many; 0 means 1. 100 after power-up. Starts a new interval some cycles later, while STATUS.BUSY is set. Of several writes, the last one holds; those before may have no effect.
pub const SAMPLE_INTERVAL: u32 = 0xb08;

/// Read: operations in progress. 0: every access that has arrived from the crossing, every clearing, copy and interval is complete. An access takes some cycles of both clocks to arrive. Counts of the memory's side may be older: GET_NR_SAMPLE.
pub const STATUS: u32 = 0xb10;
/// clearing, copying the histogram, accesses in the pipeline, or a reset or an interval on its way to the memory's side.
pub const STATUS_BUSY: u64 = 0x1;

/// Read: accesses counted since the reset; 32 bits, wraps. Counts an access six cycles after it left the crossing. Without lost accesses.
pub const GET_NR_ACCESS: u32 = 0xb18;

/// Read: accesses lost between the clock domains since the reset; 32 bits, wraps. As GET_NR_SAMPLE. Accesses are lost while the crossing is full, as in a clearing: all of them are counted, except those before the memory's side is cleared.
pub const GET_NR_DROPPED: u32 = 0xb20;

/// Read: number of times that a hot page found the list full; it is reported at a later access. 32 bits, wraps. Counts every such access, for either list.
pub const GET_NR_WITHHELD: u32 = 0xb28;

/// Read: the dimensions of the unit.
pub const SHAPE: u32 = 0xb30;
/// log2 of the counters per lane.
pub const SHAPE_WIDTH_LOG2: u64 = 0xff;
/// lanes.
pub const SHAPE_DEPTH: u64 = 0xff00;
/// bits per counter; counters saturate.
pub const SHAPE_COUNTER_BITS: u64 = 0xff0000;
/// log2 of the capacity of the hot-page queue.
pub const SHAPE_FIFO_LOG2: u64 = 0xff000000;

/// Read: constant.
pub const CHMU_COMMON_CAP0: u32 = 0x1000;
/// 1.
pub const CHMU_COMMON_CAP0_VERSION: u64 = 0xf;
/// 1.
pub const CHMU_COMMON_CAP0_INSTANCES: u64 = 0xff00;

/// Read: constant.
pub const CHMU_COMMON_CAP1: u32 = 0x1008;
/// bytes of an instance, without bitmap and hotlist.
pub const CHMU_COMMON_CAP1_INSTANCE_BYTES: u64 = 0xffff;

/// Read: constant; no interrupts, no epochs.
pub const CHMU_CAP0: u32 = 0x1010;
/// supported: reads, writes, both; TEE and other accesses are not distinguished.
pub const CHMU_CAP0_TRACKED: u64 = 0x3f00;
/// number of entries of the hotlist.
pub const CHMU_CAP0_HOTLIST_ENTRIES: u64 = 0xffff000000000000;

/// Read: constant.
pub const CHMU_CAP1: u32 = 0x1018;
/// bit n: 2^n × 256 B; only 4 KiB.
pub const CHMU_CAP1_UNIT_SIZES: u64 = 0xffffffff;
/// bit n: one access in 2^n; only every access.
pub const CHMU_CAP1_DOWN_SAMPLING: u64 = 0xffff00000000;
/// 0.
pub const CHMU_CAP1_EPOCH: u64 = 0x1000000000000;
/// 1.
pub const CHMU_CAP1_ALWAYS_ON: u64 = 0x2000000000000;

/// Read: offset of the range bitmap from the start of this block.
pub const CHMU_CAP2: u32 = 0x1020;

/// Read: offset of the hotlist from the start of this block.
pub const CHMU_CAP3: u32 = 0x1028;

/// Read: the value written, with RESET = 0. Write: configuration. Tracking holds for accesses that leave the crossing afterwards. Threshold and list hold, both or none, for accesses in the pipeline. With RESET, as the register RESET.
pub const CHMU_CONF0: u32 = 0x1050;
/// reads are tracked.
pub const CHMU_CONF0_TRACK_READS: u64 = 0x1;
/// writes are tracked.
pub const CHMU_CONF0_TRACK_WRITES: u64 = 0x2;
/// reads and writes are tracked.
pub const CHMU_CONF0_TRACK_BOTH: u64 = 0x4;
/// hot pages go to the hotlist.
pub const CHMU_CONF0_ENABLE: u64 = 0x10000;
/// same effect as writing 1 to the register RESET.
pub const CHMU_CONF0_RESET: u64 = 0x20000;
/// the count that must be *reached*: θ + 1; 0 means 1.
pub const CHMU_CONF0_THRESHOLD: u64 = 0xffffffff00000000;

/// Read: the value written. Write: unit size, down-sampling, reporting mode; stored without effect, as only one choice is supported.
pub const CHMU_CONF1: u32 = 0x1058;

/// Read: the value written. Write: fill level of the hotlist at which STATUS.LEVEL is set; 0 means never. Compared after each new entry; a write alone sets nothing.
pub const CHMU_CONF2: u32 = 0x1060;
/// entries.
pub const CHMU_CONF2_NOTIFY: u64 = 0xffff;

/// Read: state. Write: 1 to OVERFLOW or LEVEL clears it. A flag that is set in the same cycle stays set.
pub const CHMU_STATUS: u32 = 0x1070;
/// CONF0.ENABLE.
pub const CHMU_STATUS_ENABLED: u64 = 0x1;
/// a reset is in progress, at either clock; set from the answer to its write.
pub const CHMU_STATUS_IN_PROGRESS: u64 = 0xffff0000;
/// bits of the count in a hotlist entry.
pub const CHMU_STATUS_COUNTER_BITS: u64 = 0xff00000000;
/// a hot page found the hotlist full.
pub const CHMU_STATUS_OVERFLOW: u64 = 0x10000000000;
/// the fill level of CONF2 was reached.
pub const CHMU_STATUS_LEVEL: u64 = 0x20000000000;

/// Read: both indices; empty: HEAD = TAIL; full: TAIL + 1 = HEAD. Write: HEAD; only the device changes TAIL. A HEAD that is not between HEAD and TAIL is ignored. Entries are in the order of reports; none is overwritten before HEAD has passed it.
pub const CHMU_RING: u32 = 0x1078;
/// index of the oldest entry, advanced by the host.
pub const CHMU_RING_HEAD: u64 = 0xffff;
/// index of the next free entry.
pub const CHMU_RING_TAIL: u64 = 0xffff0000;

/// Read: the value written. Write: bit n: pages of the n-th 256 MiB are tracked; pages beyond 16 GiB are never tracked. All ones after power-up. Holds for accesses that leave the crossing afterwards.
pub const CHMU_BITMAP: u32 = 0x1080;

/// Read: the hotlist, one word per entry, without side effects: page << COUNTER_BITS | count. A slot that is not between HEAD and TAIL reads as 0.
pub const CHMU_HOTLIST: u32 = 0x2000;
