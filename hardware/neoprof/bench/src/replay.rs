// SPDX-License-Identifier: Apache-2.0
//! Replays the log of a lab machine's NeoProf (`lab/plugin`, `neoprof_log`) with the hardware: every access and
//! every register access, in order. The hardware must return what the machine read, and what the model returns.

use std::io::{ErrorKind, Read};

use anyhow::{Result, bail};
use neoprof::registers as reg;

use crate::lockstep::Lockstep;

/// Result of a replay.
#[derive(Debug, Default, serde::Serialize)]
pub struct Replayed {
    pub accesses: u64,
    pub register_reads: u64,
    pub register_writes: u64,
    pub cycles: u64,
    pub comparisons: u64,
    pub mismatches: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<String>,
}

/// Replays the log. Idle time is left out, so the three counts of the state monitor differ and are not
/// compared. After a write, accesses wait until its effect is complete.
pub fn run(pair: &mut Lockstep, log: &mut impl Read) -> Result<Replayed> {
    let mut done = Replayed::default();
    let mut settled = true;
    while let Some(word) = word::<4>(log)? {
        let word = u32::from_le_bytes(word);
        let what = word >> 2;
        if word & 3 < 2 {
            pair.access(Some((what, word & 3 == 1)));
            done.accesses += 1;
            settled = false;
            continue;
        }
        let Some(value) = self::word::<8>(log)? else { bail!("the log ends within an entry") };
        let value = u64::from_le_bytes(value);
        if !std::mem::replace(&mut settled, true) {
            pair.settle()?;
        }
        if word & 3 == 3 {
            pair.write(what, value)?;
            // The hardware needs a moment to clear or to copy; accesses that came meanwhile could be lost.
            pair.settle()?;
            done.register_writes += 1;
            continue;
        }
        done.register_reads += 1;
        if ![reg::GET_NR_SAMPLE, reg::GET_RD_CNT, reg::GET_WR_CNT].contains(&what) {
            let found = pair.compare(what)?;
            pair.check(what, found, value);
        }
    }
    pair.settle()?;
    (done.cycles, done.comparisons, done.mismatches) =
        (pair.cycles, pair.comparisons, pair.mismatches);
    done.first_mismatch = pair.first_mismatch.take();
    Ok(done)
}

/// The next bytes; `None` at the end.
fn word<const N: usize>(log: &mut impl Read) -> Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match log.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error.into()),
    }
}
