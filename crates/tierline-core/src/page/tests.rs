// SPDX-License-Identifier: Apache-2.0
//! The page table keeps its books under any sequence of events.

use proptest::prelude::*;

use super::words::CHUNK_PAGES;
use super::*;
use crate::port::PageKind;

page_word! {
    /// Any heat.
    Word
}

fn region(space: u32, start: u64, base_pages: u64, size: PageSize) -> Region {
    Region { space: SpaceId(space), start: Vpn(start), base_pages, size, kind: PageKind::Anonymous }
}

/// So many base pages of one program, all in the fastest tier.
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
fn a_terabyte_that_nobody_touched_costs_no_metadata() {
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
    assert_eq!(split.len(), 1 + 512 + 1, "between its neighbours, which are whole");
    for (page, vpn) in split[1..513].iter().zip(1024..) {
        assert_eq!((at(*page).vpn, at(*page).size), (Vpn(vpn), PageSize::Base));
        assert_eq!((table.state(*page).tier(), table.heat::<Word>(*page).0), (Some(TierId(1)), 0));
    }
    assert!(!table.split(split[1]), "no further");
    // The world tells of it later: what became known of its base pages meanwhile stays.
    table.set_heat(split[9], Word(5));
    table.apply(SpaceEvent::Mapped(region(1, 1024, 512, PageSize::Base)));
    assert_eq!(table.heat::<Word>(split[9]).0, 5);
    table.apply(SpaceEvent::Mapped(region(1, 1024, 512, PageSize::Huge)));
    table.check();
    assert_eq!(table.bytes_in(TierId(1)), Bytes::ZERO, "made whole by the kernel: another page");
}

#[test]
fn a_word_comes_back_bit_by_bit_and_goes_with_the_page() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 0, 2, PageSize::Base)));
    let page = table.find(SpaceId(1), Vpn(1)).unwrap();
    assert_eq!(table.heat::<Word>(page).0, 0);
    for bit in 0..WORD_BITS {
        table.set_heat(page, Word(1 << bit));
        assert_eq!(table.heat::<Word>(page).0, 1 << bit);
    }
    assert_eq!(table.state(page).tier(), None, "flags are no part of it");
    table.apply(SpaceEvent::Unmapped(SpaceId(1), Vpn(1), 1));
    assert_eq!(table.heat::<Word>(page).0, 0);
}

#[test]
fn flags_do_not_disturb_each_other() {
    let mut table = PageTable::default();
    table.apply(SpaceEvent::Mapped(region(1, 0, 1, PageSize::Base)));
    let page = table.find(SpaceId(1), Vpn(0)).unwrap();
    table.set_tier(page, TierId(2));
    table.set_returns(page, 7);
    table.set_queued(page, true);
    table.set_listed(page, true);
    table.set_queued(page, false);
    let state = table.state(page);
    assert_eq!((state.tier(), state.returns()), (Some(TierId(2)), 3));
    assert!(state.is_listed() && !state.is_queued() && !state.is_refused());
    table.set_returns(page, 1);
    assert_eq!(table.state(page).returns(), 1);
}

proptest! {
    #[test]
    fn books_balance_under_any_sequence_of_mappings(
        steps in prop::collection::vec((0u32..3, 0u64..40, 1u64..20, 0u8..6), 1..60),
    ) {
        let mut table = PageTable::default();
        for (space, start, len, what) in steps {
            let (start, len) = (start * 512, len * 512);
            match what {
                0 => table.apply(SpaceEvent::Mapped(region(space, start, len, PageSize::Base))),
                1 => table.apply(SpaceEvent::Mapped(region(space, start, len, PageSize::Huge))),
                2 => table.apply(SpaceEvent::Unmapped(SpaceId(space), Vpn(start + 7), len)),
                3 => table.apply(SpaceEvent::Gone(SpaceId(space))),
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
