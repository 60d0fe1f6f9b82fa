// SPDX-License-Identifier: Apache-2.0
//! Summary of a trace, in one pass. Needs one bit of memory per touched page.

use std::collections::BTreeSet;
use std::io::Read;

use crate::error::{Error, Result};
use crate::format::Header;
use crate::page_set::PageSet;
use crate::read::{Block, Reader};

/// Summary of a trace.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Properties of the whole trace.
    pub header: Header,
    /// Epochs.
    pub epochs: u64,
    /// Total time, ns.
    pub ns: u64,
    /// Records: one per page and epoch.
    pub records: u64,
    /// Lines read from memory.
    pub reads: u64,
    /// Lines written to memory.
    pub writes: u64,
    /// Accesses before any cache; 0 if unknown.
    pub accesses: u64,
    /// Address spaces.
    pub spaces: BTreeSet<u32>,
    /// Every touched page.
    pub pages: PageSet,
    /// Bytes read from the file.
    pub bytes: u64,
}

impl Survey {
    /// Reads a trace to its end, or to the first error; everything before the error is included.
    ///
    /// # Errors
    /// If the header cannot be read.
    pub fn take<R: Read>(input: R) -> Result<(Self, Option<Error>)> {
        let mut reader = Reader::new(input)?;
        let mut survey = Self {
            header: reader.header().clone(),
            epochs: 0,
            ns: 0,
            records: 0,
            reads: 0,
            writes: 0,
            accesses: 0,
            spaces: BTreeSet::new(),
            pages: PageSet::default(),
            bytes: 0,
        };
        let wrong = loop {
            match reader.next() {
                Ok(Some(block)) => {
                    if !survey.add(&block) {
                        break Some(Error::format(
                            reader.offset(),
                            "2^27 pages at most, in at most 65,536 places",
                            "more",
                        ));
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        survey.bytes = reader.offset();
        survey.pages.number();
        Ok((survey, wrong))
    }

    /// False if the pages are too many.
    fn add(&mut self, block: &Block<'_>) -> bool {
        match *block {
            Block::Epoch(epoch) => {
                self.epochs += 1;
                self.ns = self.ns.saturating_add(epoch.ns);
                self.accesses = self.accesses.saturating_add(epoch.accesses);
            }
            Block::Pages { space, records } => {
                self.spaces.insert(space);
                self.records += records.len() as u64;
                for record in records {
                    self.reads += u64::from(record.reads);
                    self.writes += u64::from(record.writes);
                }
                return self.pages.insert(space, records);
            }
        }
        true
    }
}
