// SPDX-License-Identifier: Apache-2.0
//! Threads beside a load, in the same process. Each makes the work of a manager harder.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;

use crate::memory::{Memory, Thp, WORDS};

/// Pages of one mapping of `churn`, and the pause after it.
const CHURN_PAGES: usize = 256;
const CHURN_PAUSE: Duration = Duration::from_millis(2);
/// Pages that `scan` reads, and the pause after them: 20 MB/s.
const SCAN_PAGES: usize = 256;
const SCAN_PAUSE: Duration = Duration::from_millis(50);
/// Pause after a child of `fork`.
const FORK_PAUSE: Duration = Duration::from_secs(1);

/// What the thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Beside {
    /// Reads the load's whole memory, from start to end, again and again
    Scan,
    /// Maps, touches and unmaps 1 MiB every 2 ms, so that the lock of the address space is often taken
    Churn,
    /// Forks a child every second that ends at once, so that all pages are shared for a short time
    Fork,
}

/// Runs until `stop`.
///
/// # Errors
/// A mapping or a fork that failed.
pub fn run(what: Beside, memory: &Memory, stop: &AtomicBool, seed: u64) -> Result<()> {
    let mut next = 0;
    while !stop.load(Relaxed) {
        match what {
            Beside::Scan => {
                let pages = (next..memory.pages()).take(SCAN_PAGES);
                let lines = pages.flat_map(|page| (0..WORDS).step_by(8).map(move |at| (page, at)));
                let sum =
                    lines.fold(0, |sum, (page, at)| sum ^ memory.word(page, at).load(Relaxed));
                std::hint::black_box(sum);
                next = (next + SCAN_PAGES) % memory.pages();
                std::thread::sleep(SCAN_PAUSE);
            }
            Beside::Churn => {
                let memory =
                    Memory::map(CHURN_PAGES, Thp::Never, seed).context("churn: no memory")?;
                memory.tag();
                ensure!(memory.mismatches().next().is_none(), "churn: a page has lost its tag");
                drop(memory);
                std::thread::sleep(CHURN_PAUSE);
            }
            Beside::Fork => {
                fork_once()?;
                std::thread::sleep(FORK_PAUSE);
            }
        }
    }
    Ok(())
}

/// Forks a child that ends at once, and waits for it.
fn fork_once() -> Result<()> {
    // SAFETY: the child calls only _exit, which is allowed after a fork of a process with several threads.
    let child = unsafe { libc::fork() };
    ensure!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: ends the child without running the parent's handlers.
        unsafe { libc::_exit(0) }
    }
    reap(child)
}

/// Waits for a child.
///
/// # Errors
/// Its status, if that is not 0.
pub fn reap(child: libc::pid_t) -> Result<()> {
    let mut status = 0;
    // SAFETY: status is a local variable.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    ensure!(ended == child && status == 0, "a child ended with status {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runs_until_it_is_stopped_and_leaves_the_memory_as_it_was() {
        let memory = Memory::map(1000, Thp::Never, 7).unwrap();
        memory.tag();
        for what in Beside::value_variants() {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| run(*what, &memory, &stop, 7));
                stop.store(true, Relaxed);
                thread.join().unwrap().unwrap();
            });
            assert_eq!(memory.mismatches().count(), 0, "{what:?}");
        }
    }
}
