// SPDX-License-Identifier: Apache-2.0
//! Options of commands that run many scenarios: on how many threads, for how long, and what is kept.

use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::Args;
use tierline_model::runner::{Archive, Runner};

use super::FOUND;
use crate::kept::Kept;
use crate::progress::Progress;

/// How many runs are made.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Threads to run with; as many as there are cores, if left out
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Keep the reports of all runs here, and run nothing again that this build of tierline has run: what takes hours
    /// can be interrupted and resumed
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Begin no run after this time; what is not complete by then is left out, and said to be
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
}

impl RunsArgs {
    /// Does `work` with a runner that shows progress; also the exit status, which says whether Ctrl-C ended it early.
    pub fn watched<T>(&self, work: impl FnOnce(&Runner<'_>) -> Result<T>) -> Result<(T, u8)> {
        let kept = self.keep.as_ref().map(Kept::open).transpose()?;
        let threads =
            self.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let progress = Progress::new(threads, self.minutes)?;
        let archive = kept.as_ref().map(|kept| kept as &dyn Archive);
        let done = work(&Runner { threads, archive, observer: &progress })?;
        Ok((done, if progress.was_interrupted() { FOUND } else { 0 }))
    }
}
