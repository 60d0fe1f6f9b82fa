// SPDX-License-Identifier: Apache-2.0
//! What the targets have in common.

use tierline_trace::convert::{Format, Options};
use tierline_trace::survey::Survey;

/// A converter: whatever it is fed, what it writes is a whole trace.
///
/// # Panics
/// Where it is not, or there is no such format.
pub fn convert(format: &str, mut bytes: &[u8]) {
    let format = Format::find(format).expect("a format of the list");
    let mut out = Vec::new();
    let _ = format.convert(&mut bytes, &Options::default(), &mut out);
    let (_, wrong) = Survey::take(&out[..]).expect("a header");
    assert!(wrong.is_none(), "{wrong:?}");
}
