// SPDX-License-Identifier: Apache-2.0
//! Progress of many runs: a bar if stderr is a terminal, otherwise a line after every tenth of them, for logs. Ctrl-C
//! and a time limit end them early: present runs are finished, no further one starts.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use tierline_core::unit::Nanos;
use tierline_model::parallel::Observer;

use crate::clock::now;
use crate::print;

/// Longer work is announced.
const LONG: Nanos = Nanos::from_secs(20);
/// The exit status of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Watches the runs of a command.
pub struct Progress {
    bar: Option<ProgressBar>,
    threads: u64,
    deadline: Option<Nanos>,
    interrupted: Arc<AtomicBool>,
}

impl Progress {
    /// Progress of runs on `threads` threads; none starts after `minutes` minutes.
    pub fn new(threads: usize, minutes: Option<f64>) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // The first Ctrl-C is a request, the second ends the program. The order matters: the first must not see its
        // own flag.
        flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&interrupted))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupted)))
            .context("cannot handle Ctrl-C")?;
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {eta} left");
        let bar = stderr().is_terminal().then(|| ProgressBar::new(0));
        Ok(Self {
            bar: bar.zip(style.ok()).map(|(bar, style)| bar.with_style(style)),
            threads: threads.max(1) as u64,
            deadline: minutes.map(|minutes| now() + Nanos::from_secs_f64(minutes * 60.0)),
            interrupted,
        })
    }

    /// Whether Ctrl-C was pressed.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl Observer for Progress {
    fn begin(&self, runs: usize, cpu: Nanos) {
        let lasts = Nanos(cpu.0 / self.threads);
        if lasts >= LONG && !self.stops() {
            let minutes = lasts.as_secs_f64() / 60.0;
            let text =
                format!("{runs} runs, about {minutes:.1} minutes; Ctrl-C prints the finished runs");
            print::to_stderr(&format!("tierline: {text}"));
        }
        self.bar.iter().for_each(ProgressBar::reset);
    }

    fn done(&self, done: usize, of: usize) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
            }
            None if done.is_multiple_of(of.div_ceil(10).max(1)) || done == of => {
                print::to_stderr(&format!("tierline: {done} of {of} runs"));
            }
            None => {}
        }
    }

    fn stops(&self) -> bool {
        self.was_interrupted() || self.deadline.is_some_and(|deadline| now() >= deadline)
    }
}

impl Drop for Progress {
    /// Removes the bar; results are printed in its place.
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
