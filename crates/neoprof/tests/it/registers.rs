// SPDX-License-Identifier: Apache-2.0
//! Registers and their side effects, with results worked out by hand.

use neoprof::{Config, NO_PAGE, NeoProf, State, registers as reg};

fn small() -> NeoProf {
    NeoProf::new(Config {
        width_log2: 8,
        fifo_log2: 2,
        ring_log2: 2,
        sample_interval: 4,
        ..Config::default()
    })
}

#[test]
fn after_power_up_nothing_is_hot() {
    let mut neoprof = small();
    (0..100_000).for_each(|_| neoprof.access(7, false));
    assert_eq!(neoprof.read(reg::GET_NR_HOT_PAGE), 0);
    assert_eq!(neoprof.read(reg::GET_HOT_PAGE), NO_PAGE);
    assert_eq!(neoprof.estimate(7), 65_535, "saturates");
}

#[test]
fn reading_takes_hot_pages_in_order() {
    let mut neoprof = small();
    neoprof.write(reg::SET_THRESHOLD, 1);
    assert_eq!(neoprof.read(reg::SET_THRESHOLD), 1);
    for page in [5, 9, 9, 5, 5, 9, 11] {
        neoprof.access(page, false);
    }
    assert_eq!(neoprof.read(reg::GET_NR_HOT_PAGE), 2);
    assert_eq!([(); 3].map(|()| neoprof.read(reg::GET_HOT_PAGE)), [9, 5, NO_PAGE]);
    assert_eq!(neoprof.read(reg::GET_NR_ACCESS), 7);
    neoprof.write(reg::RESET, 0);
    assert_eq!(neoprof.read(reg::GET_NR_ACCESS), 7, "only writing 1 resets");
    neoprof.write(reg::RESET, 1);
    assert_eq!((neoprof.read(reg::GET_NR_ACCESS), neoprof.read(reg::SET_THRESHOLD)), (0, 1));
    (0..2).for_each(|_| neoprof.access(9, false));
    assert_eq!(neoprof.read(reg::GET_HOT_PAGE), 9, "reported again after the reset");
}

#[test]
fn a_new_threshold_clears_nothing() {
    let mut neoprof = small();
    (0..5).for_each(|_| neoprof.access(3, false));
    neoprof.write(reg::SET_THRESHOLD, 5);
    assert_eq!(neoprof.hot_len(), 0);
    neoprof.access(3, false);
    assert_eq!(neoprof.pop_hot(), Some(3));
}

#[test]
fn the_histogram_copy_is_read_bin_by_bin() {
    let mut neoprof = small();
    (0..9).for_each(|_| neoprof.access(3, false));
    assert_eq!(neoprof.read(reg::GET_NR_HIST_BIN), 0);
    assert_eq!(neoprof.read(reg::GET_HIST), 0);
    neoprof.write(reg::SET_HIST_EN, 1);
    (0..9).for_each(|_| neoprof.access(4, false));
    assert_eq!(neoprof.read(reg::GET_NR_HIST_BIN), 64);
    let bins: Vec<u64> = (0..64).map(|_| neoprof.read(reg::GET_HIST)).collect();
    assert_eq!((bins[0], bins[8], bins.iter().sum()), (255, 1, 256));
    assert_eq!(neoprof.read(reg::GET_NR_HIST_BIN), 0);
}

#[test]
fn the_state_monitor_samples_one_cycle_in_its_interval() {
    let mut neoprof = small();
    // Cycles 0, 4, 8 and 12 are sampled: a read, an idle cycle, a write, a write.
    neoprof.access(1, false);
    neoprof.idle(7);
    (0..6).for_each(|_| neoprof.access(1, true));
    let want = State { samples: 4, reads: 1, writes: 2 };
    assert_eq!(neoprof.state(), want);
    assert_eq!(want.utilisation(), Some(0.75));
    let read =
        |n: &mut NeoProf| [reg::GET_NR_SAMPLE, reg::GET_RD_CNT, reg::GET_WR_CNT].map(|r| n.read(r));
    assert_eq!(read(&mut neoprof), [4, 1, 2]);
    neoprof.write(reg::SAMPLE_INTERVAL, 0);
    neoprof.idle(10);
    assert_eq!(read(&mut neoprof), [14, 1, 2]);
}

#[test]
fn switches_reproduce_the_artifact() {
    let mut neoprof = small();
    neoprof.write(reg::CONTROL, reg::CONTROL_READS_ONLY | reg::CONTROL_DEDUPE);
    // Counted: 1, 2, 1. A write between two reads of one page does not separate them.
    for (page, write) in [(1, false), (1, false), (1, true), (1, false), (2, false), (1, false)] {
        neoprof.access(page, write);
    }
    assert_eq!((neoprof.estimate(1), neoprof.estimate(2)), (2, 1));
    neoprof.write(reg::CONTROL, 0);
    (0..3).for_each(|_| neoprof.access(1, true));
    assert_eq!(neoprof.estimate(1), 5);
}

#[test]
fn the_hotlist_is_a_ring_without_side_effects() {
    let mut neoprof = small();
    let enable = reg::CHMU_CONF0_ENABLE | reg::CHMU_CONF0_TRACK_READS;
    neoprof.write(reg::CHMU_CONF2, 2);
    neoprof.write(reg::CHMU_CONF0, enable | 3 << 32);
    for page in 1..6 {
        (0..5).for_each(|_| neoprof.access(page, false));
        (0..5).for_each(|_| neoprof.access(100 + page, true));
    }
    // A ring of four entries holds three pages; each reached the count of 3.
    assert_eq!(neoprof.read(reg::CHMU_RING), 3 << 16);
    let entries = [0, 1, 2].map(|i| neoprof.read(reg::CHMU_HOTLIST + 8 * i));
    assert_eq!(entries, [1 << 16 | 3, 2 << 16 | 3, 3 << 16 | 3]);
    let flags = reg::CHMU_STATUS_OVERFLOW | reg::CHMU_STATUS_LEVEL;
    assert_eq!(neoprof.read(reg::CHMU_STATUS), flags | 16 << 32 | 1);
    neoprof.write(reg::CHMU_STATUS, reg::CHMU_STATUS_OVERFLOW);
    assert_eq!(neoprof.read(reg::CHMU_STATUS) & flags, reg::CHMU_STATUS_LEVEL);
    assert_eq!(neoprof.hot_len(), 0, "the queue stays empty");
    // Once there is room, withheld pages are reported at their next access, with their count at that time.
    neoprof.write(reg::CHMU_RING, 3);
    neoprof.access(5, false);
    assert_eq!(neoprof.read(reg::CHMU_HOTLIST + 8 * 3), 5 << 16 | 6);
    neoprof.write(reg::CHMU_CONF0, enable | reg::CHMU_CONF0_RESET | 3 << 32);
    assert_eq!((neoprof.read(reg::CHMU_RING), neoprof.read(reg::CHMU_STATUS)), (0, 16 << 32 | 1));
}

#[test]
fn ranges_outside_the_bitmap_are_not_tracked() {
    let mut neoprof = small();
    let both = reg::CHMU_CONF0_ENABLE | reg::CHMU_CONF0_TRACK_BOTH;
    neoprof.write(reg::CHMU_CONF0, both);
    neoprof.write(reg::CHMU_BITMAP, 1 << 1 | 1 << 63);
    for page in [0, 0xffff, 0x1_0000, 0x2_0000, 0x3f_ffff, 0x40_0000] {
        neoprof.access(page, true);
    }
    assert_eq!(neoprof.read(reg::GET_NR_ACCESS), 2);
    assert_eq!(neoprof.read(reg::CHMU_HOTLIST) >> 16, 0x1_0000);
    assert_eq!(neoprof.read(reg::CHMU_HOTLIST + 8) >> 16, 0x3f_ffff);
}

#[test]
fn offsets_between_registers_read_as_zero() {
    let mut neoprof = small();
    for offset in [0, 0x108, 0xB38, 0x1018 + 0x70, 0x2000 + 8 * 4, 0xfff8] {
        neoprof.write(offset, u64::MAX);
        assert_eq!(neoprof.read(offset), 0, "{offset:#x}");
    }
}
