// SPDX-License-Identifier: Apache-2.0
//! Editing traces: cut out an interval, merge several.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::{Epoch, Header, MAX_SOURCE, Record};
use crate::read::{Block, Reader};
use crate::tally::Tally;
use crate::write::Writer;

/// Writes the epochs that begin within `time` (ns from the start). If the source is damaged, writes the epochs
/// before the damage, then returns the error.
///
/// # Errors
/// Those of reader and writer.
pub fn cut<R: Read, W: Write>(input: R, out: W, time: Range<u64>) -> Result<()> {
    let mut reader = Reader::new(input)?;
    let mut writer = Writer::new(out, reader.header())?;
    let (mut now, mut within) = (0u64, false);
    let result = loop {
        match reader.next() {
            Ok(Some(Block::Epoch(epoch))) => {
                within = time.contains(&now);
                now = now.saturating_add(epoch.ns);
                if within {
                    writer.epoch(epoch)?;
                }
            }
            Ok(Some(Block::Pages { space, records })) if within => {
                writer.records(space, records)?
            }
            Ok(Some(Block::Pages { .. })) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    writer.finish()?;
    result
}

/// Merges traces as if their programs had run side by side from the start. Spaces are renumbered by input and
/// in order of appearance. An epoch of the result consists of whole epochs of the inputs: it ends with the
/// longest of those that come next.
///
/// # Errors
/// `Error::Usage` if page sizes or evidence differ; those of reader and writer.
pub fn merge<R: Read, W: Write>(inputs: Vec<R>, out: W) -> Result<()> {
    let mut inputs = inputs.into_iter().map(Input::new).collect::<Result<Vec<_>>>()?;
    let Some(first) = inputs.first() else {
        return Err(Error::Usage("nothing to merge: name at least one trace".into()));
    };
    let header = first.reader.header().clone();
    for input in &inputs {
        let other = input.reader.header();
        if (other.evidence, other.page_bits) != (header.evidence, header.page_bits) {
            return Err(Error::Usage(format!(
                "traces differ: {} with pages of 2^{} bytes, {} with 2^{}; convert them with the same options first",
                header.evidence.name(),
                header.page_bits,
                other.evidence.name(),
                other.page_bits,
            )));
        }
    }
    let sources: Vec<&str> = inputs.iter().map(|i| i.reader.header().source.as_str()).collect();
    let mut source = sources.join(" + ");
    while source.len() > MAX_SOURCE {
        source.pop();
    }
    let header = Header { source, ..header };
    let mut tally = Tally::new(Writer::new(out, &header)?, u64::MAX);
    let mut spaces = BTreeMap::new();
    let (mut now, mut wrong) = (0, None);
    while wrong.is_none() {
        let ends = inputs.iter().filter_map(Input::ends);
        let Some(end) = ends.max() else { break };
        for (at, input) in inputs.iter_mut().enumerate() {
            wrong = wrong.or(input
                .take_until(end, |space, record| {
                    let next = u32::try_from(spaces.len()).unwrap_or(u32::MAX);
                    let space = *spaces.entry((at, space)).or_insert(next);
                    tally.add(space, record.page, record.reads, record.writes);
                })
                .map(|accesses| tally.accesses(accesses))
                .err());
        }
        now = end;
        tally.end(now)?;
    }
    tally.finish(now)?;
    wrong.map_or(Ok(()), Err)
}

/// An open trace. The header of its next epoch has been read.
struct Input<R: Read> {
    reader: Reader<R>,
    next: Option<Epoch>,
    now: u64,
}

impl<R: Read> Input<R> {
    fn new(input: R) -> Result<Self> {
        let mut reader = Reader::new(input)?;
        let next = match reader.next()? {
            Some(Block::Epoch(epoch)) => Some(epoch),
            _ => None,
        };
        Ok(Self { reader, next, now: 0 })
    }

    /// End of the next epoch.
    fn ends(&self) -> Option<u64> {
        self.next.map(|epoch| self.now.saturating_add(epoch.ns))
    }

    /// Passes on all epochs that end by `end`; returns the sum of their accesses.
    fn take_until(&mut self, end: u64, mut take: impl FnMut(u32, &Record)) -> Result<u64> {
        let mut accesses = 0u64;
        while let Some(epoch) = self.next
            && self.now.saturating_add(epoch.ns) <= end
        {
            self.now = self.now.saturating_add(epoch.ns);
            self.next = None;
            accesses = accesses.saturating_add(epoch.accesses);
            while let Some(block) = self.reader.next()? {
                match block {
                    Block::Epoch(epoch) => {
                        self.next = Some(epoch);
                        break;
                    }
                    Block::Pages { space, records } => {
                        records.iter().for_each(|record| take(space, record));
                    }
                }
            }
        }
        Ok(accesses)
    }
}
