// SPDX-License-Identifier: Apache-2.0
//! Values in written form: numbers with units, and a word for "automatic".

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use tierline_linux::topology::TierSpec;
use tierline_linux::tracker::neoprof::DeviceLocation;

/// A value with a written form that parses to the same value.
pub trait TextForm: FromStr {
    /// The word for no value.
    const NONE: &'static str;
    /// The written form.
    fn to_text(&self) -> String;
}

/// A value that is a string in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<T>(pub T);

/// A value or none; `none` and `auto` both mean none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrAuto<T>(pub Option<T>);

impl<T: FromStr> FromStr for Text<T> {
    type Err = T::Err;
    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.parse().map(Self)
    }
}

impl<T: FromStr> FromStr for OrAuto<T> {
    type Err = T::Err;
    fn from_str(text: &str) -> Result<Self, T::Err> {
        match text.trim() {
            "none" | "auto" => Ok(Self(None)),
            text => text.parse().map(|value| Self(Some(value))),
        }
    }
}

impl<T: TextForm> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_text())
    }
}

impl<T: TextForm> Serialize for OrAuto<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.as_ref().map_or_else(|| T::NONE.into(), T::to_text);
        serializer.serialize_str(&text)
    }
}

fn from_string<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_string(deserializer)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for OrAuto<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_string(deserializer)
    }
}

/// Values for a policy's knobs, by name, as in `demote_scale=0.05,three_faults=1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs(pub Vec<(String, f64)>);

impl FromStr for Knobs {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let knob = |part: &str| {
            let (name, value) = part.split_once('=')?;
            Some((
                name.trim().to_string(),
                value.trim().parse().ok().filter(|v: &f64| v.is_finite())?,
            ))
        };
        let wrong = |part: &str| format!("{part:?} is not NAME=NUMBER, as in demote_scale=0.05");
        text.split(',')
            .map(|part| knob(part).ok_or_else(|| wrong(part)))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl TextForm for Knobs {
    const NONE: &'static str = "none";
    fn to_text(&self) -> String {
        let written = self.0.iter().map(|(name, value)| format!("{name}={value}"));
        written.collect::<Vec<_>>().join(",")
    }
}

/// Writes `value` in the largest unit that divides it, so that nothing is rounded.
fn exact(value: u64, units: &[(u64, &str)]) -> String {
    let fits = |(size, _): &&(u64, &str)| value != 0 && value.is_multiple_of(*size);
    let (size, name) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1, ""));
    format!("{}{name}", value / size)
}

const SIZES: [(u64, &str); 5] =
    [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
const TIMES: [(u64, &str); 6] = [
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

impl TextForm for Bytes {
    const NONE: &'static str = "none";
    fn to_text(&self) -> String {
        exact(self.0, &SIZES)
    }
}

impl TextForm for BytesPerSec {
    const NONE: &'static str = "none";
    fn to_text(&self) -> String {
        exact(self.0, &SIZES) + "/s"
    }
}

impl TextForm for Nanos {
    const NONE: &'static str = "none";
    fn to_text(&self) -> String {
        exact(self.0, &TIMES)
    }
}

impl TextForm for TierSpec {
    const NONE: &'static str = "auto";
    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl TextForm for DeviceLocation {
    const NONE: &'static str = "auto";
    fn to_text(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_parse_to_the_same_value() {
        for bytes in [0, 1, 4096, 100_001, 3 << 29, 5 << 40] {
            assert_eq!(Bytes(bytes).to_text().parse(), Ok(Bytes(bytes)));
            assert_eq!(BytesPerSec(bytes).to_text().parse(), Ok(BytesPerSec(bytes)));
        }
        for nanos in [0, 1, 50_000_000, 90_000_000_000, 7_200_000_000_000] {
            assert_eq!(Nanos(nanos).to_text().parse(), Ok(Nanos(nanos)));
        }
        for knobs in ["demote_scale=0.05", "hot_threshold=1,demotion=0"] {
            assert_eq!(knobs.parse::<Knobs>().map(|knobs| knobs.to_text()), Ok(knobs.into()));
        }
        assert!("demote_scale".parse::<Knobs>().is_err() && "a=1,b=inf".parse::<Knobs>().is_err());
        assert_eq!(Bytes(3 << 29).to_text(), "1536MiB");
        assert_eq!("none".parse(), Ok::<_, <Bytes as FromStr>::Err>(OrAuto::<Bytes>(None)));
    }
}
