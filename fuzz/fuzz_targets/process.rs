// SPDX-License-Identifier: Apache-2.0
//! The files of a process in `/proc`, and its control group.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::kernel::process(bytes));
