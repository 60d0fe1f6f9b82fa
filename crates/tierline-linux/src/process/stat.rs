// SPDX-License-Identifier: Apache-2.0
//! `/proc/PID/stat`: the identity of a process.

use std::io;

use tierline_core::unit::Bytes;

use super::Held;
use super::held::is_gone;
use crate::error::{Error, Result};
use crate::root::Root;

/// `PF_KTHREAD` of the kernel's `sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What identifies a process, in one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: u32,
    /// Its name, at most 15 bytes.
    pub comm: String,
    /// Its parent process.
    pub parent: u32,
    /// Page faults without reading from a disk: its own, and those of its children that have ended.
    pub faults: u64,
    /// Start time in clock ticks since boot: distinguishes processes that reuse a pid.
    pub start: u64,
    /// CPU time, in clock ticks.
    pub ran: u64,
    /// The processor that it ran on last.
    pub cpu: u32,
    /// Mapped bytes.
    pub size: u64,
    /// Resident bytes.
    pub rss: Bytes,
    /// The start addresses of its code, stack and heap. They are random, so they differ after each exec. All
    /// zero if we may not read them.
    pub start_addresses: [u64; 3],
    /// True for a kernel thread.
    pub is_kernel_thread: bool,
    /// True if it has exited and only its pid remains.
    pub zombie: bool,
}

impl Stat {
    /// Reads the state of `pid`.
    ///
    /// # Errors
    /// `Error::File` if there is no such process, `Error::Format` if the text cannot be parsed.
    pub fn read(root: &Root, pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let text = root.read(&path)?;
        Self::parse(&text).ok_or_else(|| Error::Format {
            path: root.path(path),
            found: text,
            expected: "the fields of proc(5)",
        })
    }

    /// Reads the state of a held process; `None` if it has ended, also if it only waits to be reaped.
    ///
    /// # Errors
    /// The kernel's error if it cannot be read, as there are too many open files.
    pub fn try_of(held: &Held) -> io::Result<Option<Self>> {
        match held.read_text("stat") {
            Ok(text) => Ok(Self::parse(&text).filter(|stat| !stat.zombie)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same; `None` also if it cannot be read.
    pub fn of(held: &Held) -> Option<Self> {
        Self::try_of(held).ok().flatten()
    }

    /// Parses a stat file. The name may contain blanks and parentheses.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        let (pid, comm) = head.split_once('(')?;
        // Fields count from 1 in proc(5); the first after the name is the third.
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let number = |field: usize| -> Option<u64> { fields.get(field - 3)?.parse().ok() };
        Some(Self {
            pid: pid.trim().parse().ok()?,
            comm: comm.into(),
            parent: u32::try_from(number(4)?).ok()?,
            faults: number(10)?.saturating_add(number(11)?),
            start: number(22)?,
            ran: number(14)?.saturating_add(number(15)?),
            cpu: number(39).and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or_default(),
            size: number(23)?,
            rss: Bytes::from_base_pages(number(24)?),
            start_addresses: [26, 28, 47].map(|field| number(field).unwrap_or(0)),
            is_kernel_thread: number(9)? & KERNEL_THREAD != 0,
            zombie: matches!(fields.first(), Some(&"Z" | &"X" | &"x")),
        })
    }

    /// True if `other` is the same run of the same program.
    pub fn same_run(&self, other: &Self) -> bool {
        self.pid == other.pid
            && self.start == other.start
            && self.start_addresses == other.start_addresses
    }
}

/// All process ids in `/proc`, ascending.
pub fn pids(root: &Root) -> Vec<u32> {
    let mut pids: Vec<u32> =
        root.list("/proc").into_iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// The children of a process: `None` if this kernel does not list them (CONFIG_PROC_CHILDREN off).
pub fn children(held: &Held) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    for thread in held.numbers("task") {
        match held.read_text(&format!("task/{thread}/children")) {
            Ok(text) => {
                children.extend(text.split_whitespace().filter_map(|w| w.parse::<u32>().ok()))
            }
            // If a thread has ended meanwhile, the missing file does not mean that the kernel lacks it.
            Err(_) if held.numbers("task").contains(&thread) => return None,
            Err(_) => {}
        }
    }
    Some(children)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The text of a stat file; `image` is the start address of the code.
    pub(crate) fn text(
        pid: u32,
        comm: &str,
        parent: u32,
        start: u64,
        rss: u64,
        image: u64,
    ) -> String {
        let mut fields = vec!["0".to_string(); 50];
        fields[0] = "S".into();
        fields[1] = parent.to_string();
        fields[19] = start.to_string();
        fields[21] = rss.to_string();
        fields[23] = image.to_string();
        fields[36] = "3".into();
        format!("{pid} ({comm}) {}\n", fields.join(" "))
    }

    #[test]
    fn a_name_with_parentheses_is_parsed() {
        let stat = Stat::parse(&text(7, "a) (b c", 1, 99, 3, 4)).expect("a stat");
        assert_eq!((stat.comm.as_str(), stat.parent, stat.start), ("a) (b c", 1, 99));
        assert_eq!((stat.rss, stat.cpu), (Bytes(3 * 4096), 3));
        assert!(!stat.is_kernel_thread && !stat.zombie);
        assert_eq!(Stat::parse("7 (a) S"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn an_impossible_size_is_a_large_one() {
        let stat = Stat::parse(&text(7, "a", 1, 99, u64::MAX / 2, 4)).expect("a stat");
        assert_eq!(stat.rss, Bytes(u64::MAX));
    }

    #[test]
    fn an_exec_and_a_recycled_pid_are_other_runs() {
        let stat = |start, image| Stat::parse(&text(7, "a", 1, start, 3, image)).expect("a stat");
        assert!(stat(5, 6).same_run(&stat(5, 6)));
        assert!(!stat(5, 6).same_run(&stat(5, 7)) && !stat(5, 6).same_run(&stat(8, 6)));
    }

    #[test]
    fn this_process_reads_itself() {
        let own = Stat::read(&Root::default(), std::process::id()).expect("itself");
        assert!(own.rss > Bytes::ZERO && !own.is_kernel_thread);
        assert!(pids(&Root::default()).contains(&own.pid));
    }
}
