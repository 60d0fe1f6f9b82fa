// SPDX-License-Identifier: Apache-2.0
//! Cutting and merging.

use tierline_trace::edit::{cut, merge};
use tierline_trace::{Epoch, Error, Record};

use super::{Plain, Spaces};

fn epoch(ns: u64, accesses: u64, page: u64, reads: u32) -> (Epoch, Spaces) {
    (Epoch { ns, accesses }, vec![(5, vec![Record { page, reads, writes: 1 }])])
}

#[test]
fn a_cut_has_the_epochs_that_begin_within_the_interval() {
    let all = Plain(vec![epoch(10, 0, 1, 1), epoch(10, 0, 2, 2), epoch(10, 0, 3, 3)]);
    let mut out = Vec::new();
    cut(&all.write()[..], &mut out, 10..20).unwrap();
    assert_eq!(Plain::read(&out).0, Plain(all.0[1..2].to_vec()));
}

/// The cut of a damaged source is also a complete trace.
#[test]
fn a_cut_of_a_damaged_trace_has_the_part_before_the_damage() {
    let all = Plain(vec![epoch(10, 0, 1, 1), epoch(10, 0, 2, 2)]);
    let bytes = all.write();
    let mut out = Vec::new();
    let error = cut(&bytes[..bytes.len() - 5], &mut out, 0..u64::MAX).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
    let (read, wrong) = Plain::read(&out);
    assert!(wrong.is_none() && read == all, "{read:?}");
}

/// Two short epochs of one trace and a long one of the other: counts and accesses are added up, spaces stay
/// separate.
#[test]
fn merged_programs_run_side_by_side() {
    let quick = Plain(vec![epoch(10, 4, 1, 1), epoch(10, 4, 1, 2), epoch(10, 4, 9, 3)]);
    let slow = Plain(vec![epoch(20, 8, 1, 7)]);
    let mut out = Vec::new();
    let (a, b) = (quick.write(), slow.write());
    merge(vec![&a[..], &b[..]], &mut out).unwrap();
    let (merged, wrong) = Plain::read(&out);
    assert!(wrong.is_none());
    let record = |page, reads, writes| vec![Record { page, reads, writes }];
    let both = vec![(0, record(1, 3, 2)), (1, record(1, 7, 1))];
    let rest = vec![(0, record(9, 3, 1))];
    let epoch = |ns, accesses| Epoch { ns, accesses };
    assert_eq!(merged, Plain(vec![(epoch(20, 16), both), (epoch(10, 4), rest)]));
}
