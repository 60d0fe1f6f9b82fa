// SPDX-License-Identifier: Apache-2.0
//! Code shared by the targets.

use tierline_trace::convert::{Format, Options};
use tierline_trace::survey::Survey;

/// Runs a converter. Its output must be a complete trace for any input.
///
/// # Panics
/// If it is not, or if the format is unknown.
pub fn convert(format: &str, mut bytes: &[u8]) {
    let format = Format::find(format).expect("a format of the list");
    let mut out = Vec::new();
    let _ = format.convert(&mut bytes, &Options::default(), &mut out);
    let (_, wrong) = Survey::take(&out[..]).expect("a header");
    assert!(wrong.is_none(), "{wrong:?}");
}
