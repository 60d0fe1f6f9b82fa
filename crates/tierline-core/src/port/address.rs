// SPDX-License-Identifier: Apache-2.0
//! How the port names a page: an address space, a virtual page number, a size.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::unit::{BASE_PAGE, BASE_PER_HUGE, Bytes};

/// One address space: on Linux a process (its pid), in the model a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SpaceId(pub u32);

/// A virtual page number: a virtual address divided by the base page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Vpn(pub u64);

impl Vpn {
    /// The page that holds `address`.
    pub const fn of(address: u64) -> Self {
        Self(address / BASE_PAGE.0)
    }

    /// The page's first byte.
    pub const fn address(self) -> u64 {
        self.0 * BASE_PAGE.0
    }

    /// The first base page of its huge page.
    pub const fn huge_head(self) -> Self {
        Self(self.0 / BASE_PER_HUGE * BASE_PER_HUGE)
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// The unit that moves.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Base,
    /// 2 MiB; moves as one.
    Huge,
}

impl PageSize {
    /// Base pages in one page of this size.
    pub const fn base_pages(self) -> u64 {
        match self {
            Self::Base => 1,
            Self::Huge => BASE_PER_HUGE,
        }
    }

    /// The rate per base page of a page with this rate, to compare pages of different sizes.
    pub(crate) const fn density(self, rate_per_sec: f32) -> f32 {
        rate_per_sec / self.base_pages_f32()
    }

    /// The same as [`PageSize::base_pages`], as `f32`.
    pub(crate) const fn base_pages_f32(self) -> f32 {
        match self {
            Self::Base => 1.0,
            Self::Huge => 512.0,
        }
    }

    /// The binary logarithm of [`PageSize::base_pages`].
    pub(crate) const fn shift(self) -> u32 {
        self.base_pages().trailing_zeros()
    }

    /// Bytes of one page of this size.
    pub const fn bytes(self) -> Bytes {
        Bytes::from_base_pages(self.base_pages())
    }
}

/// What backs a page.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// Private memory: heap, stack.
    #[default]
    Anonymous,
    /// The page cache, mapped.
    File,
    /// Shared memory.
    Shared,
}

/// A run of virtual pages of one kind and size. `base_pages` counts base pages for either size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Its address space.
    pub space: SpaceId,
    /// Its first page; on a huge-page boundary if `size` is huge.
    pub start: Vpn,
    /// Its length in base pages; a multiple of 512 if `size` is huge.
    pub base_pages: u64,
    /// The size of its pages.
    pub size: PageSize,
    /// What backs it.
    pub kind: PageKind,
}

/// The address of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageAddress {
    /// Its address space.
    pub space: SpaceId,
    /// The page; of a huge page, its head.
    pub vpn: Vpn,
    /// Its size.
    pub size: PageSize,
}

/// A tenant: a program, a container or a pod, with limits of its own if set. `tn0` is nobody: it holds the
/// address spaces without a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TenantId(pub u16);

impl TenantId {
    /// Holds the address spaces without a tenant.
    pub const NOBODY: Self = Self(0);
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tn{}", self.0)
    }
}
