// SPDX-License-Identifier: Apache-2.0
//! Quantities as strings in TOML: `"24GiB"`, `"100ms"`. For `#[serde(deserialize_with = …)]`.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Parses a value from its text.
pub fn quantity<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(d: D) -> Result<T, D::Error> {
    String::deserialize(d)?.parse().map_err(D::Error::custom)
}

/// Parses an optional value.
pub fn maybe<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    quantity(d).map(Some)
}
