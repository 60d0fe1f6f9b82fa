// SPDX-License-Identifier: Apache-2.0
//! `tierline plan`: how much fast memory is enough.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tierline_core::unit::Bytes;
use tierline_model::cell::Cell;
use tierline_model::plan::{Answer, Curve, Question, plan};

use super::Globals;
use super::cell::{RunArgs, recorded};
use super::names;
use super::runs::RunsArgs;
use crate::document::{self, DocumentArgs};
use crate::files::Disk;
use crate::print::{self, row};
use crate::report_error::ErrorWithHint;

/// The policies of a plan: the answer is that of the first.
const POLICIES: &str = "tierline,linux,tpp,first-touch,bound";

/// Report how much fast memory a program needs
///
/// Runs the program with nine sizes of fast memory and several seeds, under the default policy, the kernel's tiering and
/// first touch, and prints how much each slows it down, beside the bound of all placements.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline plan --trace app.trace --machine mine.toml --slowdown 5%\n\
  \x20 tierline plan --workload kv:set=60GiB --price 8,3 --slowdown 3%")]
pub struct PlanArgs {
    /// A recorded program, with optional knobs, as in redis.trace,in_flight=2; may be repeated
    #[arg(long, value_name = "FILE[,KEY=VALUE,…]", required_unless_present = "workload")]
    trace: Vec<String>,
    /// A workload, with optional knobs, as in kv:set=60GiB; may be repeated
    #[arg(long, value_name = "KIND[:KEY=VALUE,…]", value_parser = names::workload(), hide_possible_values = true)]
    workload: Vec<String>,
    /// A machine from `tierline machines`, or a machine file; its fast memory is varied [default: colloid-icx]
    #[arg(long, value_name = "NAME|FILE.toml", value_parser = names::machine(), hide_possible_values = true)]
    machine: Option<String>,
    /// The slowdown that is accepted, relative to all memory fast
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    slowdown: f64,
    /// The policies; the answer is that of the first
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = POLICIES, value_parser = names::policy(), hide_possible_values = true)]
    policy: Vec<String>,
    /// Prices of a GiB of fast and of slow memory, in any currency, as in 8,3
    #[arg(long, value_name = "FAST,SLOW", value_parser = prices)]
    price: Option<Prices>,
    /// Number of seeds: the answer holds for each of them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    document: DocumentArgs,
}

/// Prices of a GiB, fast and slow.
#[derive(Clone, Copy, Debug)]
struct Prices([f64; 2]);

#[derive(Serialize)]
struct Report {
    answer: String,
    slowdown_share: f64,
    #[serde(flatten)]
    plan: Answer,
}

impl PlanArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let programs = self.workload.iter().cloned().chain(recorded(&self.trace)).collect();
        let cell = Cell { machine: self.machine.clone(), programs, ..self.run.cell() };
        let scenario = cell.scenario(&Disk::default())?;
        let policies = &self.policy;
        let (seeds, slowdown) = (self.seeds, self.slowdown);
        let question = Question { scenario: &scenario, policies, seeds, slowdown };
        let (answer, status) = self.runs.watched(|runner| Ok(plan(&question, runner)?))?;
        let Some(answer) = answer else {
            return Err(ErrorWithHint::error(
                "the plan was interrupted",
                "run it again with --keep DIR: finished runs are then reused",
            ));
        };
        let text = self.sentence(&answer);
        self.document.write("How much fast memory is enough", &globals.root(), || {
            format!("{text}\n\n{}", document::table(&self.rows(&answer)))
        })?;
        match globals.json {
            true => {
                print::json(&Report { answer: text, slowdown_share: slowdown, plan: answer })?;
            }
            false => print::out(&self.describe(&text, &answer))?,
        }
        Ok(status)
    }

    /// The answer, first in one sentence.
    fn describe(&self, sentence: &str, answer: &Answer) -> String {
        let seeds = self.seeds;
        let about = format!(
            "\nSlowdown of the whole run relative to all memory fast: least to most of {seeds} seeds. Sizes between two rows \
             are interpolated.\n"
        );
        format!("{sentence}\n\n{}{about}", print::table(&self.rows(answer)))
    }

    fn sentence(&self, answer: &Answer) -> String {
        let slowdown = percentage(self.slowdown);
        let Some((first, others)) = answer.curves.split_first() else { return String::new() };
        let most = first.points.last().map_or(Bytes::ZERO, |point| point.fast);
        let whole = size(answer.memory);
        let Some(enough) = first.enough else {
            return format!(
                "Not even {} of fast memory keep the slowdown under {} below {slowdown}; the programs have {whole}.",
                size(most),
                first.policy
            );
        };
        let range = match first.enough_in_the_mean.filter(|&mean| size(mean) != size(enough)) {
            Some(mean) => format!(" ({} in the mean of {} seeds)", size(mean), self.seeds),
            None => String::new(),
        };
        let needs = |curve: &Curve| {
            let enough = curve.enough.map_or(format!("more than {}", size(most)), size);
            format!("{} needs {enough}", curve.policy)
        };
        let others = others.iter().map(needs).collect::<Vec<_>>().join(", ");
        let others = if others.is_empty() { others } else { format!("; {others}") };
        format!(
            "{} of {whole} as fast memory are enough{range} for a slowdown of at most {slowdown} under {}{others}.{}",
            size(enough),
            first.policy,
            self.saved(answer.memory, enough)
        )
    }

    /// What the memory costs; empty without prices.
    fn saved(&self, all: Bytes, fast: Bytes) -> String {
        let Some(prices) = self.price else { return String::new() };
        let (cost, most) = (prices.of(all, fast), prices.of(all, all));
        format!(" This memory costs {cost:.2}, all of it fast {most:.2}.")
    }

    /// A head, and one row a size.
    fn rows(&self, answer: &Answer) -> Vec<Vec<String>> {
        let mut rows = vec![row(["fast memory"])];
        if self.price.is_some() {
            rows[0].push("cost".into());
        }
        rows[0].extend(answer.curves.iter().map(|curve| curve.policy.clone()));
        let Some(first) = answer.curves.first() else { return rows };
        for (at, point) in first.points.iter().enumerate() {
            let mut cells = row([&size(point.fast)]);
            if let Some(prices) = self.price {
                cells.push(format!("{:.2}", prices.of(answer.memory, point.fast)));
            }
            cells.extend(answer.curves.iter().map(|curve| {
                let [least, _, most] = curve.points[at].slowdown.map(percentage);
                if least == most { most } else { format!("{least} to {most}") }
            }));
            rows.push(cells);
        }
        rows
    }
}

impl Prices {
    /// Of all memory, this part of it fast.
    fn of(self, all: Bytes, fast: Bytes) -> f64 {
        let [of_fast, of_slow] = self.0;
        of_fast * as_gib(fast) + of_slow * as_gib(all.saturating_sub(fast))
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn as_gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 30)
}

/// Three digits.
fn size(bytes: Bytes) -> String {
    match as_gib(bytes) {
        gib if gib >= 10.0 => format!("{gib:.1} GiB"),
        gib if gib >= 0.1 => format!("{gib:.2} GiB"),
        gib => format!("{:.1} MiB", gib * 1024.0),
    }
}

fn percentage(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Parses 5% or 5.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    let number = number.filter(|percent| (0.0..=1000.0).contains(percent));
    number
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("{text}: expected percent, as in 5%"))
}

/// Parses two prices.
fn prices(text: &str) -> Result<Prices, String> {
    let numbers: Option<Vec<f64>> =
        text.split(',').map(|price| price.trim().parse().ok().filter(|p| *p >= 0.0)).collect();
    match numbers.as_deref() {
        Some(&[fast, slow]) => Ok(Prices([fast, slow])),
        _ => Err(format!("{text}: expected two prices of a GiB, fast and slow, as in 8,3")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_is_written_in_percent_and_prices_as_a_pair() {
        assert_eq!((percent("5%"), percent("0.5")), (Ok(0.05), Ok(0.005)));
        assert!(percent("much").is_err() && percent("-1%").is_err());
        let prices = prices("8,3").unwrap();
        assert_eq!(prices.of(Bytes(4 << 30), Bytes(1 << 30)), 17.0);
        assert!(super::prices("8").is_err() && super::prices("8,x").is_err());
    }
}
