// SPDX-License-Identifier: Apache-2.0
//! The kernel's types.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::kernel::btf(bytes));
