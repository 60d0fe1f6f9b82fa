// SPDX-License-Identifier: Apache-2.0
//! A journal of changed settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::journal(bytes));
