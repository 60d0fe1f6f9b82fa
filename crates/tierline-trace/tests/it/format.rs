// SPDX-License-Identifier: Apache-2.0
//! Round trips, and errors for damaged files.

use proptest::prelude::*;
use tierline_trace::format::MAX_RECORDS;
use tierline_trace::page_set::PageSet;
use tierline_trace::survey::Survey;
use tierline_trace::{Epoch, Error, Record};

use super::Plain;

fn records() -> impl Strategy<Value = Vec<Record>> {
    let step = prop_oneof![1u64..4, 1u64..100_000, Just(1 << 51)];
    let count = prop_oneof![0u32..100, any::<u32>()];
    prop::collection::vec((step, count.clone(), count), 1..60).prop_map(|steps| {
        let mut page = 0u64;
        steps
            .into_iter()
            .map(|(step, reads, writes)| {
                page = page.wrapping_add(step);
                Record { page, reads, writes }
            })
            .collect()
    })
}

fn plain() -> impl Strategy<Value = Plain> {
    let spaces = prop::collection::vec((any::<u32>(), records()), 0..3);
    let epoch = (any::<u64>(), any::<u64>(), spaces)
        .prop_map(|(ns, accesses, spaces)| (Epoch { ns, accesses }, spaces));
    prop::collection::vec(epoch, 0..5).prop_map(Plain)
}

proptest! {
    #[test]
    fn a_written_trace_reads_back_equal(plain in plain()) {
        let (read, wrong) = Plain::read(&plain.write());
        prop_assert!(wrong.is_none(), "{wrong:?}");
        prop_assert_eq!(read, plain);
    }

    /// A truncated trace reads as a prefix of the original, and the error states where the end was found.
    #[test]
    fn a_truncated_trace_reads_as_a_prefix(plain in plain(), at in 0.0f64..1.0) {
        let bytes = plain.write();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a small file")]
        let cut = (bytes.len() as f64 * at) as usize;
        let (read, wrong) = Plain::read(&bytes[..cut]);
        let Some(Error::Format { offset, found, .. }) = wrong else {
            return Err(TestCaseError::fail("a truncated trace was read without an error"));
        };
        prop_assert_eq!(offset, cut as u64);
        prop_assert_eq!(found, "the end of the file");
        let kept = read.0.len();
        prop_assert!(kept <= plain.0.len());
        for (at, (epoch, spaces)) in read.0.iter().enumerate() {
            prop_assert_eq!(epoch, &plain.0[at].0);
            prop_assert!(plain.0[at].1.starts_with(spaces));
            prop_assert!(at + 1 == kept || spaces.len() == plain.0[at].1.len());
        }
    }

    /// After any changed byte, the reader reports an error and never returns wrong records.
    #[test]
    fn a_changed_byte_is_detected(plain in plain(), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut bytes = plain.write();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let (read, wrong) = Plain::read(&bytes);
        prop_assert!(wrong.is_some());
        for ((epoch, spaces), (original, all)) in read.0.iter().zip(&plain.0) {
            prop_assert_eq!(epoch, original);
            prop_assert!(all.starts_with(spaces));
        }
    }

    #[test]
    fn a_page_set_numbers_its_pages_by_space_and_address(
        blocks in prop::collection::vec((0u32..3, records()), 1..6),
    ) {
        let mut set = PageSet::default();
        let mut known = std::collections::BTreeSet::new();
        for (space, records) in &blocks {
            assert!(set.insert(*space, records));
            known.extend(records.iter().map(|record| (*space, record.page)));
        }
        set.number();
        prop_assert_eq!(set.len(), known.len() as u64);
        prop_assert!(set.iter().eq(known.iter().copied()));
        for (number, (space, page)) in (0u32..).zip(&known) {
            prop_assert_eq!(set.index(*space, *page), Some(number));
        }
        prop_assert_eq!(set.index(7, 0), None);
    }
}

/// A file of some kilobytes names a page in each of 70,000 places.
#[test]
fn a_small_trace_cannot_ask_for_much_memory() {
    let records: Vec<Record> =
        (0..70_000).map(|place| Record { page: place << 15, reads: 1, writes: 0 }).collect();
    let epoch = Epoch { ns: 1, accesses: 1 };
    let bytes = Plain(vec![(epoch, vec![(0, records)])]).write();
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let (survey, wrong) = Survey::take(&bytes[..]).expect("a header");
    let wrong = wrong.expect("refused").to_string();
    assert!(wrong.contains("at most 65,536 places"), "{wrong}");
    assert!(survey.pages.len() <= (1 << 16) + 1);
}

/// Memory use does not grow with the epoch, as it is written in blocks.
#[test]
fn a_large_epoch_is_read_in_bounded_blocks() {
    let records: Vec<Record> =
        (0..200_000).map(|page| Record { page, reads: 1, writes: 0 }).collect();
    let bytes = Plain(vec![(Epoch::default(), vec![(3, records.clone())])]).write();
    let (read, wrong) = Plain::read(&bytes);
    assert!(wrong.is_none());
    let blocks = &read.0[0].1;
    assert!(blocks.len() >= 4 && blocks.iter().all(|(_, block)| block.len() <= MAX_RECORDS));
    let joined: Vec<Record> = blocks.iter().flat_map(|(_, block)| block.clone()).collect();
    assert_eq!(joined, records);
}

/// The example of `docs/design/trace-format.md`, written by hand, except for checksums and the zstd frame.
#[test]
fn the_documented_example_is_correct() {
    let record = Record { page: 0x1234, reads: 300, writes: 1 };
    let epoch = Epoch { ns: 1_000_000, accesses: 5000 };
    let bytes = Plain(vec![(epoch, vec![(7, vec![record])])]).write();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&bytes[..16]), "89544c540d0a1a0a0100000c06000000");
    assert_eq!(&bytes[16..22], b"a test");
    let block = &bytes[30..62];
    assert_eq!(hex(&block[..24]), "455043480000000040420f00000000008813000000000000");
    let block = &bytes[62..94];
    assert_eq!(hex(&block[..4]), "50414745");
    assert_eq!(hex(&block[8..24]), "07000000010000000500000000000000");
    let stored = u32::from_le_bytes(block[4..8].try_into().unwrap()) as usize;
    let plain = zstd::bulk::decompress(&bytes[94..94 + stored], 100).unwrap();
    assert_eq!(hex(&plain), "b424ac0201");
    let last = &bytes[94 + stored..];
    assert_eq!((&last[..4], last.len()), (&b"LAST"[..], 32));
    assert_eq!(hex(&last[8..24]), "01000000000000000100000000000000");
}
