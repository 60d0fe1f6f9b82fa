// SPDX-License-Identifier: Apache-2.0
//! Kernel memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::kernel::kcore(bytes));
