// SPDX-License-Identifier: Apache-2.0
//! A ring of perf.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::kernel::ring(bytes));
