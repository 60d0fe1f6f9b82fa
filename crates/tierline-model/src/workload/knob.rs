// SPDX-License-Identifier: Apache-2.0
//! Knobs of workloads, each declared once.
//!
//! [`program_knobs!`] turns declarations into a struct with defaults, a table for help and documents, and a
//! setter that refuses values out of range.

use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};
use toml::{Table, Value};

use super::program::Program;
use crate::error::{Error, Result};

/// Description of a knob, in the notation of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Kind of value: a size, a time, a rate, a number.
    pub unit: &'static str,
    /// Permitted values.
    pub range: String,
    /// Default value.
    pub default: String,
}

/// A type of knob values.
pub trait Setting: Sized + PartialOrd {
    /// Kind of value.
    const UNIT: &'static str;

    /// Parses a value of a scenario.
    ///
    /// # Errors
    /// A message for a value of another type.
    fn read(value: &Value) -> Result<Self, String>;

    /// The value in the notation of the command line.
    fn written(&self) -> String;

    /// Whether it is in the inclusive range.
    fn is_within(&self, least: &Self, most: &Self) -> bool {
        (least..=most).contains(&self)
    }

    /// The range as text.
    fn range(least: &Self, most: &Self) -> String {
        format!("{} to {}", least.written(), most.written())
    }
}

impl Setting for f64 {
    const UNIT: &'static str = "number";
    fn read(value: &Value) -> Result<Self, String> {
        #[expect(clippy::cast_precision_loss, reason = "knobs are small numbers")]
        let whole = || value.as_integer().map(|number| number as Self);
        value.as_float().or_else(whole).ok_or_else(|| expected("a number", value))
    }
    fn written(&self) -> String {
        self.to_string()
    }
}

impl Setting for u32 {
    const UNIT: &'static str = "whole number";
    fn read(value: &Value) -> Result<Self, String> {
        let number = value.as_integer().and_then(|number| Self::try_from(number).ok());
        number.ok_or_else(|| expected("a whole number", value))
    }
    fn written(&self) -> String {
        self.to_string()
    }
}

impl Setting for TierId {
    const UNIT: &'static str = "tier, 0 the fastest";
    fn read(value: &Value) -> Result<Self, String> {
        let number = value.as_integer().and_then(|number| u8::try_from(number).ok());
        number.map(Self).ok_or_else(|| expected("the number of a tier", value))
    }
    fn written(&self) -> String {
        self.0.to_string()
    }
}

/// Formats a quantity in the largest unit that divides it.
fn exact(quantity: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, size)| quantity.is_multiple_of(*size) && quantity >= *size);
    match unit {
        Some((name, size)) => format!("{}{name}", quantity / size),
        None => format!("0{}", units.last().map_or("", |(name, _)| name)),
    }
}

macro_rules! quantities {
    ($($type:ident, $unit:literal, $units:expr;)*) => {$(
        impl Setting for $type {
            const UNIT: &'static str = $unit;
            fn read(value: &Value) -> Result<Self, String> {
                let text = value.as_str().ok_or_else(|| expected(concat!("a ", $unit), value))?;
                text.parse().map_err(|error: tierline_core::unit::ParseUnitError| error.to_string())
            }
            fn written(&self) -> String {
                exact(self.0, &$units)
            }
        }
    )*};
}
quantities! {
    Bytes, "size", [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    BytesPerSec, "rate", [("GiB/s", 1 << 30), ("MiB/s", 1 << 20), ("KiB/s", 1 << 10), ("B/s", 1)];
    Nanos, "time", [("h", 3_600_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
}

/// An optional value.
impl<T: Setting> Setting for Option<T> {
    const UNIT: &'static str = T::UNIT;
    fn read(value: &Value) -> Result<Self, String> {
        T::read(value).map(Some)
    }
    fn written(&self) -> String {
        self.as_ref().map_or_else(|| "none".into(), T::written)
    }
    fn is_within(&self, least: &Self, most: &Self) -> bool {
        self.is_none() || (least..=most).contains(&self)
    }
}

/// The error for a value of another type; quantities must be strings, as in `"24GiB"`.
pub(super) fn expected(what: &str, found: &Value) -> String {
    format!("expected {what}, found {found}")
}

/// Range of sizes: from a page to more than any machine has.
pub const MIN_SET: Bytes = Bytes(4096);
/// See [`MIN_SET`].
pub const MAX_SET: Bytes = Bytes(64 << 40);
/// An object fits into a huge page.
pub const MAX_OBJECT: Bytes = Bytes(2 << 20);
/// More than any machine has.
pub const MAX_THREADS: f64 = 4096.0;
/// Maximum rate of growth and drift.
pub const MAX_RATE: BytesPerSec = BytesPerSec(1 << 40);
/// Range of times: from a step to a complete run.
pub const MIN_TIME: Nanos = Nanos::from_millis(1);
/// See [`MIN_TIME`].
pub const MAX_TIME: Nanos = Nanos::from_secs(36_000);

/// Converts GiB to bytes.
pub const fn gib(gib: u64) -> Bytes {
    Bytes(gib << 30)
}

/// The knobs of a program.
pub trait ProgramKnobs: Default {
    /// All knobs, in order of declaration.
    fn table() -> Vec<Knob>;

    /// Sets a knob; `None` if the name is unknown.
    fn set(&mut self, name: &str, value: &Value) -> Option<Result<(), String>>;

    /// Reads the knobs from a table of a scenario; missing knobs have their defaults.
    ///
    /// # Errors
    /// `Error::Unknown` for an unknown name, `Error::Figure` for an invalid value.
    fn read(place: &str, values: &Table) -> Result<Self> {
        let mut knobs = Self::default();
        for (name, value) in values {
            let set = knobs.set(name, value).ok_or_else(|| {
                let known = Self::table();
                Error::unknown("knob", name, known.iter().map(|knob| knob.name)).within(place)
            })?;
            set.map_err(|why| Error::Figure {
                place: place.into(),
                why: format!("{name}: {why}"),
            })?;
        }
        Ok(knobs)
    }
}

/// Reads the knobs of a workload and builds its program.
///
/// # Errors
/// As [`ProgramKnobs::read`], and if the program is invalid.
pub fn make<K: ProgramKnobs>(
    place: &str,
    values: &Table,
    program: impl FnOnce(K) -> Result<Program, String>,
) -> Result<Program> {
    let checked = program(K::read(place, values)?).and_then(|program| match program.problem() {
        Some(why) => Err(why),
        None => Ok(program),
    });
    checked.map_err(|why| Error::Figure { place: place.into(), why })
}

/// Declares the knobs of a program: `/// about` `name: type = default, least, most;`
macro_rules! program_knobs {
    ($(#[$meta:meta])* pub struct $knobs:ident {
        $(#[doc = $about:literal] $name:ident: $type:ty = $default:expr, $least:expr, $most:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $knobs {
            $(#[doc = $about] pub $name: $type,)*
        }

        impl Default for $knobs {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl $crate::workload::knob::ProgramKnobs for $knobs {
            fn table() -> Vec<$crate::workload::knob::Knob> {
                use $crate::workload::knob::Setting;
                let default = Self::default();
                vec![$($crate::workload::knob::Knob {
                    name: stringify!($name),
                    about: $about.trim_ascii(),
                    unit: <$type>::UNIT,
                    range: <$type>::range(&$least, &$most),
                    default: default.$name.written(),
                },)*]
            }

            fn set(&mut self, name: &str, value: &toml::Value) -> Option<Result<(), String>> {
                use $crate::workload::knob::Setting;
                Some(match name {
                    $(stringify!($name) => <$type>::read(value).and_then(|value| {
                        let (least, most): ($type, $type) = ($least, $most);
                        match value.is_within(&least, &most) {
                            true => self.$name = value,
                            false => return Err(format!(
                                "{}, expected {}", value.written(), <$type>::range(&least, &most)
                            )),
                        }
                        Ok(())
                    }),)*
                    _ => return None,
                })
            }
        }
    };
}
pub(crate) use program_knobs;

#[cfg(test)]
mod tests {
    use super::*;

    program_knobs! {
        /// An example.
        pub struct Example {
            /// All of it.
            set: Bytes = Bytes::from_mib(3 << 10), Bytes(4096), Bytes(1 << 40);
            /// A share.
            part: f64 = 0.5, 0.0, 1.0;
            /// When.
            at: Option<Nanos> = None, Some(Nanos::from_millis(1)), Some(Nanos::from_secs(7_200));
        }
    }

    #[test]
    fn a_declaration_gives_a_table_in_command_line_notation() {
        let table = Example::table();
        let texts = |knob: &Knob| [knob.unit.into(), knob.range.clone(), knob.default.clone()];
        assert_eq!(texts(&table[0]), ["size", "4KiB to 1TiB", "3GiB"]);
        assert_eq!(texts(&table[1]), ["number", "0 to 1", "0.5"]);
        assert_eq!(texts(&table[2]), ["time", "1ms to 2h", "none"]);
        assert_eq!((table[0].name, table[0].about), ("set", "All of it."));
    }

    #[test]
    fn values_are_parsed_and_invalid_ones_refused() {
        let read = |text: &str| Example::read("here", &text.parse().unwrap());
        let some = read("set = \"1536MiB\"\npart = 1\nat = \"90s\"").unwrap();
        assert_eq!((some.set, some.part), (Bytes::from_mib(1536), 1.0));
        assert_eq!(some.at, Some(Nanos::from_secs(90)));
        for (text, why) in [
            ("part = 1.5", "here: part: 1.5, expected 0 to 1"),
            ("part = \"much\"", "expected a number, found \"much\""),
            ("set = 4096", "expected a size, found 4096"),
            ("set = \"2TiB\"", "2TiB, expected 4KiB to 1TiB"),
            ("at = \"0s\"", "0ns, expected 1ms to 2h"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(read("sett = 3").unwrap_err().to_string().contains("sett"));
    }
}
