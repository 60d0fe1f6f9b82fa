// SPDX-License-Identifier: Apache-2.0
//! `damo report raw`: DAMON's snapshots, each a list of regions with how often they were found accessed.
//!
//! ```text
//! base_time_absolute: 6 h 36 m 43.594 s
//!
//! monitoring_start:                0 ns
//! monitoring_end:             120.000 ms
//! monitoring_duration:        120.000 ms
//! target_id: 0
//! nr_regions: 2
//! # start_addr     end_addr        length  nr_accesses   age
//! 000001000000-000002646000 (  22.273 MiB)           0    86
//! ```
//!
//! A snapshot is an epoch. Every page of a region gets the region's count, as DAMON samples one page of the
//! region at a time. Times may be plain ns (`--raw_number`).

use std::io::{BufRead, Write};

use crate::convert::{Lines, Options, end};
use crate::error::{Error, Result};
use crate::tally::Tally;

/// Maximum number of pages in a snapshot, as each page gets a record: 16 GiB of base pages, 8 TiB of huge pages.
const MOST_PAGES: u64 = 1 << 22;

pub fn convert(
    input: &mut dyn BufRead,
    options: &Options,
    mut tally: Tally<&mut dyn Write>,
) -> Result<()> {
    let mut now = 0;
    let result = read(&mut Lines::new(input), options, &mut tally, &mut now);
    end(result, tally.finish(now))
}

fn read(
    lines: &mut Lines<'_>,
    options: &Options,
    tally: &mut Tally<&mut dyn Write>,
    now: &mut u64,
) -> Result<()> {
    let (mut target, mut records, mut pages) = (0, 0, 0_u64);
    while let Some((line, text)) = lines.next()? {
        let wrong = |expected| Error::text(line, expected, text);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match text.split_once(':').map(|(key, value)| (key, value.trim())) {
            Some(("base_time_absolute", _)) => {
                records += 1;
                if records > 1 {
                    let advice =
                        "a single target; split the report here, convert each part, then merge";
                    return Err(wrong(advice));
                }
            }
            Some(("monitoring_start", value)) => {
                pages = 0;
                let start = time(value).ok_or_else(|| wrong("a time"))?;
                if *now > tally.start() {
                    tally.end(*now)?;
                }
                if start > tally.start() {
                    tally.end(start)?;
                }
            }
            Some(("monitoring_end", value)) => {
                *now = time(value).ok_or_else(|| wrong("a time"))?;
            }
            Some(("target_id", value)) => {
                target = value.parse().map_err(|_| wrong("a target's number"))?;
            }
            Some(("monitoring_duration" | "nr_regions", _)) => {}
            _ => {
                let found =
                    region(text).ok_or_else(|| wrong("a region: start-end (length) n age"))?;
                let (start, end, accesses) = found;
                if accesses == 0 {
                    continue;
                }
                let (first, last) =
                    (start >> options.page_bits, end.saturating_sub(1) >> options.page_bits);
                pages = pages.saturating_add(last.saturating_sub(first) + 1);
                if end <= start || pages > MOST_PAGES {
                    return Err(wrong(
                        "regions of 2^22 pages at most; --page 2M makes fewer of them",
                    ));
                }
                (first..=last).for_each(|page| tally.add(target, page, accesses, 0));
            }
        }
    }
    Ok(())
}

fn region(text: &str) -> Option<(u64, u64, u32)> {
    let (start, rest) = text.split_once('-')?;
    let (end, rest) = rest.split_once('(')?;
    let (_, counts) = rest.split_once(')')?;
    let hex = |text: &str| u64::from_str_radix(text.trim(), 16).ok();
    Some((hex(start)?, hex(end)?, counts.split_whitespace().next()?.parse().ok()?))
}

/// A time as damo writes it: numbers with units, to be added up, or plain ns.
fn time(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let mut sum = 0u64;
    while let Some(number) = words.next() {
        let unit = match words.next() {
            None | Some("ns") => 1,
            Some("us") => 1_000,
            Some("ms") => 1_000_000,
            Some("s") => 1_000_000_000,
            Some("m") => 60_000_000_000,
            Some("h") => 3_600_000_000_000,
            Some(_) => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let scale = 10u64.checked_pow(u32::try_from(part.len()).ok()?)?;
        let part = unit * part.parse::<u64>().ok()?.min(scale) / scale;
        sum = sum.checked_add(whole.replace(',', "").parse::<u64>().ok()?.checked_mul(unit)?)?;
        sum = sum.checked_add(part)?;
    }
    (!text.is_empty()).then_some(sum)
}
