// SPDX-License-Identifier: Apache-2.0
//! Arbitrary input: every reader returns a result and never panics. `fuzz/` runs longer.

use proptest::prelude::*;
use tierline_trace::convert::{FORMATS, Options};
use tierline_trace::survey::Survey;

use super::Plain;

/// Tokens of the formats, so that random input gets beyond the first line.
const WORDS: &[&str] = &[
    "I  ",
    " L ",
    " S ",
    " M ",
    "==1== ",
    "0401ab70",
    ",",
    "8",
    "\n",
    " ",
    "-1",
    "ffffffffffffffff",
    "base_time_absolute: ",
    "monitoring_start: ",
    "monitoring_end: ",
    "target_id: ",
    "5.145 s",
    "6 h ",
    "000101bff000-000101c01000",
    " (   8.000 KiB) ",
    "18446744073709551615",
    "3 0",
    "31359/31359 ",
    "23719.235412: ",
    "page-faults: ",
    "99999999999.999999999: ",
    "1 1: 5 ",
    "read ",
    "write ",
    " 8 byte(s) @ 0x",
    "7fdf64e2adc8",
    "<marker: ",
    "é",
];

fn convert_all(bytes: &[u8]) {
    for format in FORMATS {
        for cache in [Options::default().cache, None] {
            let mut out = Vec::new();
            let options = Options { cache, epoch_ns: 1000, ..Options::default() };
            let result = format.convert(&mut &*bytes, &options, &mut out);
            // In any case the output is a complete trace.
            let (_, wrong) = Plain::read(&out);
            assert!(wrong.is_none(), "{}: {wrong:?} after {result:?}", format.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Plain::read(&bytes);
        let _ = Survey::take(&bytes[..]);
        convert_all(&bytes);
    }

    #[test]
    fn no_words_make_a_converter_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        convert_all(words.concat().as_bytes());
    }

    /// Random bytes after a valid header.
    #[test]
    fn no_blocks_make_the_reader_panic(
        kind in prop::sample::select(vec![*b"EPCH", *b"PAGE", *b"LAST"]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut trace = Plain::default().write();
        trace.truncate(30);
        trace.extend(kind);
        trace.extend(bytes);
        prop_assert!(Plain::read(&trace).1.is_some());
    }
}
