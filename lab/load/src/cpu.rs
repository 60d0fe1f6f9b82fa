// SPDX-License-Identifier: Apache-2.0
//! `cpu`: the cost of a manager and its kernel threads.
//!
//! User and system time come from /proc/PID/stat, in ticks of 10 ms, and include all threads that ever existed.
//! `run_seconds` is the sum of /proc/PID/task/*/schedstat over living threads, in nanoseconds: more exact for a
//! kernel thread that runs for microseconds. Take a reading before and after, and subtract.

use std::fs;
use std::io::Write;

use anyhow::{Result, ensure};
use rustix::param::clock_ticks_per_second;
use serde::Serialize;

use crate::Verdict;
use crate::report;
use crate::sys;
use crate::unit::Span;

/// The flag of a kernel thread in /proc/PID/stat.
const PF_KTHREAD: u64 = 0x0020_0000;

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Processes
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Name prefixes of processes or kernel threads, like kdamond
    #[arg(long, value_delimiter = ',', num_args = 1..)]
    comm: Vec<String>,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    report: String,
    /// Repeat at this interval, one line of JSON each, until killed
    #[arg(long)]
    every: Option<Span>,
}

/// Figures of one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Process {
    pid: u32,
    comm: String,
    kernel_thread: bool,
    user_seconds: f64,
    system_seconds: f64,
    run_seconds: Option<f64>,
    /// Null for kernel threads, which have no memory.
    rss_bytes: Option<u64>,
    rss_peak_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Prefix {
    prefix: String,
    processes: usize,
    user_seconds: f64,
    system_seconds: f64,
    run_seconds: f64,
}

#[derive(Serialize)]
struct Report {
    /// Since boot, so that readings can be related.
    t_seconds: f64,
    processes: Vec<Process>,
    /// Requested by --pid, but not found.
    missing: Vec<u32>,
    /// Sums for each --comm.
    comms: Vec<Prefix>,
}

/// Name, whether it is a kernel thread, user and system ticks. The name may contain spaces and parentheses; the
/// last parenthesis ends it.
fn parse_stat(text: &str) -> Option<(&str, bool, u64, u64)> {
    let (head, rest) = text.rsplit_once(") ")?;
    let (_, comm) = head.split_once('(')?;
    // From field 3, the state, onwards.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some((comm, number(9)? & PF_KTHREAD != 0, number(14)?, number(15)?))
}

/// A size in /proc/PID/status.
fn parse_status(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// CPU time of the living threads.
fn run_seconds(pid: u32) -> Option<f64> {
    let mut total_ns = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        total_ns += text.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(total_ns as f64 / 1e9)
}

fn process(pid: u32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (comm, kernel_thread, user, system) = parse_stat(&stat)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
    Some(Process {
        pid,
        comm: comm.to_owned(),
        kernel_thread,
        user_seconds: seconds(user),
        system_seconds: seconds(system),
        run_seconds: run_seconds(pid),
        rss_bytes: parse_status(&status, "VmRSS"),
        rss_peak_bytes: parse_status(&status, "VmHWM"),
    })
}

fn sum(prefix: &str, processes: &[Process]) -> Prefix {
    let of: Vec<&Process> = processes.iter().filter(|p| p.comm.starts_with(prefix)).collect();
    Prefix {
        prefix: prefix.to_owned(),
        processes: of.len(),
        user_seconds: of.iter().map(|p| p.user_seconds).sum(),
        system_seconds: of.iter().map(|p| p.system_seconds).sum(),
        run_seconds: of.iter().filter_map(|p| p.run_seconds).sum(),
    }
}

pub fn run(args: &Args) -> Result<Verdict> {
    ensure!(!(args.pid.is_empty() && args.comm.is_empty()), "give --pid, --comm or both");
    let Some(every) = args.every else {
        report::write(&args.report, &reading(args)?)?;
        return Ok(Verdict::Good);
    };
    let mut out: Box<dyn Write> = match args.report.as_str() {
        "-" => Box::new(std::io::stdout()),
        path => Box::new(fs::File::create(path)?),
    };
    loop {
        let mut line = serde_json::to_vec(&reading(args)?)?;
        line.push(b'\n');
        out.write_all(&line)?;
        std::thread::sleep(every.0);
    }
}

fn reading(args: &Args) -> Result<Report> {
    let t_seconds = sys::boot_seconds();
    let mut missing = Vec::new();
    let mut processes = Vec::new();
    for &pid in &args.pid {
        match process(pid) {
            Some(found) => processes.push(found),
            None => missing.push(pid),
        }
    }
    let mut comms = Vec::new();
    if !args.comm.is_empty() {
        let all: Vec<Process> = fs::read_dir("/proc")?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(process)
            .collect();
        comms = args.comm.iter().map(|prefix| sum(prefix, &all)).collect();
        let named = |p: &Process| args.comm.iter().any(|prefix| p.comm.starts_with(prefix));
        processes.extend(all.into_iter().filter(|p| named(p) && !args.pid.contains(&p.pid)));
    }
    Ok(Report { t_seconds, processes, missing, comms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_any_character() {
        let text = "12 (a) (b c) S 1 1 1 0 -1 2129984 5 6 7 8 31 64 0 0 20 0 1";
        assert_eq!(parse_stat(text), Some(("a) (b c", true, 31, 64)));
        assert_eq!(parse_stat("12 (x) S 1"), None);
    }

    #[test]
    fn sizes_of_status() {
        let text = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t    12 kB\n";
        assert_eq!(parse_status(text, "VmRSS"), Some(12 * 1024));
        assert_eq!(parse_status(text, "VmHWM"), Some(2 << 20));
        assert_eq!(parse_status(text, "VmSwap"), None);
    }

    #[test]
    fn this_process_is_found() {
        let me = process(std::process::id()).unwrap();
        assert!(!me.kernel_thread && me.rss_bytes.unwrap() > 0);
    }
}
