// SPDX-License-Identifier: Apache-2.0
//! System calls of a manager that runs: all others fail with `EPERM`, among them those that start programs or
//! threads, trace, mount, load, or change users. A filter belongs to a thread, and cannot be taken off.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Observes and moves pages, reads and writes files.
    Manager,
    /// Answers on sockets that are open already. It opens no file, and makes no new socket.
    Api,
}

/// Memory, time, events, and the end: what every thread needs.
const COMMON: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
    // Sockets that are open, and those of callers.
    libc::SYS_accept4,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Files, the kernel's interfaces of memory and measurement, and credentials as they are.
const MANAGER: &[c_long] = &[
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getgroups,
    libc::SYS_getpriority,
    libc::SYS_getrusage,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_mincore,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_prlimit64,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_sched_setaffinity,
    libc::SYS_setpriority,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    // What the manager is for.
    libc::SYS_get_mempolicy,
    libc::SYS_mbind,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_open,
    libc::SYS_process_madvise,
    // The sockets of requests and notices; of what kind: see `conditions`.
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_socketpair,
];

/// Older forms, which musl and glibc still use on x86.
#[cfg(target_arch = "x86_64")]
const COMMON_OLD: &[c_long] =
    &[libc::SYS_accept, libc::SYS_arch_prctl, libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_time];
#[cfg(target_arch = "x86_64")]
const MANAGER_OLD: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
    libc::SYS_lchown,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_stat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const COMMON_OLD: &[c_long] = &[libc::SYS_accept];
#[cfg(not(target_arch = "x86_64"))]
const MANAGER_OLD: &[c_long] = &[];

/// Confines this thread to the calls of its role. `no_new_privs` is set with it.
///
/// # Errors
/// If the kernel has no filters, or this architecture none of ours.
pub fn confine(role: Role) -> io::Result<()> {
    apply_filter(&program(role).map_err(io::Error::other)?).map_err(io::Error::other)
}

fn program(role: Role) -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = conditions(role)?;
    let (more, more_old): (&[c_long], &[c_long]) = match role {
        Role::Manager => (MANAGER, MANAGER_OLD),
        Role::Api => (&[], &[]),
    };
    for &call in COMMON.iter().chain(COMMON_OLD).chain(more).chain(more_old) {
        rules.insert(call, Vec::new());
    }
    let otherwise = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, architecture)?.try_into()
}

/// Calls that are allowed with some arguments only.
fn conditions(role: Role) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let one = |at, operator, value: u64| {
        let condition = SeccompCondition::new(at, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let bits = |value: i32| u64::from(value.unsigned_abs());
    // No memory becomes code.
    let no_code = || one(2, MaskedEq(bits(libc::PROT_EXEC)), 0);
    // A signal to ourselves, by which an abort ends the process.
    let to_us = || one(0, Eq, u64::from(std::process::id()));
    let mut rules = BTreeMap::from([
        (libc::SYS_mmap, vec![no_code()?]),
        (libc::SYS_mprotect, vec![no_code()?]),
        (libc::SYS_tgkill, vec![to_us()?]),
    ]);
    if role == Role::Manager {
        let options = [libc::PR_GET_TIMERSLACK, libc::PR_SET_TIMERSLACK, libc::PR_SET_NAME];
        let options = options.map(|option| one(0, Eq, bits(option)));
        rules.insert(libc::SYS_prctl, options.into_iter().collect::<Result<_, _>>()?);
        rules.insert(libc::SYS_socket, vec![one(0, Eq, bits(libc::AF_UNIX))?]);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Runs `work` in a thread of its own, as a filter stays.
    fn confined<T: Send + 'static>(role: Role, work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(move || {
            confine(role).expect("a filter");
            work()
        });
        thread.join().expect("it ends")
    }

    /// The errors of calls that no manager makes.
    fn forbidden() -> Vec<(&'static str, i32)> {
        let error = |status: c_long| match status {
            0.. => 0,
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(0),
        };
        let (none, nothing) = (c"/nonexistent".as_ptr(), std::ptr::null::<libc::c_char>());
        // SAFETY: none of these calls writes through its arguments, which are null, numbers, or a text that lasts. If the
        // kernel carried them out, they would fail on a file or process that does not exist, or change only this thread.
        unsafe {
            vec![
                ("execve", error(libc::syscall(libc::SYS_execve, none, nothing, nothing))),
                ("ptrace", error(libc::syscall(libc::SYS_ptrace, libc::PTRACE_ATTACH, i32::MAX))),
                ("mount", error(libc::syscall(libc::SYS_mount, none, none, nothing, 0, nothing))),
                ("bpf", error(libc::syscall(libc::SYS_bpf, -1, nothing, 0))),
                ("kill", error(libc::syscall(libc::SYS_kill, i32::MAX, 0))),
                ("unshare", error(libc::syscall(libc::SYS_unshare, 0))),
                ("setuid", error(libc::syscall(libc::SYS_setuid, libc::getuid()))),
                ("init_module", error(libc::syscall(libc::SYS_init_module, nothing, 0, nothing))),
                ("process_vm_writev", error(libc::syscall(libc::SYS_process_vm_writev, i32::MAX))),
            ]
        }
    }

    #[test]
    fn calls_that_no_manager_makes_fail_with_eperm() {
        for role in [Role::Manager, Role::Api] {
            for (call, errno) in confined(role, forbidden) {
                assert_eq!(errno, libc::EPERM, "{role:?}: {call}");
            }
        }
        // Without a filter they fail for another reason, or do not fail.
        let names = forbidden().into_iter().filter(|(_, errno)| *errno != libc::EPERM);
        let names: Vec<&str> = names.map(|(name, _)| name).collect();
        for name in ["execve", "kill", "unshare", "setuid", "process_vm_writev"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }

    #[test]
    fn a_manager_works_on_files_and_starts_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().to_path_buf();
        confined(Role::Manager, move || {
            fs::write(at.join("new"), "text").expect("written");
            fs::rename(at.join("new"), at.join("file")).expect("renamed");
            assert_eq!(fs::read_to_string(at.join("file")).expect("read"), "text");
            let _socket = UnixListener::bind(at.join("socket")).expect("a unix socket");
            assert_eq!(fs::read_dir(&at).expect("a list").count(), 2);
            let refused = TcpListener::bind("127.0.0.1:0").expect_err("no network");
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            let started = std::process::Command::new("/bin/true").spawn();
            assert_eq!(started.expect_err("no program").raw_os_error(), Some(libc::EPERM));
            let started = std::thread::Builder::new().spawn(|| ());
            assert!(started.is_err(), "no thread");
        });
    }

    #[test]
    fn the_api_uses_its_sockets_and_opens_nothing() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        let answer = std::thread::spawn(move || {
            let mut text = String::new();
            ours.write_all(b"?").expect("sent");
            ours.shutdown(std::net::Shutdown::Write).expect("ours");
            ours.read_to_string(&mut text).expect("an answer");
            text
        });
        confined(Role::Api, move || {
            assert!(crate::peer::may_change(&theirs, Some(0)), "it asks who calls");
            let mut text = String::new();
            theirs.read_to_string(&mut text).expect("a question");
            theirs.write_all(text.as_bytes()).expect("answered");
            for refused in [File::open("/etc/passwd").map(drop), UnixStream::pair().map(drop)] {
                let errno = refused.expect_err("nothing is opened").raw_os_error();
                assert_eq!(errno, Some(libc::EPERM));
            }
            // Much memory, in mappings of its own.
            assert_eq!(
                vec![1_u8; 64 << 20].iter().map(|&one| usize::from(one)).sum::<usize>(),
                64 << 20
            );
        });
        assert_eq!(answer.join().expect("it ends"), "?");
    }
}
