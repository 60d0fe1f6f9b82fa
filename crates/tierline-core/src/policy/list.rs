// SPDX-License-Identifier: Apache-2.0
//! The list of policies: the only place that names them all.
//!
//! A new policy is one file and one entry here; help, documents, tests, the matrix and the tuner iterate over
//! this list.

use super::autonuma::autonuma;
use super::goal::balance::Balance;
use super::goal::pack::Pack;
use super::hemem::Hemem;
use super::linux::linux;
use super::memtis::Memtis;
use super::neomem::neomem;
use super::tmo::Tmo;
use super::tpp::tpp;
use super::{
    Policy, arms, autotiering, damon, first_touch, fixed, hold, kernel, oracle, paging, tierline,
};

/// A policy's role in comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Competes: it places pages to make programs fast.
    Rival,
    /// A bound: it uses knowledge that no real policy has.
    Bound,
    /// Has another purpose, such as reclaim, or exists on Linux only.
    Other,
}

/// An entry of the list of policies.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// The name users type.
    pub name: &'static str,
    /// The head of its file: what it does, when it helps, when it hurts, knobs, source.
    pub doc: &'static str,
    /// The head of the file of its other part: a goal, or a reclaimer above it.
    pub goal: Option<&'static str>,
    /// Its role in comparisons.
    pub role: Role,
    /// Constructs it.
    pub make: fn() -> Box<dyn Policy>,
}

/// The head of Colloid's file, for policies with that goal.
const COLLOID: &str = include_str!("goal/balance.rs");

/// The head of TMO's file, for policies below it.
const TMO: &str = include_str!("tmo.rs");

/// Declares the list, one line each: role, name, file, other part, constructor.
macro_rules! policies {
    (@goal) => { None };
    (@goal $goal:ident) => { Some($goal) };
    ($($role:ident $name:literal = $file:literal $(+ $goal:ident)?, $make:expr;)*) => {
        /// All policies; the first is the default.
        pub const POLICIES: &[PolicyEntry] = &[$(PolicyEntry {
            name: $name,
            doc: include_str!($file),
            goal: policies!(@goal $($goal)?),
            role: Role::$role,
            make: || Box::new($make),
        },)*];
    };
}

policies! {
    Rival "tierline" = "tierline.rs", tierline::Tierline::default();
    Rival "hemem" = "hemem.rs", Hemem::new("hemem", Box::new(Pack));
    Rival "hemem+colloid" = "hemem.rs" + COLLOID, Hemem::new("hemem+colloid", Box::<Balance>::default());
    Rival "memtis" = "memtis.rs", Memtis::new("memtis", Box::new(Pack));
    Rival "memtis+colloid" = "memtis.rs" + COLLOID, Memtis::new("memtis+colloid", Box::<Balance>::default());
    Rival "arms" = "arms.rs", arms::Arms::default();
    Rival "neomem" = "neomem.rs", neomem("neomem");
    Rival "tpp" = "tpp.rs", tpp("tpp", Box::new(Pack));
    Rival "tpp+colloid" = "tpp.rs" + COLLOID, tpp("tpp+colloid", Box::<Balance>::default());
    Rival "linux" = "linux.rs", linux("linux", Box::new(Pack));
    Rival "linux+colloid" = "linux.rs" + COLLOID, linux("linux+colloid", Box::<Balance>::default());
    Other "kernel" = "kernel.rs", kernel::Kernel::default();
    Other "tierline+tmo" = "tierline.rs" + TMO, Tmo::over("tierline+tmo", Box::<tierline::Tierline>::default());
    Other "tpp+tmo" = "tpp.rs" + TMO, Tmo::over("tpp+tmo", Box::new(tpp("tpp", Box::new(Pack))));
    Other "linux+tmo" = "linux.rs" + TMO, Tmo::over("linux+tmo", Box::new(linux("linux", Box::new(Pack))));
    Other "paging+tmo" = "paging.rs" + TMO, Tmo::over_paging("paging+tmo", Box::new(paging::paging()));
    Other "first-touch+tmo" = "first_touch.rs" + TMO, Tmo::over("first-touch+tmo", Box::new(first_touch::FirstTouch));
    Rival "autonuma" = "autonuma.rs", autonuma("autonuma");
    Rival "autotiering" = "autotiering.rs", autotiering::Autotiering::default();
    Rival "damon" = "damon.rs", damon::Damon::default();
    Bound "oracle" = "oracle.rs", oracle::Oracle::default();
    Other "fixed" = "fixed.rs", fixed::Fixed::default();
    Other "paging" = "paging.rs", paging::paging();
    Rival "first-touch" = "first_touch.rs", first_touch::FirstTouch;
    Other "hold" = "hold.rs", hold::Hold;
}

impl PolicyEntry {
    /// The policy of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|entry| entry.name == name)
    }

    /// The heads of the policy's file and of its other part's, as plain text.
    pub fn explain(&self) -> String {
        let policy = head(self.doc);
        let Some(goal) = self.goal.map(head) else { return policy };
        let summary = |text: &str| text.lines().next().unwrap_or_default().to_string();
        format!("{}: {} With {}\n\n{policy}\n{goal}", self.name, summary(&policy), summary(&goal))
    }
}

/// The head of a source file, without comment markers.
fn head(source: &str) -> String {
    let lines = source.lines().skip(1).take_while(|line| line.starts_with("//!"));
    lines
        .map(|line| {
            line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_string() + "\n"
        })
        .collect()
}
