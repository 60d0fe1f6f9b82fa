// SPDX-License-Identifier: Apache-2.0
//! DynamoRIO's view tool (`drrun -t drmemtrace -tool view`, on stderr): one line per record.
//!
//! ```text
//!        47445       37770:     2765543 ifetch       5 byte(s) @ 0x0000000000404a7e 48 8b 5c 24 08 ...
//!        47446       37770:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e
//!        47449       37773:     2765543 <marker: timestamp 13312570674112282>
//! ```
//!
//! Reads, writes and instruction fetches are counted. Prefetches and flushes are not: threads do not wait for
//! them. Lines without an access (markers, headers, continued encodings) are skipped.

use crate::convert::Lines;
use crate::convert::raw::Raw;
use crate::error::{Error, Result};

const SIGN: &str = " byte(s) @ 0x";

pub fn read(lines: &mut Lines<'_>, raw: &mut Raw<'_>) -> Result<()> {
    let mut any = false;
    while let Some((line, text)) = lines.next()? {
        let Some((before, after)) = text.split_once(SIGN) else { continue };
        any = true;
        let wrong = || Error::text(line, "record, instruction:, thread, kind, size, address", text);
        let (kind, bytes, address) = parse(before, after).ok_or_else(wrong)?;
        match kind {
            "ifetch" => raw.instruction(),
            "read" => raw.access(address, bytes, false)?,
            "write" => raw.access(address, bytes, true)?,
            _ => {}
        }
    }
    if any { Ok(()) } else { Err(Error::text(1, "output of the view tool", "no access")) }
}

fn parse<'a>(before: &'a str, after: &str) -> Option<(&'a str, u64, u64)> {
    let mut words = before.split_whitespace().rev();
    let bytes = words.next()?.parse().ok()?;
    let kind = words.next()?;
    let end = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
    Some((kind, bytes, u64::from_str_radix(&after[..end], 16).ok()?))
}
