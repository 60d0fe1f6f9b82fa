// SPDX-License-Identifier: Apache-2.0
//! Tiers specified by the user.
//!
//! ```text
//! spec  = item { separator item }        separator = "," or ";"
//! item  = name "=" list  |  more          starts a tier | continues the tier before it
//! list  = "all" | [ "!" ] range            "!" inverts the tier's whole list
//! more  = range                            range = N | N-M
//! ```
//! So `fast=0-1,2,slow=3` is two tiers: nodes 0 to 2, and node 3. The fastest tier comes first.

use std::fmt;
use std::str::FromStr;

use super::nodelist::NodeList;
use crate::error::{Error, Result};
use tierline_core::tier::TierId;

/// Tiers specified by the user, fastest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSpec(pub Vec<(String, NodeList)>);

impl FromStr for TierSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: String| Error::Input { what: "tiers", found: text.into(), why };
        let mut named: Vec<(String, String)> = Vec::new();
        for item in text.split([',', ';']).map(str::trim) {
            match (item.split_once('='), named.last_mut()) {
                (Some((name, list)), _) => named.push((name.trim().into(), list.trim().into())),
                (None, Some((_, list))) => *list = format!("{list},{item}"),
                (None, None) => {
                    return Err(wrong("expected name=nodes, as in fast=0,slow=1".into()));
                }
            }
        }
        check_names(&named).map_err(wrong)?;
        let parse = |(name, list): (String, String)| match NodeList::parse(&list) {
            Some(nodes) => Ok((name, nodes)),
            None => Err(wrong(format!("{list:?} is not a node list (as in 0,2-3, all or !1)"))),
        };
        named.into_iter().map(parse).collect::<Result<_>>().map(Self)
    }
}

fn check_names(named: &[(String, String)]) -> std::result::Result<(), String> {
    if named.len() < 2 || named.len() > TierId::MAX {
        return Err(format!("expected 2 to {} tiers, found {}", TierId::MAX, named.len()));
    }
    for (at, (name, _)) in named.iter().enumerate() {
        let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !letters || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(format!(
                "{name:?} is not a name: expected a letter, then letters, digits, - or _"
            ));
        }
        if named[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("the tier {name} is named twice"));
        }
    }
    Ok(())
}

impl fmt::Display for TierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> =
            self.0.iter().map(|(name, list)| format!("{name}={list}")).collect();
        write!(f, "{}", items.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_are_read() {
        let spec: TierSpec = "fast=0-1,2,slow=3".parse().expect("a spec");
        assert_eq!(spec.to_string(), "fast=0,1,2,slow=3");
        let spec: TierSpec = "hbm=2; dram=0-1; cxl=!0,1,2".parse().expect("a spec");
        assert_eq!(spec.to_string(), "hbm=2,dram=0,1,cxl=!0,1,2");
        assert_eq!(spec.to_string().parse::<TierSpec>().expect("again"), spec);
        let spec: TierSpec = "slow=all,fast=0".parse().expect("overlap is found on the machine");
        assert_eq!(spec.0[0].1, NodeList::All);
    }

    #[test]
    fn an_error_names_the_wrong_part() {
        for (text, part) in [
            ("0,1", "name=nodes"),
            ("fast=0", "2 to 7"),
            ("fast=0,fast=1", "twice"),
            ("fast=0,slow=", "node list"),
            ("fast=0,slow=x", "\"x\""),
            ("fast=0,slow=all,1", "node list"),
            ("1=0,2=1", "not a name"),
            ("", "name=nodes"),
        ] {
            let error = text.parse::<TierSpec>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
