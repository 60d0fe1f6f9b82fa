// SPDX-License-Identifier: Apache-2.0
//! Options of commands that run many scenarios: threads, time limit, and the folder of kept reports.

use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use tierline_model::runner::{Archive, Runner};

use super::FOUND;
use crate::progress::Progress;
use crate::report_cache::ReportCache;

/// How the runs are made.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Number of threads [default: number of cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Keep the reports of all runs here, and reuse those of the same build of tierline: a run of hours can be
    /// interrupted and resumed
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Start no run after this time; incomplete results are left out and reported as such
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
}

impl RunsArgs {
    /// Does `work` with a runner that shows progress; also returns the exit status, which is 1 after Ctrl-C.
    pub fn watched<T>(&self, work: impl FnOnce(&Runner<'_>) -> Result<T>) -> Result<(T, u8)> {
        let kept = self.keep.as_ref().map(ReportCache::open).transpose()?;
        let threads =
            self.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let progress = Progress::new(threads, self.minutes)?;
        let archive = kept.as_ref().map(|kept| kept as &dyn Archive);
        let done = work(&Runner { threads, archive, observer: &progress })?;
        Ok((done, if progress.was_interrupted() { FOUND } else { 0 }))
    }
}
