// SPDX-License-Identifier: Apache-2.0
//! The reader of traces: any input yields blocks or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = tierline_trace::survey::Survey::take(bytes);
});
