// SPDX-License-Identifier: Apache-2.0
//! Quantities that are strings in TOML: `"24GiB"`, `"100ms"`. For `#[serde(deserialize_with = …)]`.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reads a value from its written form.
pub fn quantity<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(d: D) -> Result<T, D::Error> {
    String::deserialize(d)?.parse().map_err(D::Error::custom)
}

/// Reads a value that may be left out.
pub fn maybe<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    quantity(d).map(Some)
}
