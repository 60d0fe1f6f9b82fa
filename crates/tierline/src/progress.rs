// SPDX-License-Identifier: Apache-2.0
//! How far many runs are: a bar where stderr is a terminal, else a line every tenth of them, as logs like it.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use crate::print;

/// What is shown of the runs.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Nothing yet.
    pub fn new() -> Self {
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs, {eta} left");
        let bar = stderr().is_terminal().then(|| ProgressBar::new(0));
        Self(bar.zip(style.ok()).map(|(bar, style)| bar.with_style(style)))
    }

    /// So many are done, of how many.
    pub fn said(&self, done: usize, of: usize) {
        match &self.0 {
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
}

impl Drop for Progress {
    /// What was computed is printed where the bar was.
    fn drop(&mut self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}
