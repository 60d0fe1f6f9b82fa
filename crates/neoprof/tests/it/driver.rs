// SPDX-License-Identifier: Apache-2.0
//! The driver with the registers of the reference model, and with registers that are not a NeoProf's.

use neoprof::driver::{Registers, Source};
use neoprof::{Config, Driver, NeoProf, registers as reg};

const BOTH: [Source; 2] = [Source::Fifo, Source::Hotlist];

fn driver(source: Source) -> Driver<NeoProf> {
    let config = Config {
        width_log2: 8,
        fifo_log2: 3,
        ring_log2: 3,
        sample_interval: 1,
        ..Config::default()
    };
    Driver::new(NeoProf::new(config), source).expect("the reference model is a NeoProf")
}

fn access(driver: &mut Driver<NeoProf>, page: u32, times: u32) {
    driver.registers().accesses(page, false, times);
}

#[test]
fn a_page_is_reported_once_when_it_exceeds_the_threshold() {
    for source in BOTH {
        let mut driver = driver(source);
        let mut pages = Vec::new();
        access(&mut driver, 7, 1000);
        assert!(!driver.hot_pages(10, &mut pages) && pages.is_empty(), "nothing is hot at first");
        driver.set_threshold(2);
        for (page, times) in [(3, 2), (4, 3), (3, 1), (4, 9)] {
            access(&mut driver, page, times);
        }
        assert!(!driver.hot_pages(10, &mut pages));
        assert_eq!(pages, [4, 3], "{source:?}");
        driver.clear();
        access(&mut driver, 3, 3);
        assert!(!driver.hot_pages(10, &mut pages));
        assert_eq!(pages, [4, 3, 3], "{source:?}: reported again after clearing");
        driver.silence();
        access(&mut driver, 5, 100);
        assert!(!driver.hot_pages(10, &mut pages) && pages.len() == 3);
    }
}

#[test]
fn a_full_list_is_read_in_parts_and_wraps() {
    for source in BOTH {
        let mut driver = driver(source);
        driver.set_threshold(0);
        let mut seen = Vec::new();
        for round in 0..5 {
            (0..7).for_each(|page| access(&mut driver, 10 * round + page, 1));
            let mut pages = Vec::new();
            assert!(driver.hot_pages(3, &mut pages), "{source:?}: four pages are left");
            assert_eq!(pages.len(), 3);
            assert!(!driver.hot_pages(4, &mut pages), "{source:?}: no page is left");
            seen.extend(pages);
        }
        let all: Vec<u32> = (0..5).flat_map(|round| (0..7).map(move |p| 10 * round + p)).collect();
        assert_eq!(seen, all, "{source:?}");
    }
}

#[test]
fn telemetry_is_the_difference_to_the_last_reading() {
    let mut driver = driver(Source::Fifo);
    assert_eq!(driver.histogram(), None, "not requested");
    access(&mut driver, 1, 9);
    driver.registers().access(2, true);
    driver.registers().idle(10);
    driver.request_histogram();
    let histogram = driver.histogram().expect("the model answers at once");
    assert_eq!((histogram.bins[0], histogram.bins[1], histogram.bins[8]), (254, 1, 1));
    assert_eq!(driver.error_bound(&histogram), driver.registers().error_bound());
    assert_eq!(driver.histogram(), None, "already read");
    let state = driver.state();
    assert_eq!((state.samples, state.reads, state.writes), (20, 9, 1));
    driver.registers().idle(4);
    assert_eq!((driver.state().samples, driver.accesses()), (4, 10));
    driver.clear();
    driver.registers().idle(3);
    assert_eq!((driver.state().samples, driver.accesses()), (3, 0));
}

/// Registers of another device.
#[derive(Debug)]
struct Other(u64);

impl Registers for Other {
    fn read(&mut self, _: u32) -> u64 {
        self.0
    }

    fn write(&mut self, offset: u32, _: u64) {
        panic!("an unknown device was written to, at {offset:#x}");
    }
}

#[test]
fn an_unknown_device_is_not_written_to() {
    for word in [0, u64::MAX, 1 | 1 << 8] {
        let error = Driver::new(Other(word), Source::Fifo).expect_err("not a NeoProf").to_string();
        assert!(error.contains("not NeoProf registers"), "{error}");
    }
}

#[test]
fn every_read_of_a_register_is_counted() {
    let mut driver = driver(Source::Fifo);
    let before = driver.reads();
    driver.set_threshold(0);
    access(&mut driver, 1, 1);
    let mut pages = Vec::new();
    driver.hot_pages(9, &mut pages);
    assert_eq!(driver.reads() - before, 2, "one read for the number of pages, one for the page");
    assert_eq!(driver.registers().read(reg::GET_NR_HOT_PAGE), 0);
}

/// A unit whose copy takes a number of bus requests: many on a fast bus, none on a slow one.
#[derive(Debug)]
struct Copying {
    unit: NeoProf,
    requests: u32,
    left: Option<u32>,
}

impl Registers for Copying {
    fn read(&mut self, offset: u32) -> u64 {
        match &mut self.left {
            Some(0) => {
                self.left = None;
                self.unit.write(reg::SET_HIST_EN, 1);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.unit.read(offset)
    }

    fn write(&mut self, offset: u32, value: u64) {
        match offset {
            reg::SET_HIST_EN if value & 1 == 1 => {
                self.left = Some(self.requests);
                self.unit.set_copy(None);
            }
            _ => self.unit.write(offset, value),
        }
    }
}

#[test]
fn a_histogram_is_read_when_it_is_whole_on_a_fast_bus_and_on_a_slow_one() {
    for requests in [0, 1, 40] {
        let unit = NeoProf::new(Config { width_log2: 8, ..Config::default() });
        let registers = Copying { unit, requests, left: None };
        let mut driver = Driver::new(registers, Source::Fifo).expect("a unit");
        for round in 1..4 {
            driver.registers().unit.accesses(1, false, 10);
            driver.request_histogram();
            let polls = (0..100).position(|_| {
                driver.histogram().is_some_and(|histogram| {
                    assert_eq!(histogram.total(), 256, "round {round}, {requests} requests");
                    assert_eq!(histogram, driver.registers().unit.histogram());
                    true
                })
            });
            assert_eq!(polls, Some(requests as usize));
        }
    }
}

#[test]
fn the_last_page_is_told_from_none() {
    let mut driver = driver(Source::Fifo);
    driver.set_threshold(0);
    access(&mut driver, u32::MAX, 1);
    let mut pages = Vec::new();
    assert!(!driver.hot_pages(9, &mut pages));
    assert_eq!(pages, [u32::MAX]);
}

#[test]
fn slots_of_the_hotlist_without_an_entry_read_as_zero() {
    let mut driver = driver(Source::Hotlist);
    driver.set_threshold(0);
    access(&mut driver, 9, 1);
    let unit = driver.registers();
    assert_ne!(unit.read(reg::CHMU_HOTLIST), 0);
    unit.write(reg::CHMU_RING, 5);
    assert_eq!(unit.read(reg::CHMU_RING), 1 << 16, "HEAD does not pass TAIL");
    unit.write(reg::CHMU_RING, 1);
    assert_eq!(unit.read(reg::CHMU_HOTLIST), 0, "released");
}
