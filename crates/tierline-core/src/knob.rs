// SPDX-License-Identifier: Apache-2.0
//! Knobs: the numbers of a policy that can be set, each declared once.
//!
//! [`knobs!`](crate::knobs) turns a list of declarations into a struct with defaults and a table. Help, command
//! line and tuner all read this table.

use crate::unit::{Bytes, BytesPerSec, Nanos};

/// A number of a policy that can be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// The name users type.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The unit of its value; empty for a count or a share.
    pub unit: &'static str,
    /// The kind of number.
    pub form: NumberKind,
    /// The least and the greatest sensible value.
    pub range: [f64; 2],
    /// The default.
    pub default: f64,
}

/// The kind of number that a knob is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// A real number.
    Real,
    /// A whole number.
    Whole,
    /// 0 or 1.
    Switch,
}

/// A type that a knob can have. Its value is a number in the type's base unit; a switch is 0 or 1.
pub trait KnobValue: Copy {
    /// The base unit.
    const UNIT: &'static str;
    /// The kind of number.
    const FORM: NumberKind;
    /// From a number.
    fn of(value: f64) -> Self;
    /// As a number.
    fn value(self) -> f64;
}

impl KnobValue for f64 {
    const UNIT: &'static str = "";
    const FORM: NumberKind = NumberKind::Real;
    fn of(value: f64) -> Self {
        value
    }
    fn value(self) -> f64 {
        self
    }
}

impl KnobValue for u32 {
    const UNIT: &'static str = "";
    const FORM: NumberKind = NumberKind::Whole;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate"
    )]
    fn of(value: f64) -> Self {
        value.round() as Self
    }
    fn value(self) -> f64 {
        self.into()
    }
}

impl KnobValue for bool {
    const UNIT: &'static str = "0 or 1";
    const FORM: NumberKind = NumberKind::Switch;
    fn of(value: f64) -> Self {
        value >= 0.5
    }
    fn value(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl KnobValue for Nanos {
    const UNIT: &'static str = "s";
    const FORM: NumberKind = NumberKind::Real;
    fn of(value: f64) -> Self {
        Self::from_secs_f64(value)
    }
    fn value(self) -> f64 {
        self.as_secs_f64()
    }
}

impl KnobValue for Bytes {
    const UNIT: &'static str = "B";
    const FORM: NumberKind = NumberKind::Whole;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate"
    )]
    fn of(value: f64) -> Self {
        Self(value as u64)
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes worth setting have few digits")]
    fn value(self) -> f64 {
        self.0 as f64
    }
}

impl KnobValue for BytesPerSec {
    const UNIT: &'static str = "B/s";
    const FORM: NumberKind = NumberKind::Whole;
    fn of(value: f64) -> Self {
        Self(Bytes::of(value).0)
    }
    fn value(self) -> f64 {
        Bytes(self.0).value()
    }
}

/// Declares a policy's knobs: `/// about` `name: type = default, least..=greatest;`
#[macro_export]
macro_rules! knobs {
    ($(#[$meta:meta])* pub struct $knobs:ident {
        $(#[doc = $about:literal] $name:ident: $type:ty = $default:expr, $least:expr, $most:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $knobs {
            $(#[doc = $about] pub $name: $type,)*
        }

        impl Default for $knobs {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl $knobs {
            /// All knobs, in order of declaration.
            pub fn table() -> Vec<$crate::knob::Knob> {
                use $crate::knob::KnobValue;
                let default = Self::default();
                vec![$($crate::knob::Knob {
                    name: stringify!($name),
                    about: $about.trim_ascii(),
                    unit: <$type as KnobValue>::UNIT,
                    form: <$type as KnobValue>::FORM,
                    range: [KnobValue::value($least), KnobValue::value($most)],
                    default: default.$name.value(),
                },)*]
            }

            /// Sets the knob of that name; false if there is none.
            pub fn set(&mut self, name: &str, value: f64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = $crate::knob::KnobValue::of(value),)*
                    _ => return false,
                }
                true
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::knobs! {
        /// Example knobs.
        pub struct Example {
            /// Time between decisions.
            period: Nanos = Nanos::from_millis(10), Nanos::from_millis(1), Nanos::from_secs(1);
            /// Whether it is on.
            on: bool = true, false, true;
        }
    }

    #[test]
    fn a_declaration_is_a_struct_a_table_and_a_setter() {
        let table = Example::table();
        assert_eq!(table[0].name, "period");
        assert_eq!((table[0].unit, table[0].default, table[0].range), ("s", 0.01, [0.001, 1.0]));
        assert_eq!(table[1].about, "Whether it is on.");
        assert_eq!([table[0].form, table[1].form], [NumberKind::Real, NumberKind::Switch]);
        let mut example = Example::default();
        assert!(example.set("period", 0.5) && example.set("on", 0.0) && !example.set("off", 1.0));
        assert_eq!(example, Example { period: Nanos::from_millis(500), on: false });
    }
}
