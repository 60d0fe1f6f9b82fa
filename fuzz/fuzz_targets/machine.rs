// SPDX-License-Identifier: Apache-2.0
//! The file of a modelled machine.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tierline_fuzz::machine(bytes));
