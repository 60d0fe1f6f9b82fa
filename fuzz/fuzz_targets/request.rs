// SPDX-License-Identifier: Apache-2.0
//! A line to the socket of a manager.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::request(bytes));
