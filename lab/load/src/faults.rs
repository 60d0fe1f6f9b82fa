// SPDX-License-Identifier: Apache-2.0
//! `faults`: runs a command of whose system calls some fail, with errors that their manual pages list.
//!
//! A filter of system calls (seccomp) reports the chosen calls to this process, which answers each: the kernel
//! carries it out, or it fails and nothing happens. Threads of the command have the filter too, and a filter that
//! the command sets itself comes on top.
#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of calls, errors and descriptors fit"
)]

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;
use std::{io, mem, ptr, thread};

use anyhow::{Context, Result, bail};
use libc::{
    E2BIG, EACCES, EADDRINUSE, EAFNOSUPPORT, EAGAIN, EBADF, EBUSY, ECONNABORTED, EDQUOT, EEXIST,
    EFAULT, EFBIG, EINTR, EINVAL, EIO, EISDIR, ELOOP, EMFILE, ENFILE, ENOBUFS, ENODEV, ENOENT,
    ENOMEM, ENOSPC, ENOSYS, ENOTDIR, ENOTTY, ENXIO, EOPNOTSUPP, EOVERFLOW, EPERM, EPIPE, EROFS,
    ESPIPE, ESRCH, c_int,
};
use serde::Serialize;

use crate::Verdict;
use crate::report;
use crate::rng::Rng;
use crate::unit::{Span, share};

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// Calls that may fail, separated by commas; `all`: all that are known
    #[arg(long, value_delimiter = ',', default_value = "all")]
    calls: Vec<String>,
    /// Errors that may occur, by number; otherwise all of the call's manual page
    #[arg(long, value_delimiter = ',')]
    errors: Vec<c_int>,
    /// The probability of a failure
    #[arg(long, default_value = "0.3", value_parser = share)]
    chance: f64,
    /// When the failures begin
    #[arg(long, default_value = "0s")]
    #[serde(rename = "after_seconds")]
    after: Span,
    /// Seed of every random choice
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print the calls and their errors, instead
    #[arg(long)]
    #[serde(skip)]
    list: bool,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
    /// The command
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    parameters: &'a Args,
    elapsed_seconds: f64,
    /// The command's exit status; 128 + N if signal N killed it.
    status: i32,
    /// By call.
    calls: BTreeMap<&'static str, Count>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Count {
    made: u64,
    failed: u64,
    /// Failures by error.
    errors: BTreeMap<c_int, u64>,
}

/// A call that moves, measures, or reads and writes what either needs; and the errors of its manual page.
struct Call {
    name: &'static str,
    number: libc::c_long,
    errors: &'static [c_int],
}

impl Call {
    const fn new(name: &'static str, number: libc::c_long, errors: &'static [c_int]) -> Self {
        Self { name, number, errors }
    }
}

#[rustfmt::skip]
const CALLS: &[Call] = &[
    Call::new("move_pages", libc::SYS_move_pages, &[E2BIG, EACCES, EBUSY, EFAULT, EINTR, EINVAL, EIO, ENODEV, ENOENT, ENOMEM, EPERM, ESRCH]),
    Call::new("process_madvise", libc::SYS_process_madvise, &[EACCES, EAGAIN, EBADF, EBUSY, EFAULT, EINTR, EINVAL, EIO, ENOMEM, EPERM, ESRCH]),
    Call::new("perf_event_open", libc::SYS_perf_event_open, &[E2BIG, EACCES, EBADF, EBUSY, EFAULT, EINTR, EINVAL, EMFILE, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOSYS, EOPNOTSUPP, EOVERFLOW, EPERM, ESRCH]),
    Call::new("ioctl", libc::SYS_ioctl, &[EBADF, EBUSY, EFAULT, EINTR, EINVAL, EIO, ENOMEM, ENOTTY, EPERM]),
    Call::new("pidfd_open", libc::SYS_pidfd_open, &[EINVAL, EMFILE, ENFILE, ENODEV, ENOMEM, ESRCH]),
    Call::new("openat", libc::SYS_openat, &[EACCES, EBUSY, EINTR, EINVAL, EIO, ELOOP, EMFILE, ENFILE, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOTDIR, ENXIO, EPERM, EROFS, ESRCH]),
    Call::new("read", libc::SYS_read, &[EAGAIN, EBADF, EFAULT, EINTR, EINVAL, EIO, EISDIR, ENODEV, ENOMEM, EOVERFLOW, ESRCH]),
    Call::new("pread64", libc::SYS_pread64, &[EAGAIN, EBADF, EFAULT, EINTR, EINVAL, EIO, ENXIO, EOVERFLOW, ESPIPE, ESRCH]),
    Call::new("write", libc::SYS_write, &[EAGAIN, EBADF, EBUSY, EDQUOT, EFAULT, EFBIG, EINTR, EINVAL, EIO, ENOMEM, ENOSPC, EPERM, EPIPE, ESRCH]),
    Call::new("pwrite64", libc::SYS_pwrite64, &[EAGAIN, EBADF, EFBIG, EINTR, EINVAL, EIO, ENOSPC, EPERM, ESPIPE]),
    Call::new("lseek", libc::SYS_lseek, &[EBADF, EINVAL, ENXIO, EOVERFLOW, ESPIPE]),
    Call::new("fstat", libc::SYS_fstat, &[EBADF, EFAULT, ENOMEM, EOVERFLOW]),
    Call::new("statx", libc::SYS_statx, &[EACCES, EFAULT, EINVAL, ELOOP, ENOENT, ENOMEM, ENOTDIR]),
    Call::new("getdents64", libc::SYS_getdents64, &[EBADF, EFAULT, EINVAL, ENOENT, ENOTDIR]),
    Call::new("readlinkat", libc::SYS_readlinkat, &[EACCES, EINVAL, EIO, ELOOP, ENOENT, ENOMEM, ENOTDIR, ESRCH]),
    Call::new("mkdirat", libc::SYS_mkdirat, &[EACCES, EDQUOT, EEXIST, ENOENT, ENOMEM, ENOSPC, EROFS]),
    Call::new("renameat", libc::SYS_renameat, &[EACCES, EBUSY, EDQUOT, EIO, ENOENT, ENOMEM, ENOSPC, EROFS]),
    Call::new("unlinkat", libc::SYS_unlinkat, &[EACCES, EBUSY, EIO, ENOENT, ENOMEM, EPERM, EROFS]),
    Call::new("fsync", libc::SYS_fsync, &[EBADF, EDQUOT, EINTR, EIO, ENOSPC, EROFS]),
    Call::new("mmap", libc::SYS_mmap, &[EACCES, EAGAIN, EINVAL, ENFILE, ENODEV, ENOMEM, EPERM]),
    Call::new("sched_setaffinity", libc::SYS_sched_setaffinity, &[EFAULT, EINVAL, EPERM, ESRCH]),
    Call::new("socket", libc::SYS_socket, &[EACCES, EAFNOSUPPORT, EMFILE, ENFILE, ENOBUFS, ENOMEM]),
    Call::new("bind", libc::SYS_bind, &[EACCES, EADDRINUSE, EINVAL, ENOMEM, EROFS]),
    Call::new("accept4", libc::SYS_accept4, &[EAGAIN, ECONNABORTED, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM]),
    Call::new("epoll_wait", libc::SYS_epoll_wait, &[EBADF, EINTR, EINVAL]),
    Call::new("ppoll", libc::SYS_ppoll, &[EFAULT, EINTR, EINVAL, ENOMEM]),
];

/// What both sides of the fork share: the command's number and that of its filter's descriptor, and whether this side has it.
struct Meeting {
    pid: AtomicI32,
    filter: AtomicI32,
    taken: AtomicI32,
}

pub fn run(args: &Args) -> Result<Verdict> {
    if args.list {
        for call in CALLS {
            println!("{} {:?}", call.name, call.errors);
        }
        return Ok(Verdict::Good);
    }
    let all = args.calls.iter().any(|name| name == "all");
    if let Some(name) =
        args.calls.iter().find(|name| !all && !CALLS.iter().any(|call| call.name == *name))
    {
        bail!("no call {name}; --list names all");
    }
    let chosen: Vec<&Call> = CALLS
        .iter()
        .filter(|call| all || args.calls.iter().any(|name| name == call.name))
        .collect();
    let (program, words) = args.command.split_first().context("a command is needed after --")?;
    let meeting = meeting()?;
    let filter = filter(&chosen);
    let mut command = Command::new(program);
    command.args(words);
    // SAFETY: between fork and exec the closure makes system calls and writes atomics, and does nothing else.
    unsafe { command.pre_exec(move || confine(&filter, meeting)) };
    let begun = Instant::now();
    let answers = {
        let args = args.clone();
        thread::spawn(move || serve(&args, &chosen, meeting, begun))
    };
    // Until exec, the command waits for the other thread.
    let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let ended = child.wait()?;
    let calls =
        answers.join().map_err(|_| anyhow::anyhow!("the thread that answers has panicked"))??;
    let status = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    let elapsed_seconds = begun.elapsed().as_secs_f64();
    report::write(
        &args.report,
        &Report { load: "faults", parameters: args, elapsed_seconds, status, calls },
    )?;
    Ok(Verdict::Good)
}

fn meeting() -> Result<&'static Meeting> {
    let (prot, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which no other object is in; it is never unmapped.
    let at = unsafe { libc::mmap(ptr::null_mut(), mem::size_of::<Meeting>(), prot, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error()).context("cannot map shared memory");
    }
    // SAFETY: the mapping is large enough, aligned to a page, lasts for ever, and zeros are valid atomics.
    Ok(unsafe { &*at.cast::<Meeting>() })
}

/// Reports these calls, and allows all others.
fn filter(calls: &[&Call]) -> Vec<libc::sock_filter> {
    let word = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = vec![word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        program.push(word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call.number as u32));
        program.push(word(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    }
    program.push(word(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    program
}

/// Sets the filter, and waits until the other side listens.
fn confine(filter: &[libc::sock_filter], meeting: &Meeting) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads the program, which lasts until the call returns.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a number is returned.
    meeting.pid.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    meeting.filter.store(fd as i32, Ordering::Release);
    while meeting.taken.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    // The command itself must not hold it: an end of the command would never be reported.
    // SAFETY: the descriptor is ours, and nothing else uses it.
    unsafe { libc::close(fd as c_int) };
    Ok(())
}

/// Answers calls until the command has ended.
fn serve(
    args: &Args,
    calls: &[&'static Call],
    meeting: &Meeting,
    begun: Instant,
) -> Result<BTreeMap<&'static str, Count>> {
    while meeting.filter.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    let listener =
        taken(meeting.pid.load(Ordering::Relaxed), meeting.filter.load(Ordering::Relaxed))?;
    meeting.taken.store(1, Ordering::Release);
    let mut rng = Rng::new(args.seed);
    let mut counts: BTreeMap<_, Count> =
        calls.iter().map(|call| (call.name, Count::default())).collect();
    while waits(&listener)? {
        // SAFETY: all of these are numbers, for which zero is valid.
        let mut asked: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: the kernel writes the structure, which has its size.
        if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut asked) } < 0 {
            // A signal ended the call meanwhile, or the process has ended.
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => continue,
                _ => return Err(io::Error::last_os_error()).context("cannot receive a call"),
            }
        }
        let Some(call) = calls.iter().find(|call| call.number == libc::c_long::from(asked.data.nr))
        else {
            bail!("call {} was not chosen", asked.data.nr)
        };
        let count = counts.entry(call.name).or_default();
        count.made += 1;
        let errors = if args.errors.is_empty() { call.errors } else { &args.errors };
        let fails = begun.elapsed() >= args.after.0
            && ((rng.next() >> 32) as f64) < args.chance * 4_294_967_296.0;
        let mut answer = libc::seccomp_notif_resp {
            id: asked.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        if fails {
            let error = errors[(rng.next() >> 32) as usize % errors.len()];
            count.failed += 1;
            *count.errors.entry(error).or_default() += 1;
            (answer.error, answer.flags) = (-error, 0);
        }
        // SAFETY: the kernel reads the structure. That it fails means that a signal ended the call.
        unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
    }
    Ok(counts)
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `_SEND`, for structures of 80 and 24 bytes.
const RECEIVE: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;

/// A copy of a descriptor of another process.
fn taken(pid: i32, fd: c_int) -> Result<OwnedFd> {
    // SAFETY: numbers are passed, and new descriptors returned, which nobody else owns.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if process < 0 {
            return Err(io::Error::last_os_error()).context("pidfd_open");
        }
        let process = OwnedFd::from_raw_fd(process as c_int);
        let copy = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0);
        if copy < 0 {
            return Err(io::Error::last_os_error()).context("pidfd_getfd");
        }
        Ok(OwnedFd::from_raw_fd(copy as c_int))
    }
}

/// Waits for a call; false once the command has ended.
fn waits(listener: &OwnedFd) -> Result<bool> {
    let mut one = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: the kernel writes one entry.
        match unsafe { libc::poll(&raw mut one, 1, -1) } {
            1 => return Ok(one.revents & libc::POLLIN != 0),
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return Err(io::Error::last_os_error()).context("poll"),
        }
    }
}
