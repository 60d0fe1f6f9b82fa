// SPDX-License-Identifier: Apache-2.0
//! Numbers with their units. Conversions are defined only here.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of a base page.
pub const BASE_PAGE: Bytes = Bytes(4096);
/// Base pages in a huge page.
pub const BASE_PER_HUGE: u64 = 512;

/// A time or a duration in nanoseconds. The core never reads a clock: `now` is always an argument.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// `s` seconds; negative numbers and NaN become zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate"
    )]
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9) as u64)
    }

    /// Seconds.
    #[expect(clippy::cast_precision_loss, reason = "52 bits of nanoseconds are 52 days")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// `self - other`, but at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A size in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// `mib` mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// The bytes of `pages` base pages. A number that somebody made up may be too large.
    pub const fn from_base_pages(pages: u64) -> Self {
        Self(pages.saturating_mul(BASE_PAGE.0))
    }

    /// This share of it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a memory has far fewer than 2^52 bytes, and the cast saturates"
    )]
    pub fn part(self, share: f64) -> Self {
        Self((self.0 as f64 * share) as u64)
    }

    /// Whole base pages in it.
    pub const fn base_pages(self) -> u64 {
        self.0 / BASE_PAGE.0
    }

    /// `self - other`, but at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Takes `other` away, if there is as much; returns whether there was.
    pub fn deduct(&mut self, other: Self) -> bool {
        let left = self.0.checked_sub(other.0);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// A rate in bytes per second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BytesPerSec(pub u64);

macro_rules! arithmetic {
    ($($t:ident),*) => {$(
        impl Add for $t { type Output = Self; fn add(self, o: Self) -> Self { Self(self.0 + o.0) } }
        impl Sub for $t { type Output = Self; fn sub(self, o: Self) -> Self { Self(self.0 - o.0) } }
        impl Mul<u64> for $t { type Output = Self; fn mul(self, k: u64) -> Self { Self(self.0 * k) } }
        impl AddAssign for $t { fn add_assign(&mut self, o: Self) { self.0 += o.0 } }
        impl SubAssign for $t { fn sub_assign(&mut self, o: Self) { self.0 -= o.0 } }
        impl std::iter::Sum for $t {
            fn sum<I: Iterator<Item = Self>>(i: I) -> Self { i.fold(Self(0), |a, b| a + b) }
        }
    )*};
}
arithmetic!(Nanos, Bytes);

/// A quantity that cannot be parsed; the message gives the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not {what} (expected {expected})")]
pub struct ParseUnitError {
    what: &'static str,
    found: String,
    expected: &'static str,
}

/// Parses a number with a suffix and multiplies it by the suffix's factor.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a typed quantity is far below 2^52, and the bound is checked"
)]
fn parse_scaled(text: &str, factor: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let value = number * factor(text[split..].trim())? as f64;
    (value.is_finite() && value < 9e15).then_some(value.round() as u64)
}

fn byte_factor(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "" | "B" => 1,
        "K" | "KB" | "KiB" | "k" => 1 << 10,
        "M" | "MB" | "MiB" => 1 << 20,
        "G" | "GB" | "GiB" => 1 << 30,
        "T" | "TB" | "TiB" => 1 << 40,
        _ => return None,
    })
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    /// `4K`, `512M`, `1.5GiB`: suffixes are powers of 1024.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_scaled(text, byte_factor).map(Self).ok_or_else(|| ParseUnitError {
            what: "a size",
            found: text.into(),
            expected: "a number with K, M, G or T, as in 512M",
        })
    }
}

impl FromStr for BytesPerSec {
    type Err = ParseUnitError;

    /// `200MB/s`: a size per second, powers of 1024.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.trim()
            .strip_suffix("/s")
            .and_then(|size| parse_scaled(size, byte_factor))
            .map(Self)
            .ok_or_else(|| ParseUnitError {
                what: "a rate",
                found: text.into(),
                expected: "a size per second, as in 200MB/s",
            })
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;

    /// `250ns`, `5ms`, `1.5s`, `10m`, `1h`; a number without unit is refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_scaled(text, |suffix| {
            Some(match suffix {
                "ns" => 1,
                "us" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" | "min" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return None,
            })
        })
        .map(Self)
        .ok_or_else(|| ParseUnitError {
            what: "a time",
            found: text.into(),
            expected: "a number with ns, us, ms, s, m or h, as in 100ms",
        })
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.as_secs_f64();
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", secs * 1e6),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", secs * 1e3),
            _ => write!(f, "{secs:.1} s"),
        }
    }
}

impl fmt::Display for Bytes {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        for unit in ["B", "KiB", "MiB", "GiB"] {
            if value < 1024.0 {
                let digits = usize::from(unit != "B" && value < 100.0);
                return write!(f, "{value:.digits$} {unit}");
            }
            value /= 1024.0;
        }
        write!(f, "{value:.1} TiB")
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Bytes(self.0))
    }
}

/// The bytes at a rate in a time.
#[expect(clippy::cast_possible_truncation, reason = "saturates at the largest size")]
pub(crate) fn in_time(rate: BytesPerSec, time: Nanos) -> Bytes {
    let bytes = u128::from(rate.0) * u128::from(time.0) / 1_000_000_000;
    Bytes(bytes.min(u128::from(u64::MAX >> 1)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_users_write_them() {
        assert_eq!("4K".parse(), Ok(Bytes(4096)));
        assert_eq!("1.5GiB".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("200MB/s".parse(), Ok(BytesPerSec(200 << 20)));
        assert_eq!("5ms".parse(), Ok(Nanos::from_millis(5)));
        assert_eq!("10m".parse(), Ok(Nanos::from_secs(600)));
    }

    #[test]
    fn a_number_without_unit_is_refused_and_an_error_names_the_input() {
        assert!("5".parse::<Nanos>().is_err());
        assert!("5MB".parse::<BytesPerSec>().is_err());
        let e = "12Q".parse::<Bytes>().unwrap_err().to_string();
        assert!(e.contains("12Q") && e.contains("512M"), "{e}");
    }

    #[test]
    fn quantities_print_with_iec_units() {
        assert_eq!(Bytes(700 << 20).to_string(), "700 MiB");
        assert_eq!(Nanos(1_500_000).to_string(), "1.5 ms");
    }
}
