// SPDX-License-Identifier: Apache-2.0
//! A process held by descriptor. A number alone is not one process: after its end the kernel gives it to another one,
//! of any user. A folder of `/proc` and a pidfd stay those of the process that they were opened for.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Dir, Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, open, openat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tierline_core::unit::Nanos;

use crate::error::Error;
use crate::root::Root;

/// A process that was found once.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    /// Its folder in `/proc`.
    folder: OwnedFd,
    /// `None` for a folder of a test, and for a process that is named by one of its other threads.
    pidfd: Option<OwnedFd>,
}

impl Held {
    /// Takes hold of the process that has this number now.
    ///
    /// # Errors
    /// The kernel's error: `NotFound` if there is none, `EMFILE` if there are too many open files.
    pub fn open(root: &Root, pid: u32) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(root.path(format!("/proc/{pid}")), flags, Mode::empty())?;
        let is_real = fstatfs(&folder)?.f_type == PROC_SUPER_MAGIC;
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = match number.filter(|_| is_real).map(|pid| pidfd_open(pid, PidfdFlags::empty()))
        {
            Some(Err(errno @ (rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))) => {
                return Err(errno.into());
            }
            opened => opened.and_then(Result::ok),
        };
        let held = Self { pid, folder, pidfd };
        // It had the number until now, so the pidfd is its own.
        held.open_file("stat", OFlags::RDONLY)?;
        Ok(held)
    }

    /// Its number, which no other process has while it runs.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// True unless it has certainly ended.
    pub fn is_alive(&self) -> bool {
        let has_ended = self.pidfd.as_ref().and_then(|pidfd| {
            let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
            poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok().map(|ready| ready > 0)
        });
        !has_ended.unwrap_or_else(|| {
            self.open_file("stat", OFlags::RDONLY).is_err_and(|error| is_gone(&error))
        })
    }

    /// CPU time of all its threads so far; `None` if it has ended.
    pub fn cpu_time(&self) -> Option<Nanos> {
        let pid = self.pidfd.as_ref().and(i32::try_from(self.pid).ok())?;
        // `CPUCLOCK_SCHED` of a process, as the kernel's posix-timers_types.h makes it.
        let clock = (!pid << 3) | 2;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes one timespec, which outlives it.
        let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
        let nanos = time.tv_sec * 1_000_000_000 + time.tv_nsec;
        u64::try_from(nanos).ok().map(Nanos).filter(|_| done == 0)
    }

    /// Its pidfd, for calls that take one.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Opens a file of its folder for reading.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` or `ESRCH` if the process has ended.
    pub fn open_read(&self, file: &str) -> io::Result<File> {
        self.open_file(file, OFlags::RDONLY)
    }

    /// The content of a file of its folder.
    ///
    /// # Errors
    /// As [`Held::open_read`].
    pub fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        read_all(self.open_read(file)?)
    }

    /// The text of a file of its folder.
    ///
    /// # Errors
    /// As [`Held::open_read`].
    pub fn read_text(&self, file: &str) -> io::Result<String> {
        self.read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes a file of its folder.
    ///
    /// # Errors
    /// As [`Held::open_read`].
    pub fn write(&self, file: &str, text: &str) -> io::Result<()> {
        self.open_file(file, OFlags::WRONLY)?.write_all(text.as_bytes())
    }

    /// The numbers among the names in a folder of its folder.
    pub fn numbers(&self, folder: &str) -> Vec<u32> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = openat(&self.folder, folder, flags, Mode::empty()).and_then(Dir::read_from);
        let names = entries.into_iter().flatten().flatten();
        names.filter_map(|name| name.file_name().to_str().ok()?.parse().ok()).collect()
    }

    fn open_file(&self, file: &str, flags: OFlags) -> io::Result<File> {
        Ok(File::from(openat(&self.folder, file, flags | OFlags::CLOEXEC, Mode::empty())?))
    }
}

/// The error of a file of a process.
pub(crate) fn file_error(
    root: &Root,
    pid: u32,
    file: &str,
    action: &'static str,
    source: io::Error,
) -> Error {
    Error::File { action, path: root.path(format!("/proc/{pid}/{file}")), source }
}

/// True if an error means that the process has ended.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The error of a process that has ended.
pub(crate) fn ended() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// The content of a file of the kernel.
///
/// # Errors
/// The kernel's error.
pub(crate) fn read_all(file: File) -> io::Result<Vec<u8>> {
    // Limited only so that the size is not asked for, which the kernel does not know.
    let mut bytes = Vec::with_capacity(4096);
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A real process that waits until its input ends.
    pub(crate) fn waiting() -> Child {
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat runs")
    }

    /// Ends a process and takes its exit status, so that its number is free.
    pub(crate) fn end(mut child: Child) {
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    #[test]
    fn a_held_process_is_known_to_have_ended() {
        let (root, child) = (Root::default(), waiting());
        let pid = child.id();
        let held = root.hold(pid).expect("it runs");
        let stat = held.read_text("stat").expect("readable");
        assert!(held.is_alive() && stat.starts_with(&format!("{pid} (")), "{stat}");
        assert_eq!(root.process(pid).map(|held| held.pid()), Some(pid));
        assert!(root.clone().process(pid).is_some(), "copies of a root share what is held");
        end(child);
        assert!(!held.is_alive() && root.process(pid).is_none());
        assert!(held.read("maps").is_err() && held.write("clear_refs", "1").is_err());
    }

    #[test]
    fn only_a_process_that_runs_uses_cpu_time() {
        let (root, child) = (Root::default(), waiting());
        let held = root.hold(child.id()).expect("it runs");
        while !held.read_text("stat").expect("readable").contains(") S ") {
            std::thread::yield_now();
        }
        let before = held.cpu_time();
        assert!(before.is_some_and(|time| time > Nanos::ZERO), "{before:?}");
        let own = root.process(std::process::id()).expect("ourselves");
        let own_before = own.cpu_time();
        assert!((0..1_000_000).any(|_| own.cpu_time() > own_before));
        assert_eq!(held.cpu_time(), before);
        end(child);
        assert_eq!(held.cpu_time(), None);
    }

    #[test]
    fn a_recycled_number_is_another_process() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        let folder = dir.path().join("proc/7");
        let run = |text: &str| {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join("stat"), text).expect("a file");
        };
        run("first");
        assert!(root.process(7).is_none(), "nobody takes hold of what was not chosen");
        let held = root.hold(7).expect("it runs");
        std::fs::remove_dir_all(&folder).expect("an end");
        run("second");
        assert!(!held.is_alive() && root.process(7).is_none());
        assert!(root.hold(7).is_err(), "the number was chosen for the first one");
        root.release(7);
        assert_eq!(root.hold(7).expect("the second").read_text("stat").expect("it"), "second");
    }

    #[test]
    fn our_own_process_needs_no_choice() {
        let root = Root::default();
        assert!(root.process(std::process::id()).is_some());
        assert!(root.process(u32::MAX).is_none());
    }
}
