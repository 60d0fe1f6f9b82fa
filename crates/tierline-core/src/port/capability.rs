// SPDX-License-Identifier: Apache-2.0
//! What a world can do besides moving pages, and what a policy can require.

use std::fmt;

use serde::Serialize;

/// One ability of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Carries out [`super::Order::PageOut`] and measures the cost of paging in.
    PageOut,
    /// Carries out [`super::Order::Split`].
    Split,
    /// Answers whether a single page was accessed recently.
    Answers,
    /// Knows the true access rates of all pages.
    TrueRates,
    /// Has a kernel that tiers pages by itself.
    KernelTiering,
    /// Limits the CPU time of tenants.
    CpuShares,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 6] = [
        Self::PageOut,
        Self::Split,
        Self::Answers,
        Self::TrueRates,
        Self::KernelTiering,
        Self::CpuShares,
    ];
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PageOut => "paging out",
            Self::Split => "splitting huge pages",
            Self::Answers => "the accessed bits of single pages",
            Self::TrueRates => "the true access rates of all pages",
            Self::KernelTiering => "a kernel that places pages by itself",
            Self::CpuShares => "limits on CPU time",
        })
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u8);

impl Capabilities {
    /// The set of these.
    pub fn of(all: impl IntoIterator<Item = Capability>) -> Self {
        Self(all.into_iter().fold(0, |bits, one| bits | 1 << one as u8))
    }

    /// The set with one more, if `on`.
    #[must_use]
    pub fn with(self, one: Capability, on: bool) -> Self {
        Self(self.0 | u8::from(on) << one as u8)
    }

    /// Whether it is in the set.
    pub fn has(self, one: Capability) -> bool {
        self.0 >> (one as u8) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capability_has_its_own_bit() {
        for one in Capability::ALL {
            let only = Capabilities::of([one]);
            let has: Vec<_> = Capability::ALL.into_iter().filter(|&each| only.has(each)).collect();
            assert_eq!(has, [one]);
            assert_eq!(Capabilities::default().with(one, true), only);
            assert!(!Capabilities::default().with(one, false).has(one));
        }
    }
}
