// SPDX-License-Identifier: Apache-2.0
//! What one program, and all together, may cost the manager. Any program can map and fork what it likes; these bounds
//! are far above what programs need, and it is said once where one of them bites.

use std::io::{self, BufRead, BufReader, Read};

use tierline_core::unit::{Bytes, Nanos};

use super::{Held, maps::MappedRun};
use crate::error::Error;
use crate::root::Root;

/// The most processes.
pub(super) const MOST_TARGETS: usize = 4096;
/// The most text of `/proc/PID/maps` in one reading: 65,530 mappings, the kernel's own limit, with names of 180 bytes.
const MOST_TEXT: u64 = 16 << 20;
/// The most memory that a program has mapped, in times of the machine's. A page that is touched costs eight bytes, but
/// a program can choose pages so that each costs a chunk of 2 MiB for 1 GiB: this bounds that to 1/128 of memory.
const OF_MEMORY: u64 = 4;
/// It is at least this, and at most an eighth of all that can be managed, in pages: 64 GiB and 2 TiB.
const MOST_PAGES: [u64; 2] = [1 << 24, 1 << 29];
/// The time between two looks at all programs, in times of its cost: 5 % of a CPU, and in calm 0.2 %.
const LOOK_PAUSE: [u64; 2] = [20, 512];

/// The text of a process's mappings, and whether it is longer than what is read.
///
/// # Errors
/// The kernel's error; `NotFound` or `ESRCH` if the process has ended.
pub(crate) fn mappings_text(held: &Held) -> io::Result<(Vec<u8>, bool)> {
    read_lines(held.open_read("maps")?, MOST_TEXT)
}

fn read_lines(file: impl Read, most: u64) -> io::Result<(Vec<u8>, bool)> {
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    reader.by_ref().take(most).read_to_end(&mut text)?;
    let is_cut = !reader.fill_buf()?.is_empty();
    if is_cut {
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        text.truncate(end);
    }
    Ok((text, is_cut))
}

/// Leaves out of the largest runs what is over the limit: an address space that is reserved and not used must not displace
/// the memory that is. Of the smallest of them the start stays, as its pages could otherwise not be demoted. Returns the
/// pages left out.
pub(crate) fn keep_within_limit(root: &Root, runs: &mut Vec<MappedRun>) -> u64 {
    keep_within(runs, most_pages(root))
}

fn most_pages(root: &Root) -> u64 {
    let text = root.read("/proc/meminfo").unwrap_or_default();
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let pages = kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 4;
    pages.saturating_mul(OF_MEMORY).clamp(MOST_PAGES[0], MOST_PAGES[1])
}

fn keep_within(runs: &mut Vec<MappedRun>, most: u64) -> u64 {
    let pages = |run: &MappedRun| run.1 - run.0;
    let all: u64 = runs.iter().map(pages).sum();
    if all <= most {
        return 0;
    }
    let mut by_size: Vec<usize> = (0..runs.len()).collect();
    by_size.sort_by_key(|&at| (pages(&runs[at]), at));
    let mut left = most;
    for at in by_size {
        let kept = pages(&runs[at]).min(left);
        runs[at].1 = runs[at].0 + kept;
        left -= kept;
    }
    runs.retain(|run| run.0 < run.1);
    all - most
}

/// The time until the next look, after one of this cost.
pub(crate) fn look_pause(shortest: Nanos, cost: Nanos, calm: bool) -> Nanos {
    shortest.max(cost * LOOK_PAUSE[usize::from(calm)])
}

/// The report of mappings that are not managed.
pub(super) fn left_out(pid: u32, pages: u64, text_is_cut: bool) -> Error {
    let why = match text_is_cut {
        true => "what /proc/PID/maps lists after its first 16 MiB is left out".to_string(),
        false => format!(
            "it maps more than {OF_MEMORY} times the machine's memory: of its largest mappings {} are left out",
            Bytes::from_base_pages(pages)
        ),
    };
    Error::Missing {
        what: format!("managing all memory of process {pid}"),
        why,
        hint: "memory that is reserved and not used needs no management".into(),
    }
}

/// The report of processes that are not managed.
pub(super) fn too_many(error: Option<&io::Error>) -> Error {
    let why = match error {
        Some(error) => format!("no more can be held: {error}"),
        None => format!("{MOST_TARGETS} are managed already"),
    };
    Error::Missing {
        what: "managing all chosen processes".into(),
        why,
        hint:
            "choose fewer: by cgroup, or with min_rss; or raise the limit of open files (ulimit -n)"
                .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_core::port::PageKind::Anonymous;

    #[test]
    fn text_ends_with_a_whole_line_at_its_limit() {
        let read = |text: &str, most| read_lines(text.as_bytes(), most).expect("text");
        assert_eq!(read("ab\ncd\n", 6), (b"ab\ncd\n".to_vec(), false));
        assert_eq!(read("ab\ncd\n", 5), (b"ab\n".to_vec(), true));
        assert_eq!(read("ab\ncd\n", 3), (b"ab\n".to_vec(), true));
        assert_eq!(read("abcd", 2), (vec![], true));
    }

    #[test]
    fn a_reserved_address_space_displaces_nothing() {
        let kept = |runs: &[(u64, u64)], most| {
            let mut runs: Vec<MappedRun> =
                runs.iter().map(|&(start, end)| (start, end, Anonymous)).collect();
            let out = keep_within(&mut runs, most);
            (runs.iter().map(|run| (run.0, run.1)).collect::<Vec<_>>(), out)
        };
        let huge = 64 << (40 - 12);
        let (most, all) = (1 << 29, 19 + huge);
        let rest = [(0, 9), (10, 10 + most - 19), (huge + 20, huge + 30)];
        assert_eq!(
            kept(&[(0, 9), (10, 10 + huge), (huge + 20, huge + 30)], most),
            (rest.to_vec(), all - most)
        );
        assert_eq!(kept(&[(0, 5), (10, 20), (30, 33)], 18), (vec![(0, 5), (10, 20), (30, 33)], 0));
        assert_eq!(kept(&[(0, 5), (10, 20), (30, 33)], 17), (vec![(0, 5), (10, 19), (30, 33)], 1));
        assert_eq!(kept(&[(0, 5), (10, 15), (30, 33)], 9), (vec![(0, 5), (10, 11), (30, 33)], 4));
        assert_eq!(kept(&[(0, 5), (10, 15)], 5), (vec![(0, 5)], 5));
    }

    #[test]
    fn a_program_maps_a_multiple_of_the_machines_memory_at_most() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        let most = |kib: u64| {
            std::fs::create_dir_all(root.path("/proc")).expect("a folder");
            let text = format!("MemTotal: {kib} kB\nMemFree: 1 kB\n");
            std::fs::write(root.path("/proc/meminfo"), text).expect("a file");
            Bytes::from_base_pages(most_pages(&root)).0 >> 30
        };
        assert_eq!([8 << 20, 32 << 20, 256 << 20, 8 << 30].map(most), [64, 128, 1024, 2048]);
    }

    #[test]
    fn looks_have_a_budget() {
        let shortest = Nanos::from_secs(1);
        assert_eq!(look_pause(shortest, Nanos::from_millis(3), false), shortest);
        assert_eq!(look_pause(shortest, Nanos::from_millis(1), true), shortest);
        assert_eq!(look_pause(shortest, Nanos::from_millis(150), false), Nanos::from_secs(3));
        assert_eq!(look_pause(shortest, Nanos::from_millis(10), true), Nanos::from_millis(5120));
    }
}
