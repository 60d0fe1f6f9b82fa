// SPDX-License-Identifier: Apache-2.0
//! Sizes and times on the command line: `700M`, `250ms`.

use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Bytes of a page. The lab's guests are x86-64.
pub const PAGE: usize = 4096;

/// A size: digits and one of `K`, `M`, `G` (powers of 1024), or plain bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Number of whole pages that hold this many bytes.
    pub fn pages(self) -> usize {
        usize::try_from(self.0.div_ceil(PAGE as u64)).expect("a 64-bit machine")
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let wrong = || format!("`{text}` is not a size; write it like 700M, 1G, 64K or 4096");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(wrong)
    }
}

/// A length of time: digits and one of `us`, `ms`, `s`, `m`, or plain seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("`{text}` is not a time; write it like 90s, 250ms, 1.5s or 2m");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale = match &text[digits.len()..] {
            "us" => 1e-6,
            "ms" => 1e-3,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            _ => return Err(wrong()),
        };
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        Duration::try_from_secs_f64(number * scale).map(Span).map_err(|_| wrong())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.seconds())
    }
}

/// A share, 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is not a share between 0 and 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!("700M".parse(), Ok(Bytes(700 << 20)));
        assert_eq!("1g".parse(), Ok(Bytes(1 << 30)));
        assert_eq!("64KiB".parse(), Ok(Bytes(65536)));
        assert_eq!("4097".parse::<Bytes>().unwrap().pages(), 2);
        for wrong in ["", "M", "1T", "-1", "1.5G", "99999999999G"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times() {
        assert_eq!("250ms".parse(), Ok(Span(Duration::from_millis(250))));
        assert_eq!("1.5s".parse(), Ok(Span(Duration::from_millis(1500))));
        assert_eq!("2m".parse(), Ok(Span(Duration::from_secs(120))));
        assert_eq!("90".parse(), Ok(Span(Duration::from_secs(90))));
        for wrong in ["", "s", "5h", "-1s"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!(share("0.9"), Ok(0.9));
        assert!(share("1.1").is_err() && share("NaN").is_err() && share("x").is_err());
    }
}
