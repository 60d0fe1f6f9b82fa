// SPDX-License-Identifier: Apache-2.0
//! The converter of damo: whatever it is fed, what it writes is a whole trace.
#![no_main]

use tierline_trace::convert::{Format, Options};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let format = Format::find("damo").expect("a format of the list");
    let (mut input, mut out) = (bytes, Vec::new());
    let _ = format.convert(&mut input, &Options::default(), &mut out);
    let (_, wrong) = tierline_trace::survey::Survey::take(&out[..]).expect("a header");
    assert!(wrong.is_none(), "{wrong:?}");
});
