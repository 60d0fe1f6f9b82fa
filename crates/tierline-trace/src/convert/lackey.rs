// SPDX-License-Identifier: Apache-2.0
//! Valgrind's lackey, `--trace-mem=yes`: one line per access, addresses in hex, sizes in decimal.
//!
//! ```text
//! I  0401ab70,3      an instruction
//!  L 1fff000758,8    a load
//!  S 1fff000748,8    a store
//!  M 0421e7c0,4      a load and a store of the same address
//! ==31344== ...      messages of Valgrind, also --31344-- and **31344**
//! ```

use crate::convert::Lines;
use crate::convert::raw::Raw;
use crate::error::{Error, Result};

const EXPECTED: &str = "I, L, S or M, an address and a size";

pub fn read(lines: &mut Lines<'_>, raw: &mut Raw<'_>) -> Result<()> {
    while let Some((line, text)) = lines.next()? {
        if text.is_empty() || ["==", "--", "**"].iter().any(|own| text.starts_with(own)) {
            continue;
        }
        let access = parse(text).ok_or_else(|| Error::text(line, EXPECTED, text))?;
        match access {
            (b'I', ..) => raw.instruction(),
            (b'L', address, bytes) => raw.access(address, bytes, false)?,
            (b'S', address, bytes) => raw.access(address, bytes, true)?,
            (_, address, bytes) => {
                raw.access(address, bytes, false)?;
                raw.access(address, bytes, true)?;
            }
        }
    }
    Ok(())
}

fn parse(text: &str) -> Option<(u8, u64, u64)> {
    let text = text.trim_start();
    let (&kind, rest) = text.as_bytes().split_first()?;
    let rest = std::str::from_utf8(rest).ok()?;
    let (address, bytes) = rest.strip_prefix(' ')?.trim_start().split_once(',')?;
    let known = b"ILSM".contains(&kind);
    let access = (kind, u64::from_str_radix(address, 16).ok()?, bytes.parse().ok()?);
    known.then_some(access)
}
