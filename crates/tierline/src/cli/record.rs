// SPDX-License-Identifier: Apache-2.0
//! `tierline record`: records a program's accesses as a trace.

use std::cell::{Ref, RefCell};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Result;
use clap::{ArgGroup, Args};
use tierline_core::port::{Observations, Sample};
use tierline_core::unit::Nanos;
use tierline_linux::tracker::TrackerEntry;
use tierline_trace::page_set::PageSet;
use tierline_trace::tally::Tally;
use tierline_trace::{Evidence, Header, Writer};

use super::watch::{WatchArgs, Watcher};
use super::{FOUND, Globals};
use crate::config::value::Text;
use crate::output::emptied;
use crate::report_error::{self, ErrorWithHint};

/// Record which pages a program accesses
///
/// Nothing is moved. The best tracker of this kernel is used and named; one memory node is enough. An epoch contains
/// the number of observed accesses of every page, and one access of each page that has got into memory. The trace
/// ends with the program, or at Ctrl-C; if it is cut off in another way, all complete epochs can be read.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("targets").required(true).multiple(true))]
#[command(after_help = "Example: tierline record -o app.trace --epoch 500ms -- ./app --size 2G")]
pub struct RecordArgs {
    /// File of the trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Length of an epoch
    #[arg(long, value_name = "TIME", default_value = "1s")]
    epoch: Text<Nanos>,
    #[command(flatten)]
    watch: WatchArgs,
}

impl RecordArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let outcome = Rc::new(RefCell::default());
        let status = self.watch.run(globals, |tracker| {
            RunningRecording::new(tracker, &self.output, self.epoch.0, Rc::clone(&outcome))
        })?;
        let outcome: Ref<'_, RecordingReport> = outcome.borrow();
        match &outcome.wrong {
            Some(why) => {
                let hint = "is the disk full? `tierline trace info` shows what was written";
                let error = ErrorWithHint::error(format!("{}: {why}", self.output.display()), hint);
                report_error::print(&error);
                Ok(FOUND)
            }
            None => {
                let file = self.output.display();
                self.watch
                    .messages()
                    .print(&format!("{file}: {} observed accesses", outcome.samples));
                Ok(status)
            }
        }
    }
}

/// The result of a recording.
#[derive(Default)]
struct RecordingReport {
    samples: u64,
    wrong: Option<String>,
}

/// A running recording.
struct RunningRecording {
    evidence: Evidence,
    tally: Option<Tally<BufWriter<File>>>,
    /// All pages so far.
    pages: PageSet,
    epoch: Nanos,
    /// The times of the start and of the last observation.
    started: Option<(Nanos, Nanos)>,
    outcome: Rc<RefCell<RecordingReport>>,
}

impl RunningRecording {
    fn new(
        tracker: &str,
        output: &Path,
        epoch: Nanos,
        outcome: Rc<RefCell<RecordingReport>>,
    ) -> Result<Self> {
        // A sampler's hits are numbers of accesses; other trackers only report that there was one.
        let sampled = TrackerEntry::find(tracker).is_ok_and(|entry| entry.samples);
        let evidence = if sampled { Evidence::Sampled } else { Evidence::Touched };
        let file = emptied(output)?;
        let header = Header::new(evidence, format!("tierline record, {tracker}"));
        let writer = Writer::new(BufWriter::new(file), &header)?;
        let tally = Some(Tally::new(writer, epoch.0));
        let pages = PageSet::default();
        Ok(Self { evidence, tally, pages, epoch, started: None, outcome })
    }
}

/// The number of accesses per sample: a sampler watches 1/period of the time.
fn period(elapsed: Nanos, seen: &Observations) -> u32 {
    let period = elapsed.0.checked_div(seen.watched.0).unwrap_or(1);
    u32::try_from(period).unwrap_or(u32::MAX).max(1)
}

fn count(
    tally: &mut Tally<BufWriter<File>>,
    pages: &mut PageSet,
    sample: &Sample,
    stands_for: u32,
) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "hits are few, and the cast saturates"
    )]
    let hits = (sample.hits.max(1.0) as u32).saturating_mul(stands_for);
    let (reads, writes) = if sample.write == Some(true) { (0, hits) } else { (hits, 0) };
    let first = sample.vpn.0;
    for page in first..first.saturating_add(u64::from(sample.base_pages)) {
        tally.add(sample.space.0, page, reads, writes);
        pages.add(sample.space.0, page);
    }
}

impl Watcher for RunningRecording {
    fn observe(&mut self, now: Nanos, seen: &Observations) {
        let (start, before) = *self.started.get_or_insert((now, now));
        self.started = Some((start, now));
        let sampled = self.evidence == Evidence::Sampled;
        let stands_for = if sampled { period(now - before, seen) } else { 1 };
        let Some(tally) = &mut self.tally else { return };
        for sample in &seen.samples {
            count(tally, &mut self.pages, sample, stands_for);
        }
        // A page gets into memory by an access, which no window may have seen.
        for run in &seen.residence {
            let (space, first) = (run.space.0, run.vpn.0);
            for page in first..first.saturating_add(u64::from(run.base_pages)) {
                if self.pages.add(space, page) {
                    tally.add(space, page, 1, 0);
                }
            }
        }
        let mut outcome = self.outcome.borrow_mut();
        outcome.samples += seen.samples.len() as u64;
        if let Err(error) = tally.at((now - start).0) {
            outcome.wrong = Some(error.to_string());
            self.tally = None;
        }
    }

    fn next_due(&self) -> Nanos {
        self.started.map_or(Nanos::ZERO, |(_, last)| last + self.epoch)
    }

    fn finish(mut self) {
        if let (Some(tally), Some((start, last))) = (self.tally.take(), self.started)
            && let Err(error) = tally.finish((last - start).0)
        {
            self.outcome.borrow_mut().wrong = Some(error.to_string());
        }
    }
}
