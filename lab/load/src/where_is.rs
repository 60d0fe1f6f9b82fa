// SPDX-License-Identifier: Apache-2.0
//! `where`: pages of a process by node, from /proc/PID/numa_maps.
//!
//! Each line is a mapping. All pages of a file mapping count as file pages, including private copies (`anon=`),
//! whose node the kernel does not report separately. The number of those copies is reported.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::Verdict;
use crate::report;
use crate::unit::PAGE;

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The process
    #[arg(long)]
    pid: u32,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    report: String,
}

/// Pages of 4 KiB on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Pages {
    anon_pages: u64,
    file_pages: u64,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Report {
    pid: u32,
    /// By node.
    nodes: BTreeMap<u32, Pages>,
    anon_pages: u64,
    file_pages: u64,
    /// Private copies among `file_pages`.
    anon_pages_of_files: u64,
    mappings: u64,
}

fn parse(pid: u32, text: &str) -> Report {
    let mut report = Report { pid, ..Report::default() };
    for line in text.lines() {
        let fields = || line.split_ascii_whitespace().skip(2);
        let value = |name: &str| {
            fields().find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        // Hugetlb mappings count in their own page size, which they state.
        let small = value("kernelpagesize_kB").unwrap_or(4u64) * 1024 / PAGE as u64;
        let of_file = fields().any(|field| field.starts_with("file="));
        report.mappings += 1;
        if of_file {
            report.anon_pages_of_files += value("anon").unwrap_or(0) * small;
        }
        for field in fields() {
            let Some((node, pages)) = field.strip_prefix('N').and_then(|f| f.split_once('='))
            else {
                continue;
            };
            let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) else { continue };
            let pages = pages * small;
            let here = report.nodes.entry(node).or_default();
            if of_file {
                here.file_pages += pages;
                report.file_pages += pages;
            } else {
                here.anon_pages += pages;
                report.anon_pages += pages;
            }
        }
    }
    report
}

pub fn run(args: &Args) -> Result<Verdict> {
    let path = format!("/proc/{}/numa_maps", args.pid);
    // File names in it need not be UTF-8.
    let text = std::fs::read(&path)
        .with_context(|| format!("cannot read {path}; is the process alive, and are you root?"))?;
    report::write(&args.report, &parse(args.pid, &String::from_utf8_lossy(&text)))?;
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_numa_maps() {
        let text = "\
55d0 default file=/usr/bin/N9=x mapped=20 active=0 N0=15 N1=5 kernelpagesize_kB=4
55d1 default file=/usr/bin/x anon=2 dirty=2 N0=3 kernelpagesize_kB=4
7f00 prefer:1 anon=179200 dirty=179200 N0=1000 N1=178200 kernelpagesize_kB=4
7f10 default file=/anon_hugepage\\040(deleted) huge dirty=2 N1=2 kernelpagesize_kB=2048
7ffd default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
7ffe default
";
        let report = parse(1, text);
        assert_eq!(report.nodes[&0], Pages { anon_pages: 1003, file_pages: 18 });
        assert_eq!(report.nodes[&1], Pages { anon_pages: 178_200, file_pages: 5 + 1024 });
        assert_eq!((report.anon_pages, report.file_pages), (179_203, 1047));
        assert_eq!((report.anon_pages_of_files, report.mappings), (2, 6));
    }
}
