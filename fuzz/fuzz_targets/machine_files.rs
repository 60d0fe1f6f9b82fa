// SPDX-License-Identifier: Apache-2.0
//! Files of `/proc` and `/sys` that describe the machine, and those of a control group.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::kernel::machine_files(bytes));
