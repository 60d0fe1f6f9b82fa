// SPDX-License-Identifier: Apache-2.0
//! The body of a request to the API.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::body(bytes));
