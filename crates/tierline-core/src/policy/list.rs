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

/// An entry of the list of policies.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// The name users type.
    pub name: &'static str,
    /// The head of its file: what it does, when it helps, when it hurts, knobs, source.
    pub doc: &'static str,
    /// The head of the file of what it is combined with: another goal than its own, a reclaimer above.
    pub goal: Option<&'static str>,
    /// Makes one.
    pub make: fn() -> Box<dyn Policy>,
}

/// The head of Colloid's file, for the policies that have it as their goal.
const COLLOID: &str = include_str!("goal/balance.rs");

/// The head of TMO's file, for the policies that it stands above.
const TMO: &str = include_str!("tmo.rs");

/// Every policy there is; the first is the default. Help, docs and tests range over this list.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "tierline",
        doc: include_str!("tierline.rs"),
        goal: None,
        make: || Box::<tierline::Tierline>::default(),
    },
    PolicyEntry {
        name: "hemem",
        doc: include_str!("hemem.rs"),
        goal: None,
        make: || Box::new(Hemem::new("hemem", Box::new(Pack))),
    },
    PolicyEntry {
        name: "hemem+colloid",
        doc: include_str!("hemem.rs"),
        goal: Some(COLLOID),
        make: || Box::new(Hemem::new("hemem+colloid", Box::<Balance>::default())),
    },
    PolicyEntry {
        name: "memtis",
        doc: include_str!("memtis.rs"),
        goal: None,
        make: || Box::new(Memtis::new("memtis", Box::new(Pack))),
    },
    PolicyEntry {
        name: "memtis+colloid",
        doc: include_str!("memtis.rs"),
        goal: Some(COLLOID),
        make: || Box::new(Memtis::new("memtis+colloid", Box::<Balance>::default())),
    },
    PolicyEntry {
        name: "arms",
        doc: include_str!("arms.rs"),
        goal: None,
        make: || Box::<arms::Arms>::default(),
    },
    PolicyEntry {
        name: "neomem",
        doc: include_str!("neomem.rs"),
        goal: None,
        make: || Box::new(neomem("neomem")),
    },
    PolicyEntry {
        name: "tpp",
        doc: include_str!("tpp.rs"),
        goal: None,
        make: || Box::new(tpp("tpp", Box::new(Pack))),
    },
    PolicyEntry {
        name: "tpp+colloid",
        doc: include_str!("tpp.rs"),
        goal: Some(COLLOID),
        make: || Box::new(tpp("tpp+colloid", Box::<Balance>::default())),
    },
    PolicyEntry {
        name: "linux",
        doc: include_str!("linux.rs"),
        goal: None,
        make: || Box::new(linux("linux", Box::new(Pack))),
    },
    PolicyEntry {
        name: "linux+colloid",
        doc: include_str!("linux.rs"),
        goal: Some(COLLOID),
        make: || Box::new(linux("linux+colloid", Box::<Balance>::default())),
    },
    PolicyEntry {
        name: "kernel",
        doc: include_str!("kernel.rs"),
        goal: None,
        make: || Box::<kernel::Kernel>::default(),
    },
    PolicyEntry {
        name: "tierline+tmo",
        doc: include_str!("tierline.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("tierline+tmo", Box::<tierline::Tierline>::default())),
    },
    PolicyEntry {
        name: "tpp+tmo",
        doc: include_str!("tpp.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("tpp+tmo", Box::new(tpp("tpp", Box::new(Pack))))),
    },
    PolicyEntry {
        name: "linux+tmo",
        doc: include_str!("linux.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("linux+tmo", Box::new(linux("linux", Box::new(Pack))))),
    },
    PolicyEntry {
        name: "paging+tmo",
        doc: include_str!("paging.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over_paging("paging+tmo", Box::new(paging::paging()))),
    },
    PolicyEntry {
        name: "first-touch+tmo",
        doc: include_str!("first_touch.rs"),
        goal: Some(TMO),
        make: || Box::new(Tmo::over("first-touch+tmo", Box::new(first_touch::FirstTouch))),
    },
    PolicyEntry {
        name: "autonuma",
        doc: include_str!("autonuma.rs"),
        goal: None,
        make: || Box::new(autonuma("autonuma")),
    },
    PolicyEntry {
        name: "autotiering",
        doc: include_str!("autotiering.rs"),
        goal: None,
        make: || Box::<autotiering::Autotiering>::default(),
    },
    PolicyEntry {
        name: "damon",
        doc: include_str!("damon.rs"),
        goal: None,
        make: || Box::<damon::Damon>::default(),
    },
    PolicyEntry {
        name: "oracle",
        doc: include_str!("oracle.rs"),
        goal: None,
        make: || Box::<oracle::Oracle>::default(),
    },
    PolicyEntry {
        name: "fixed",
        doc: include_str!("fixed.rs"),
        goal: None,
        make: || Box::<fixed::Fixed>::default(),
    },
    PolicyEntry {
        name: "paging",
        doc: include_str!("paging.rs"),
        goal: None,
        make: || Box::new(paging::paging()),
    },
    PolicyEntry {
        name: "first-touch",
        doc: include_str!("first_touch.rs"),
        goal: None,
        make: || Box::new(first_touch::FirstTouch),
    },
    PolicyEntry {
        name: "hold",
        doc: include_str!("hold.rs"),
        goal: None,
        make: || Box::new(hold::Hold),
    },
];

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
