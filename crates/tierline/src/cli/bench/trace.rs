// SPDX-License-Identifier: Apache-2.0
//! `tierline bench trace`: the trace format, written and read in memory.

use anyhow::Result;
use serde::Serialize;
use tierline_core::rng::Rng;
use tierline_core::unit::Bytes;
use tierline_trace::{Block, Epoch, Evidence, Header, Reader, Record, Writer};

use super::{Globals, Speeds, cpu_seconds};
use crate::print::{self, row};

#[derive(Serialize)]
struct Speed {
    records: u64,
    trace_bytes: Bytes,
    read_cpu_seconds: f64,
    records_read_per_cpu_second: f64,
    write_cpu_seconds: f64,
    records_written_per_cpu_second: f64,
}

/// Measures and prints.
#[expect(clippy::cast_precision_loss, reason = "a number of records")]
pub fn run(records: u64, globals: &Globals) -> Result<u8> {
    const PAGES: u64 = 200_000;
    let mut rng = Rng::new(1);
    let geometric = |rng: &mut Rng, halvings: u32| {
        (0..halvings).map(|_| rng.next_u64().trailing_zeros()).sum::<u32>()
    };
    let mut page = 0;
    let mut epoch = || {
        let next = |_| {
            page = (page + 1 + rng.below(3)) % (1 << 36);
            let (reads, writes) = (1 + geometric(&mut rng, 7), geometric(&mut rng, 1));
            Record { page, reads, writes }
        };
        let mut records: Vec<Record> = (0..PAGES).map(next).collect();
        records.sort_unstable();
        records
    };
    // A few are drawn and reused: drawing takes longer than writing.
    let drawn: Vec<Vec<Record>> = (0..8).map(|_| epoch()).collect();
    let before = cpu_seconds();
    let mut writer = Writer::new(Vec::new(), &Header::new(Evidence::Counted, "bench"))?;
    let mut left = records;
    for records in drawn.iter().cycle() {
        let part = usize::try_from(left.min(PAGES))?;
        writer.epoch(Epoch { ns: 1, accesses: 0 })?;
        writer.records(0, &records[..part])?;
        left -= part as u64;
        if left == 0 {
            break;
        }
    }
    let bytes = writer.finish()?;
    let write_cpu_seconds = cpu_seconds() - before;
    let before = cpu_seconds();
    let (mut reader, mut read, mut sum) = (Reader::new(&bytes[..])?, 0, 0u64);
    while let Some(block) = reader.next()? {
        if let Block::Pages { records, .. } = block {
            read += records.len() as u64;
            sum += records.iter().map(|record| u64::from(record.reads)).sum::<u64>();
        }
    }
    let read_cpu_seconds = cpu_seconds() - before;
    anyhow::ensure!(
        read == records && sum >= records,
        "the trace read differs from the trace written"
    );
    let speed = Speed {
        records,
        trace_bytes: Bytes(bytes.len() as u64),
        read_cpu_seconds,
        records_read_per_cpu_second: records as f64 / read_cpu_seconds,
        write_cpu_seconds,
        records_written_per_cpu_second: records as f64 / write_cpu_seconds,
    };
    match globals.json {
        true => print::json(&Speeds { runs: vec![speed] })?,
        false => print::out(&print::table(&[
            row(["records", "trace", "read per CPU s", "written per CPU s"]),
            row([
                &records.to_string(),
                &speed.trace_bytes.to_string(),
                &format!("{:.0} M", speed.records_read_per_cpu_second * 1e-6),
                &format!("{:.0} M", speed.records_written_per_cpu_second * 1e-6),
            ]),
        ]))?,
    }
    Ok(0)
}
