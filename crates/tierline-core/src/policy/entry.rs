// SPDX-License-Identifier: Apache-2.0
//! An entry of the list of policies: its role, how it is made, and its own description.

use super::interface::Policy;

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

impl PolicyEntry {
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
