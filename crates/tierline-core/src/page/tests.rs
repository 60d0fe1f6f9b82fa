// SPDX-License-Identifier: Apache-2.0
//! The page table's counts stay correct under any sequence of events.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::mapping::whole_huge;
use super::words::CHUNK_PAGES;
use super::*;
use crate::port::{PageKind, Region};
use crate::unit::BASE_PER_HUGE;

page_word! {
    /// Heat without a meaning.
    Word
}

fn region(space: u32, start: u64, base_pages: u64, size: PageSize) -> Region {
    Region { space: SpaceId(space), start: Vpn(start), base_pages, size, kind: PageKind::Anonymous }
}

/// `count` base pages of one program, all in the fastest tier.
pub(crate) fn all_fast(count: u64) -> (PageTable, Vec<PageIdx>) {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 0, count, PageSize::Base)));
    let find = |vpn| table.find(SpaceId(1), Vpn(vpn)).unwrap();
    let all: Vec<PageIdx> = (0..count).map(find).collect();
    all.iter().for_each(|&page| table.set_tier(page, TierId::FAST));
    (table, all)
}

#[test]
fn a_page_costs_eight_bytes() {
    assert_eq!(METADATA_BYTES_PER_PAGE, 8);
}

#[test]
fn an_untouched_terabyte_needs_no_metadata() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 0, 1 << 28, PageSize::Base)));
    assert_eq!(table.metadata_bytes(), 0);
    let page = table.find(SpaceId(1), Vpn(77_777_777)).unwrap();
    table.set_tier(page, TierId(1));
    assert_eq!(table.metadata_bytes(), 8 * CHUNK_PAGES);
}

#[test]
fn a_huge_page_is_one_page_by_any_of_its_addresses() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 512, 1024, PageSize::Huge)));
    let head = table.find(SpaceId(1), Vpn(512)).unwrap();
    assert_eq!(table.find(SpaceId(1), Vpn(1023)), Some(head));
    assert_ne!(table.find(SpaceId(1), Vpn(1024)), Some(head));
    table.set_tier(head, TierId(1));
    assert_eq!(table.bytes_in(TierId(1)), Bytes::from_mib(2));
}

/// Two base pages, a gap, and two huge pages, of which the run begins before the first and ends within the last. By hand.
#[test]
fn a_run_is_placed_page_by_page_whatever_their_size_and_tier_before() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 500, 2, PageSize::Base)));
    table.apply(SpaceEvent::Mapped(region(1, 512, 1024, PageSize::Huge)));
    let find = |table: &PageTable, vpn| table.find(SpaceId(1), Vpn(vpn)).unwrap();
    let (known, new) = (find(&table, 501), find(&table, 512));
    table.set_tier(known, TierId::FAST);
    table.set_heat(known, Word(7));
    let at = Residence { space: SpaceId(1), vpn: Vpn(400), base_pages: 700, tier: TierId(1) };
    table.set_tier_of_run(&at, Some(Word(3)));
    table.check();
    assert_eq!(table.bytes_in(TierId(1)), Bytes::from_base_pages(2 + 1024));
    assert_eq!(table.bytes_in(TierId::FAST), Bytes::ZERO);
    let heat = |table: &PageTable, page| table.heat::<Word>(page).0;
    assert_eq!((heat(&table, known), heat(&table, new)), (7, 3), "what was known keeps its heat");
    table.set_tier_of_run(&Residence { tier: TierId::FAST, base_pages: 101, ..at }, None::<Word>);
    table.check();
    assert_eq!(table.bytes_in(TierId::FAST), Bytes::from_base_pages(1), "page 500 alone");
}

#[test]
fn a_huge_page_is_split_in_place() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 512, 3 * 512, PageSize::Huge)));
    let page = table.find(SpaceId(1), Vpn(1024)).unwrap();
    table.set_tier(page, TierId(1));
    table.set_heat(page, Word(7));
    assert!(table.split(page));
    table.check();
    assert_eq!(table.bytes_in(TierId(1)), Bytes::from_mib(2));
    let mut split = Vec::new();
    table.for_each(SpaceId(1), Vpn(1000), 1000, |page| split.push(page));
    let at = |page| table.locate(page).unwrap();
    assert_eq!(split.len(), 1 + 512 + 1, "between its neighbours, which stay huge");
    for (page, vpn) in split[1..513].iter().zip(1024..) {
        assert_eq!((at(*page).vpn, at(*page).size), (Vpn(vpn), PageSize::Base));
        assert_eq!((table.state(*page).tier(), table.heat::<Word>(*page).0), (Some(TierId(1)), 0));
    }
    assert!(!table.split(split[1]), "a base page cannot be split");
    // The world reports the split later; heat recorded meanwhile stays.
    table.set_heat(split[9], Word(5));
    table.apply(SpaceEvent::Mapped(region(1, 1024, 512, PageSize::Base)));
    assert_eq!(table.heat::<Word>(split[9]).0, 5);
    table.apply(SpaceEvent::Sized(SpaceId(1), Vpn(1024), 512, PageSize::Huge));
    table.check();
    assert_eq!(table.bytes_in(TierId(1)), Bytes::ZERO, "a re-formed huge page has no tier yet");
}

#[test]
fn heat_keeps_every_bit_until_the_page_is_unmapped() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 0, 2, PageSize::Base)));
    let page = table.find(SpaceId(1), Vpn(1)).unwrap();
    assert_eq!(table.heat::<Word>(page).0, 0);
    for bit in 0..WORD_BITS {
        table.set_heat(page, Word(1 << bit));
        assert_eq!(table.heat::<Word>(page).0, 1 << bit);
    }
    assert_eq!(table.state(page).tier(), None, "flags are separate from heat");
    table.apply(SpaceEvent::Unmapped(SpaceId(1), Vpn(1), 1));
    assert_eq!(table.heat::<Word>(page).0, 0);
}

#[test]
fn flags_do_not_disturb_each_other() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 0, 1, PageSize::Base)));
    let page = table.find(SpaceId(1), Vpn(0)).unwrap();
    table.set_tier(page, TierId(2));
    table.set_ping_pongs(page, 7);
    table.set_queued(page, true);
    table.set_listed(page, true);
    table.set_queued(page, false);
    let state = table.state(page);
    assert_eq!((state.tier(), state.ping_pongs()), (Some(TierId(2)), 3));
    assert!(state.is_listed() && !state.is_queued() && !state.is_refused());
    table.set_ping_pongs(page, 1);
    assert_eq!(table.state(page).ping_pongs(), 1);
}

#[test]
fn a_size_is_kept_when_its_mapping_is_read_later_or_again() {
    let mut table = PageTable::default();
    let sized = |vpn, pages, size| SpaceEvent::Sized(SpaceId(1), Vpn(vpn), pages, size);
    let read = SpaceEvent::Mapped(region(1, 100, 2000, PageSize::Base));
    table.apply(sized(0, 2560, PageSize::Huge));
    assert_eq!(table.base_pages(), 0, "a size alone maps nothing");
    table.apply(read);
    let huge =
        |table: &PageTable, vpn| table.find(SpaceId(1), Vpn(vpn)).map(|page| table.is_huge(page));
    let parts = [99, 100, 511, 512, 2047, 2048, 2099, 2100];
    let sizes = parts.map(|vpn| huge(&table, vpn));
    let (base, whole) = (Some(false), Some(true));
    assert_eq!(sizes, [None, base, base, whole, whole, base, base, None]);
    let page = table.find(SpaceId(1), Vpn(512)).unwrap();
    table.set_tier(page, TierId(1));
    table.apply(read);
    assert_eq!(parts.map(|vpn| huge(&table, vpn)), sizes);
    assert_eq!(table.state(page).tier(), Some(TierId(1)));
    // The mapping grows: the huge page recorded beyond its end counts now.
    table.apply(SpaceEvent::Mapped(region(1, 100, 2460, PageSize::Base)));
    assert_eq!(huge(&table, 2048), whole);
    // Half of a huge page is unmapped: the kernel splits it, and so does the page table.
    table.apply(SpaceEvent::Unmapped(SpaceId(1), Vpn(768), 256));
    assert_eq!([512, 767, 768, 1024].map(|vpn| huge(&table, vpn)), [base, base, None, whole]);
    assert_eq!(table.bytes_in(TierId(1)), Bytes::from_mib(1));
    table.apply(SpaceEvent::Mapped(region(1, 768, 256, PageSize::Base)));
    assert_eq!(huge(&table, 512), base, "the recorded size was discarded");
    table.check();
}

const QUARTER: u64 = BASE_PER_HUGE / 4;
const QUARTERS: u64 = 24;

/// The expected state, per quarter of a huge page.
#[derive(Default)]
struct Expected {
    kinds: BTreeMap<u64, PageKind>,
    tiers: BTreeMap<u64, TierId>,
    /// Where a huge page was reported last.
    seen_huge: BTreeSet<u64>,
}

impl Expected {
    fn is_huge(&self, quarter: u64) -> bool {
        let mut kinds = (quarter / 4 * 4..quarter / 4 * 4 + 4).map(|at| self.kinds.get(&at));
        let first = kinds.next().flatten();
        self.seen_huge.contains(&(quarter / 4))
            && first.is_some()
            && kinds.all(|kind| kind == first)
    }

    fn apply(&mut self, event: SpaceEvent) {
        let huge_before: Vec<bool> = (0..QUARTERS).map(|at| self.is_huge(at)).collect();
        match event {
            SpaceEvent::Mapped(Region { start, base_pages, size, kind, .. }) => {
                let all = start.0 / QUARTER..(start.0 + base_pages) / QUARTER;
                let is_new = |at: &u64| self.kinds.get(at) != Some(&kind);
                let new: BTreeSet<u64> = all.filter(is_new).collect();
                for &at in &new {
                    if self.kinds.contains_key(&at) {
                        self.unmap(at);
                    }
                    self.kinds.insert(at, kind);
                    let mut whole = at / 4 * 4..at / 4 * 4 + 4;
                    if size == PageSize::Huge && whole.all(|at| new.contains(&at)) {
                        self.seen_huge.insert(at / 4);
                    }
                }
            }
            SpaceEvent::Sized(_, vpn, base_pages, size) => {
                for chunk in vpn.0 / BASE_PER_HUGE..(vpn.0 + base_pages) / BASE_PER_HUGE {
                    match size {
                        PageSize::Base => self.seen_huge.remove(&chunk),
                        PageSize::Huge => self.seen_huge.insert(chunk),
                    };
                }
            }
            SpaceEvent::Unmapped(_, vpn, base_pages) => {
                let all = vpn.0 / QUARTER..(vpn.0 + base_pages) / QUARTER;
                all.for_each(|at| self.unmap(at));
            }
            SpaceEvent::Gone(_) => *self = Self::default(),
            SpaceEvent::Owned(..) | SpaceEvent::Represents(..) => {}
        }
        // A newly formed huge page is a new page.
        for (at, was_huge) in (0..QUARTERS).zip(huge_before) {
            if self.is_huge(at) && !was_huge {
                self.tiers.remove(&at);
            }
        }
    }

    fn unmap(&mut self, at: u64) {
        self.kinds.remove(&at);
        self.tiers.remove(&at);
        self.seen_huge.remove(&(at / 4));
    }

    fn check(&self, table: &PageTable) {
        table.check();
        for at in 0..QUARTERS {
            for vpn in [at * QUARTER, (at + 1) * QUARTER - 1] {
                let page = table.find(SpaceId(1), Vpn(vpn));
                let found = page.and_then(|page| table.locate(page));
                let size = if self.is_huge(at) { PageSize::Huge } else { PageSize::Base };
                let expected = self.kinds.get(&at).map(|&kind| (kind, size));
                assert_eq!(found.map(|found| (found.kind, found.size)), expected, "at {vpn}");
                let tier = page.and_then(|page| table.state(page).tier());
                assert_eq!(tier, self.tiers.get(&at).copied(), "at {vpn}");
            }
        }
    }
}

fn events() -> impl Strategy<Value = Vec<(u8, u64, u64, bool, bool)>> {
    let any = (0u8..8, 0..QUARTERS, 1..=QUARTERS, any::<bool>(), any::<bool>());
    prop::collection::vec(any, 1..40)
}

proptest! {
    /// Mappings and sizes are reported in any order, pages are split by us and by others, re-formed and moved:
    /// the latest report counts.
    #[test]
    fn sizes_follow_the_latest_report_in_any_order(steps in events()) {
        let (mut table, mut expected) = (PageTable::default(), Expected::default());
        for (what, at, quarters, huge, file) in steps {
            let (at, to) = (at * QUARTER, (at + quarters).min(QUARTERS) * QUARTER);
            let size = if huge { PageSize::Huge } else { PageSize::Base };
            let (head, end) = whole_huge(at, to);
            let event = match what {
                0 | 1 => {
                    let kind = if file { PageKind::File } else { PageKind::Anonymous };
                    let (start, end) = if huge { (head, end) } else { (at, to) };
                    let region = region(1, start, end - start, size);
                    Some(SpaceEvent::Mapped(Region { kind, ..region }))
                }
                2 | 3 => Some(SpaceEvent::Sized(SpaceId(1), Vpn(head), end - head, size)),
                4 => Some(SpaceEvent::Unmapped(SpaceId(1), Vpn(at), to - at)),
                5 if huge && file => Some(SpaceEvent::Gone(SpaceId(1))),
                _ => None,
            };
            if let Some(event) = event {
                table.apply(event);
                expected.apply(event);
            } else if what == 5 {
                if let Some(page) = table.find(SpaceId(1), Vpn(at)) && table.split(page) {
                    expected.seen_huge.remove(&(at / BASE_PER_HUGE));
                }
            } else {
                let tier = TierId(u8::from(huge));
                let mut moved = Vec::new();
                let base_pages = u32::try_from(to - at).unwrap();
                table.for_each(SpaceId(1), Vpn(at), base_pages, |page| moved.push(page));
                for page in moved {
                    let at = table.locate(page).unwrap();
                    table.set_tier(page, tier);
                    let quarters = at.vpn.0..at.vpn.0 + at.size.base_pages();
                    expected.tiers.extend(quarters.map(|vpn| (vpn / QUARTER, tier)));
                }
            }
            expected.check(&table);
        }
    }

    #[test]
    fn counts_match_pages_under_any_sequence_of_mappings(
        steps in prop::collection::vec((0u32..3, 0u64..40, 1u64..20, 0u8..8), 1..60),
    ) {
        let mut table = PageTable::default();
        for (space, start, len, what) in steps {
            let (start, len) = (start * 512, len * 512);
            match what {
                0 => table.apply(SpaceEvent::Mapped(region(space, start, len, PageSize::Base))),
                1 => table.apply(SpaceEvent::Mapped(region(space, start, len, PageSize::Huge))),
                2 => table.apply(SpaceEvent::Unmapped(SpaceId(space), Vpn(start + 7), len)),
                3 => table.apply(SpaceEvent::Gone(SpaceId(space))),
                6 => table.apply(SpaceEvent::Sized(SpaceId(space), Vpn(start), len, PageSize::Huge)),
                7 => table.apply(SpaceEvent::Sized(SpaceId(space), Vpn(start), len, PageSize::Base)),
                4 => {
                    let page = table.find(SpaceId(space), Vpn(start + 9));
                    let size = page.map(|page| table.locate(page).unwrap().size);
                    let is_split = page.is_some_and(|page| table.split(page));
                    prop_assert_eq!(is_split, size == Some(PageSize::Huge));
                }
                _ => {
                    let mut hit = Vec::new();
                    table.for_each(SpaceId(space), Vpn(start + 3), 600, |page| hit.push(page));
                    for page in hit {
                        let at = table.locate(page).unwrap();
                        prop_assert_eq!(table.find(at.space, at.vpn), Some(page));
                        table.set_tier(page, TierId(u8::from(start % 1024 == 0)));
                    }
                }
            }
            table.check();
        }
    }
}
