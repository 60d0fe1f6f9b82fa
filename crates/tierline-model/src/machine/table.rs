// SPDX-License-Identifier: Apache-2.0
//! Loaded-latency tables: the output of Intel's Memory Latency Checker, or CSV.
//!
//! MLC's `--loaded_latency` prints delay, ns and MB/s per line; `--max_bandwidth` prints peaks by mix. A file
//! may contain both. CSV has a header with the columns `gb_per_s`, `ns`, and, if the traffic was not reads
//! only, `write_share`.

use super::fit::Measurement;
use crate::error::{Error, Result};

/// A parsed table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Latencies by bandwidth.
    pub points: Vec<Measurement>,
    /// Peak GB/s by share of writes, if measured.
    pub peaks: Vec<(f64, f64)>,
}

/// Share of writes in MLC's mixes.
const MIXES: [(&str, f64); 4] = [
    ("ALL Reads", 0.0),
    ("3:1 Reads-Writes", 0.25),
    ("2:1 Reads-Writes", 1.0 / 3.0),
    ("1:1 Reads-Writes", 0.5),
];

impl Table {
    /// Parses a table; `place` is the name of its file.
    ///
    /// # Errors
    /// `Error::Figure` if there are too few points, or a line is not a point.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        let wrong = |why: String| Error::Figure { place: place.into(), why };
        let head =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        let is_csv = head.is_some_and(|line| line.contains("gb_per_s"));
        let table = if is_csv { csv(text).map_err(wrong)? } else { mlc(text) };
        if table.points.len() < 4 {
            let found = table.points.len();
            return Err(wrong(format!(
                "found {found} points, expected 4 or more: the output of `mlc --loaded_latency`, or CSV \
                 with the head gb_per_s,ns"
            )));
        }
        Ok(table)
    }
}

/// Lines of three numbers are points, lines that name a mix are peaks; other lines are ignored.
fn mlc(text: &str) -> Table {
    let mut table = Table::default();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(':').filter(|_| line.contains("Reads"))
            && let Some((_, share)) = mix(line)
            && let Some(mb) = last_number(value).or_else(|| last_number(name))
        {
            table.peaks.push((share, mb * 1e-3));
            continue;
        }
        let numbers: Vec<Option<f64>> =
            line.split_whitespace().map(|word| word.parse().ok()).collect();
        if let [Some(_), Some(ns), Some(mb)] = numbers[..]
            && ns > 0.0
            && mb > 0.0
            && (ns + mb).is_finite()
        {
            table.points.push(Measurement { gb_per_s: mb * 1e-3, ns, write_share: 0.0 });
        }
    }
    table
}

fn mix(line: &str) -> Option<(&'static str, f64)> {
    MIXES.into_iter().find(|(name, _)| line.trim_start().starts_with(name))
}

fn last_number(text: &str) -> Option<f64> {
    text.split_whitespace().next_back()?.parse().ok().filter(|number: &f64| number.is_finite())
}

fn csv(text: &str) -> Result<Table, String> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let (_, head) = lines.next().unwrap_or_default();
    let columns: Vec<&str> = head.split(',').map(str::trim).collect();
    let at = |name: &str| columns.iter().position(|column| *column == name);
    if let Some(unknown) = columns.iter().find(|c| !["gb_per_s", "ns", "write_share"].contains(*c))
    {
        return Err(format!("column {unknown:?}: expected gb_per_s, ns, write_share"));
    }
    let (Some(gb), Some(ns)) = (at("gb_per_s"), at("ns")) else {
        return Err("expected columns gb_per_s and ns".into());
    };
    let share = at("write_share");
    let mut table = Table::default();
    for (number, line) in lines {
        let cells: Vec<f64> =
            line.split(',').map(|cell| cell.trim().parse()).collect::<Result<_, _>>().map_err(
                |_| format!("line {number}: {line:?} contains something other than numbers"),
            )?;
        let cell = |at: usize| cells.get(at).copied().filter(|x| *x >= 0.0 && x.is_finite());
        match (cell(gb), cell(ns), share.map_or(Some(0.0), cell)) {
            (Some(gb_per_s), Some(ns), Some(write_share)) if ns > 0.0 && write_share < 1.0 => {
                table.points.push(Measurement { gb_per_s, ns, write_share });
            }
            _ => return Err(format!("line {number}: {line:?} is not a point")),
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mlc_prints_points_and_peaks() {
        let text = "Intel(R) Memory Latency Checker - v3.9\n\
            Inject\tLatency\tBandwidth\nDelay\t(ns)\tMB/sec\n==========================\n \
            00000\t259.31\t 226013.2\n 00002\t132.00\t 196120.0\n 00050\t 95.10\t 102000.9\n \
            01000\t 79.00\t   2900.0\n\nALL Reads        :      225312.1\n\
            1:1 Reads-Writes :      199201.7\n";
        let table = Table::parse("mlc.txt", text).unwrap();
        assert_eq!(table.points.len(), 4);
        assert!((table.points[0].ns - 259.31).abs() < 1e-9);
        assert_eq!(table.peaks.len(), 2);
        assert!((table.peaks[1].0 - 0.5).abs() < 1e-9 && (table.peaks[1].1 - 199.2).abs() < 0.01);
    }

    #[test]
    fn a_bad_line_of_csv_is_reported() {
        let text = "gb_per_s,ns\n1,80\n2,x\n";
        let error = Table::parse("t.csv", text).unwrap_err().to_string();
        assert!(error.contains("t.csv") && error.contains("line 3"), "{error}");
        for odd in ["inf", "nan", "1e999"] {
            let text = format!("gb_per_s,ns\n1,80\n2,{odd}\n");
            let error = Table::parse("t.csv", &text).unwrap_err().to_string();
            assert!(error.contains("line 3"), "{error}");
        }
        let error = Table::parse("t.csv", "gb_per_s,latency\n1,2\n").unwrap_err().to_string();
        assert!(error.contains("latency"), "{error}");
    }
}
