// SPDX-License-Identifier: Apache-2.0
//! Page tables.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::kernel::page_tables(bytes));
