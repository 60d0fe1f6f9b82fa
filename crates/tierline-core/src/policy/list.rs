// SPDX-License-Identifier: Apache-2.0
//! The list of policies: the one place that knows them by name.
//!
//! A new policy is a file of its own and an entry here; help, documents, tests, the matrix and the tuner range over
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

/// What a policy is in comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It places pages so that programs are fast: it competes.
    Rival,
    /// It knows what no policy can know.
    Bound,
    /// It serves another purpose, as reclaimers do, or only Linux has it.
    Other,
}

/// An entry of the list of policies.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// The name users type.
    pub name: &'static str,
    /// The head of its file: what it does, when it helps, when it hurts, knobs, source.
    pub doc: &'static str,
    /// The head of the file of what it is combined with: another goal than its own, a reclaimer above.
    pub goal: Option<&'static str>,
    /// What it is in comparisons.
    pub role: Role,
    /// Makes one.
    pub make: fn() -> Box<dyn Policy>,
}

/// The head of Colloid's file, for the policies that have it as their goal.
const COLLOID: &str = include_str!("goal/balance.rs");

/// The head of TMO's file, for the policies that it stands above.
const TMO: &str = include_str!("tmo.rs");

/// Declares the list, a line each: the role, the name, the file, what it is combined with, and how it is made.
macro_rules! policies {
    (@goal) => { None };
    (@goal $goal:ident) => { Some($goal) };
    ($($role:ident $name:literal = $file:literal $(+ $goal:ident)?, $make:expr;)*) => {
        /// Every policy there is; the first is the default. Help, documents, tests and comparisons range over this list.
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

    /// What the policy's file, and that of what it is combined with, say of themselves, as plain text.
    pub fn explain(&self) -> String {
        let policy = head(self.doc);
        let Some(goal) = self.goal.map(head) else { return policy };
        let summary = |text: &str| text.lines().next().unwrap_or_default().to_string();
        format!("{}: {} With {}\n\n{policy}\n{goal}", self.name, summary(&policy), summary(&goal))
    }
}

/// The head of a source file, without what marks it as one.
fn head(source: &str) -> String {
    let lines = source.lines().skip(1).take_while(|line| line.starts_with("//!"));
    lines
        .map(|line| {
            line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_string() + "\n"
        })
        .collect()
}
