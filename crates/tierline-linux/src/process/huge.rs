// SPDX-License-Identifier: Apache-2.0
//! Which pages of a process are huge.

use std::io;
use std::ops::Range;

use tierline_core::port::Vpn;
use tierline_core::unit::BASE_PER_HUGE;

use crate::error::{Error, Result};
use crate::pagemap::scan;
use crate::process::held::{file_error, is_gone};
use crate::root::Root;

/// The runs (in base pages, by address) inside `runs` that process `pid` maps with huge pages.
pub(crate) fn scan(root: &Root, pid: u32, runs: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
    let Some(held) = root.process(pid) else { return Ok(Vec::new()) };
    let file = match held.open_read("pagemap") {
        Ok(file) => file,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(source) => return Err(file_error(root, pid, "pagemap", "open", source)),
    };
    let mut found: Vec<(u64, u64)> = Vec::new();
    for &(start, end) in runs {
        match scan::runs(&file, start..end, scan::HUGE, |run| add(&run, &mut found)) {
            Err(error) if is_gone(&error) => return Ok(found),
            result => result.map_err(failed)?,
        }
    }
    Ok(found)
}

/// Joins neighbours, and keeps only whole huge pages.
fn add(run: &Range<u64>, found: &mut Vec<(u64, u64)>) {
    let start = run.start.next_multiple_of(BASE_PER_HUGE);
    let end = Vpn(run.end).huge_head().0;
    match found.last_mut() {
        _ if start >= end => {}
        Some(last) if last.1 == start => last.1 = end,
        _ => found.push((start, end)),
    }
}

fn failed(error: io::Error) -> Error {
    if scan::is_unknown(&error) {
        return Error::Missing {
            what: "PAGEMAP_SCAN".into(),
            why: "this kernel does not support it".into(),
            hint: "use Linux 6.7 or newer; until then all pages are treated as base pages".into(),
        };
    }
    Error::Call { call: "ioctl(PAGEMAP_SCAN)".into(), source: error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_huge_pages_count_and_neighbours_join() {
        let mut found = Vec::new();
        add(&(512..1024), &mut found);
        add(&(1024..1536), &mut found);
        add(&(2049..2560), &mut found);
        assert_eq!(found, [(512, 1536)]);
    }

    #[test]
    fn an_ended_process_has_none() {
        assert_eq!(super::scan(&Root::default(), u32::MAX, &[(0, 512)]).expect("no error"), []);
    }
}
