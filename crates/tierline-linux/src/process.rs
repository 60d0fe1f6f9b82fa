// SPDX-License-Identifier: Apache-2.0
//! The managed processes and their mappings.

pub(crate) mod advise;
pub mod held;
pub(crate) mod huge;
pub(crate) mod limits;
pub mod maps;
pub(crate) mod namespace;
pub mod rule;
pub mod stat;
pub mod targets;

pub use held::Held;
pub use maps::Maps;
pub use rule::{NamedRule, Rule};
pub use stat::Stat;
pub use targets::{Selection, TargetChanges, Targets};
