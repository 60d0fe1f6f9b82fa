// SPDX-License-Identifier: Apache-2.0
//! Lists of numbers in the format of the kernel and of numactl.

use std::fmt;

use tierline_core::tier::NodeId;

/// A kernel list, as in `0,2-3`; empty text is an empty list; malformed text is `None`.
pub fn parse_ids(text: &str) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for item in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // A mistyped range must not create a list of millions.
        if first > last || last > 0xffff {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

/// A set of nodes typed by the user: `0,2-3`, `all`, or `!1` (all but these).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeList {
    /// `all`.
    All,
    /// `0,2-3`.
    Some(Vec<u32>),
    /// `!0,2-3`: the mark inverts the whole list, as in numactl.
    AllBut(Vec<u32>),
}

impl NodeList {
    /// Parses a list; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "all" => Some(Self::All),
            "" | "!" => None,
            text => match text.strip_prefix('!') {
                Some(rest) => parse_ids(rest).map(Self::AllBut),
                None => parse_ids(text).map(Self::Some),
            },
        }
    }

    /// The selected nodes on a machine whose nodes with memory are `present`. Nodes that are named but not
    /// present are returned as the error.
    pub fn resolve(&self, present: &[NodeId]) -> Result<Vec<NodeId>, Vec<u32>> {
        let named = match self {
            Self::All => return Ok(present.to_vec()),
            Self::Some(ids) | Self::AllBut(ids) => ids,
        };
        let known = |id: &u32| present.iter().any(|node| u32::from(node.0) == *id);
        let absent: Vec<u32> = named.iter().copied().filter(|id| !known(id)).collect();
        if !absent.is_empty() {
            return Err(absent);
        }
        let inside = matches!(self, Self::Some(_));
        let chosen = present.iter().filter(|node| named.contains(&node.0.into()) == inside);
        Ok(chosen.copied().collect())
    }
}

impl fmt::Display for NodeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, ids) = match self {
            Self::All => return write!(f, "all"),
            Self::Some(ids) => ("", ids),
            Self::AllBut(ids) => ("!", ids),
        };
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        write!(f, "{mark}{}", ids.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_as_in_numactl() {
        assert_eq!(parse_ids("0,2-3\n"), Some(vec![0, 2, 3]));
        assert_eq!(parse_ids("\n"), Some(vec![]));
        for odd in ["-", "3-1", "0,", "a", "0-99999999"] {
            assert_eq!(parse_ids(odd), None, "{odd}");
        }
        let present = [NodeId(0), NodeId(1), NodeId(2)];
        let resolve = |text| NodeList::parse(text).expect(text).resolve(&present);
        assert_eq!(resolve("!0,2"), Ok(vec![NodeId(1)]));
        assert_eq!(resolve("all"), Ok(present.to_vec()));
        assert_eq!(resolve("1-3"), Err(vec![3]));
        assert_eq!(NodeList::parse("!"), None);
    }
}
