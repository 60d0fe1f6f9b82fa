// SPDX-License-Identifier: Apache-2.0
//! `tierline explain --why`: the moves in a file of events, with their reasons.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tierline_core::unit::BASE_PAGE;

use crate::print::{self, row};
use crate::report_error::ErrorWithHint;

/// A move in a file of events. Other events are skipped.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Moved {
    event: String,
    /// Time since the start.
    at_ns: u64,
    space: u32,
    vpn: u64,
    #[serde(default)]
    size: String,
    from: u8,
    to: u8,
    reason: WhyMoved,
    #[serde(default)]
    outcome: serde_json::Value,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct WhyMoved {
    why: String,
    rate_per_sec: f64,
}

/// The moves in a file of events: of one page, given by an address in it, or of all.
pub fn moves(file: &Path, address: Option<u64>) -> Result<Vec<Moved>> {
    let open = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut moves = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(open).lines()) {
        let line = line.with_context(|| format!("cannot read {}", file.display()))?;
        let value: serde_json::Value = serde_json::from_str(&line).map_err(|error| {
            ErrorWithHint::error(
                format!("{}:{number}: {error}", file.display()),
                "expected a file written by `--events FILE` of run, attach or sim",
            )
        })?;
        if value["event"] != "move" {
            continue;
        }
        let moved: Moved = serde_json::from_value(value).map_err(|error| {
            ErrorWithHint::error(
                format!("{}:{number}: {error}", file.display()),
                "the file was written by another version of tierline",
            )
        })?;
        if address.is_none_or(|address| moved.holds(address)) {
            moves.push(moved);
        }
    }
    Ok(moves)
}

impl Moved {
    fn base_pages(&self) -> u64 {
        if self.size == "huge" { 512 } else { 1 }
    }

    fn holds(&self, address: u64) -> bool {
        let page = address / BASE_PAGE.0;
        (self.vpn..self.vpn + self.base_pages()).contains(&page)
    }

    fn became(&self) -> String {
        match &self.outcome {
            serde_json::Value::String(word) => word.clone(),
            other => other.to_string(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with three decimals")]
    fn words(&self) -> String {
        let rate = self.reason.rate_per_sec;
        let because = match self.reason.why.as_str() {
            "hot" => format!("it gets at least {rate:.0} accesses a second, which repay the move"),
            "make_room" => {
                format!(
                    "a hotter page needs its place; it gets at most {rate:.0} accesses a second"
                )
            }
            "headroom" => {
                format!(
                    "new pages need room; it was the coldest page examined, at most {rate:.0} a second"
                )
            }
            "balance" => format!(
                "at the present load one more access costs less in the other tier; it gets {rate:.0} a second"
            ),
            "placed" => {
                format!("its tier was fixed before the run; it gets {rate:.0} accesses a second")
            }
            other => format!("{other}, {rate:.0} accesses a second"),
        };
        format!(
            "{:10.3} s  process {} {:#x} ({} page), tier {} to {}: {because}. Outcome: {}",
            self.at_ns as f64 * 1e-9,
            self.space,
            self.vpn * BASE_PAGE.0,
            if self.base_pages() > 1 { "huge" } else { "base" },
            self.from,
            self.to,
            self.became(),
        )
    }
}

/// Every move as a sentence.
pub fn sentences(moves: &[Moved]) -> String {
    moves.iter().map(|moved| moved.words() + "\n").collect()
}

/// Number of moves by reason and outcome.
pub fn summary(moves: &[Moved]) -> String {
    let mut sums: BTreeMap<(String, String, String), (u64, Vec<f64>)> = BTreeMap::new();
    for moved in moves {
        let way = format!("{} to {}", moved.from, moved.to);
        let (count, rates) =
            sums.entry((moved.reason.why.clone(), way, moved.became())).or_default();
        *count += 1;
        rates.push(moved.reason.rate_per_sec);
    }
    let mut rows = vec![row(["why", "tiers", "outcome", "moves", "median accesses/s"])];
    for ((why, way, became), (count, mut rates)) in sums {
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        rows.push(row([&why, &way, &became, &count.to_string(), &format!("{median:.0}")]));
    }
    print::table(&rows)
}
