// SPDX-License-Identifier: Apache-2.0
//! Tests of the public interface: round trips, damage, bounds, and input from other tools.
#![expect(clippy::unwrap_used, reason = "tests")]

mod any_bytes;
mod convert;
mod edit;
mod format;

use tierline_trace::{Block, Epoch, Error, Evidence, Header, Reader, Record, Writer};

/// A trace as plain data.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain(Vec<(Epoch, Spaces)>);

/// Records by space.
type Spaces = Vec<(u32, Vec<Record>)>;

impl Plain {
    /// Reads `bytes`; returns what could be read, and the error, if any.
    fn read(bytes: &[u8]) -> (Self, Option<Error>) {
        let mut plain = Self::default();
        let mut reader = match Reader::new(bytes) {
            Ok(reader) => reader,
            Err(error) => return (plain, Some(error)),
        };
        loop {
            match reader.next() {
                Ok(Some(Block::Epoch(epoch))) => plain.0.push((epoch, Vec::new())),
                Ok(Some(Block::Pages { space, records })) => {
                    plain.0.last_mut().unwrap().1.push((space, records.to_vec()));
                }
                Ok(None) => return (plain, None),
                Err(error) => return (plain, Some(error)),
            }
        }
    }

    fn write(&self) -> Vec<u8> {
        let header = Header::new(Evidence::Counted, "a test");
        let mut writer = Writer::new(Vec::new(), &header).unwrap();
        for (epoch, spaces) in &self.0 {
            writer.epoch(*epoch).unwrap();
            for (space, records) in spaces {
                writer.records(*space, records).unwrap();
            }
        }
        writer.finish().unwrap()
    }

    /// Total lines read and written of a page.
    fn lines(&self, page: u64) -> (u32, u32) {
        let all = self.0.iter().flat_map(|(_, spaces)| spaces).flat_map(|(_, records)| records);
        all.filter(|record| record.page == page)
            .fold((0, 0), |sum, record| (sum.0 + record.reads, sum.1 + record.writes))
    }
}
