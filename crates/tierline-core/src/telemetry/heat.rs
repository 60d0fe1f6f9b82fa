// SPDX-License-Identifier: Apache-2.0
//! The heat of a page in 56 bits: the evidence clock at its last hit (32 bits), the exposure of its hits (the
//! upper half of an `f32`), and its hits in sixteenths (8 bits).

use crate::page::PageWord;

/// The stored evidence of a page. [`super::hotness`] interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heat {
    /// Hits remembered, 0 to just below 16 in steps of 1/16.
    pub hits: f32,
    /// Watched seconds of these hits.
    pub exposure_seconds: f32,
    /// The evidence clock at the last hit.
    pub stamp: u32,
}

impl PageWord for Heat {
    const FORM: &'static str = "Heat";

    #[expect(clippy::cast_possible_truncation, reason = "cut into its three parts")]
    fn of_bits(known: u64) -> Self {
        Self {
            hits: f32::from((known >> 48) as u8) / 16.0,
            exposure_seconds: f32::from_bits(u32::from((known >> 32) as u16) << 16),
            stamp: known as u32,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded to the nearest representable value on purpose"
    )]
    fn bits(self) -> u64 {
        let hits = (self.hits * 16.0 + 0.5).min(255.0) as u8;
        let exposure = self.exposure_seconds.to_bits().saturating_add(1 << 15) >> 16;
        u64::from(hits) << 48 | u64::from(exposure) << 32 | u64::from(self.stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_survives_packing_within_a_percent() {
        let back = Heat::of_bits(Heat { hits: 3.5, exposure_seconds: 0.123, stamp: 9 }.bits());
        assert_eq!((back.hits, back.stamp), (3.5, 9));
        assert!((back.exposure_seconds / 0.123 - 1.0).abs() < 0.01);
    }
}
