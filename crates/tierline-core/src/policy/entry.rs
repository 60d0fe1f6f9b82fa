// SPDX-License-Identifier: Apache-2.0
//! An entry of the list of policies: its role, how it is made, and its own description.

use super::interface::Policy;

/// A policy's role in comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Competes: it places pages to make programs fast.
    Rival,
    /// It uses knowledge that no real policy has; others are compared with it.
    Reference,
    /// Others are compared with it, in a sweep or without tiering; the matrix does not run it.
    Baseline,
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

impl PolicyEntry {
    /// The heads of the policy's file and of its other part's, as plain text.
    pub fn explain(&self) -> String {
        let (name, policy) = (self.name, head(self.doc));
        let summary = |text: &str| text.lines().next().unwrap_or_default().to_string();
        match self.goal.map(head) {
            Some(goal) => {
                format!("{name}: {} With {}\n\n{policy}\n{goal}", summary(&policy), summary(&goal))
            }
            None if policy.starts_with(&format!("{name}:")) => policy,
            // A file can have several policies.
            None => format!("{name}: {}\n\n{policy}", summary(&policy)),
        }
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
