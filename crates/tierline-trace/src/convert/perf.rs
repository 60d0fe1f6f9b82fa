// SPDX-License-Identifier: Apache-2.0
//! `perf script -F pid,time,period,event,addr`: one line per sample, of an event recorded with `perf record
//! -d`.
//!
//! ```text
//! 31359 23719.235412:          1 page-faults:     55e5f8e6a640
//! ```
//!
//! More fields may precede the time. The number before the event is the sampling period, by which the sample is
//! weighted. Events with `store` or `write` in their name are writes, all others reads. Kernel addresses and
//! address 0 (no address) are skipped.

use std::io::{BufRead, Write};

use crate::convert::{Lines, Options, end};
use crate::error::{Error, Result};
use crate::tally::Tally;

const EXPECTED: &str =
    "a time, an event and an address, as printed by perf script -F pid,time,period,event,addr";

pub fn convert(
    input: &mut dyn BufRead,
    options: &Options,
    mut tally: Tally<&mut dyn Write>,
) -> Result<()> {
    let mut times = None;
    let result = read(&mut Lines::new(input), options, &mut tally, &mut times);
    end(result, tally.finish(times.map_or(0, |(first, last)| last - first + 1)))
}

fn read(
    lines: &mut Lines<'_>,
    options: &Options,
    tally: &mut Tally<&mut dyn Write>,
    times: &mut Option<(u64, u64)>,
) -> Result<()> {
    while let Some((line, text)) = lines.next()? {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let sample = parse(text).ok_or_else(|| Error::text(line, EXPECTED, text))?;
        let (first, last) = *times.get_or_insert((sample.ns, sample.ns));
        let now = sample.ns.max(last);
        *times = Some((first, now));
        tally.at(now - first)?;
        if sample.address == 0 || sample.address >> 63 == 1 {
            continue;
        }
        let count = u32::try_from(sample.period).unwrap_or(u32::MAX);
        let (reads, writes) = if sample.store { (0, count) } else { (count, 0) };
        tally.add(sample.pid, sample.address >> options.page_bits, reads, writes);
    }
    Ok(())
}

struct Sample {
    pid: u32,
    ns: u64,
    period: u64,
    store: bool,
    address: u64,
}

fn parse(text: &str) -> Option<Sample> {
    let mut words = text.split_whitespace();
    let (mut pid, mut ns) = (0, None);
    for word in words.by_ref() {
        ns = word.strip_suffix(':').and_then(seconds);
        if ns.is_some() {
            break;
        }
        // The last number before the time; of pid/tid the first.
        let number = word.split('/').next().and_then(|number| number.parse().ok());
        pid = number.unwrap_or(pid);
    }
    let mut word = words.next()?;
    let mut period = 1;
    if let Ok(number) = word.parse() {
        period = number;
        word = words.next()?;
    }
    let event = word.strip_suffix(':')?;
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    // Without addresses, perf prints the instruction with its symbol instead.
    let alone = words.next().is_none_or(|next| !next.contains('+') && !next.starts_with('['));
    let store = event.contains("store") || event.contains("write");
    alone.then_some(Sample { pid, ns: ns?, period, store, address })
}

/// Converts decimal seconds to ns.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let digits = u32::try_from(part.len()).ok().filter(|&n| (1..=9).contains(&n))?;
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = part.parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(part * 10u64.pow(9 - digits))
}
