// SPDX-License-Identifier: Apache-2.0
//! The trace: guest frames read and written, by epoch of the modelled clock.

use std::fs::File;
use std::io::BufWriter;

use tierline_trace::cache::Effect;
use tierline_trace::tally::Tally;
use tierline_trace::{Evidence, Header, Result, Writer};

use crate::args::Args;
use crate::vcpu::PAGE_BYTES;

/// Misses between two readings of the clock, which requires summing over all vCPUs.
const CLOCK_EVERY: u32 = 1024;

/// Writes the trace of all vCPUs. A write error ends the trace and is reported once.
pub struct Recorder {
    tally: Option<Tally<BufWriter<File>>>,
    taken: u32,
}

impl Recorder {
    /// The recorder, if the arguments request one.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub fn open(args: &Args) -> Result<Option<Recorder>, String> {
        let Some(path) = &args.trace else { return Ok(None) };
        let wrong = |error: &dyn std::fmt::Display| format!("`trace={}`: {error}", path.display());
        let file = File::create(path).map_err(|error| wrong(&error))?;
        let (bytes, ways) = (args.llc.bytes, args.llc.ways);
        let source =
            format!("lab plugin: guest frames behind a cache of {bytes} bytes, {ways} ways");
        let header = Header::new(Evidence::Counted, source);
        let writer = Writer::new(BufWriter::new(file), &header).map_err(|error| wrong(&error))?;
        let tally = Tally::new(writer, args.epoch_ms.saturating_mul(1_000_000));
        Ok(Some(Recorder { tally: Some(tally), taken: 0 }))
    }

    /// Records the effect of an access at `phys`; `now` returns the modelled clock, ns.
    pub fn take(&mut self, phys: u64, effect: Effect, now: impl FnOnce() -> u64) {
        let Some(tally) = &mut self.tally else { return };
        if effect.read {
            tally.add(0, phys / PAGE_BYTES, 1, 0);
        }
        if let Some(phys) = effect.written {
            tally.add(0, phys / PAGE_BYTES, 0, 1);
        }
        self.taken += 1;
        if self.taken.is_multiple_of(CLOCK_EVERY) {
            let result = tally.at(now());
            self.report_failure(result);
        }
    }

    /// Writes the rest of the trace.
    pub fn finish(&mut self, now: u64) {
        if let Some(tally) = self.tally.take() {
            let result = tally.finish(now).map(drop);
            self.report_failure(result);
        }
    }

    fn report_failure(&mut self, result: Result<()>) {
        if let Err(error) = result {
            eprintln!("lab-plugin: cannot write the trace, which ends here: {error}");
            self.tally = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierline_trace::survey::Survey;

    #[test]
    fn epochs_follow_the_modelled_clock() {
        let path = std::env::temp_dir().join(format!("lab-plugin-{}-trace", std::process::id()));
        let trace = format!("trace={}", path.display());
        let args = Args::parse(["out=o", &trace, "epoch_ms=1"]).unwrap();
        let mut recorder = Recorder::open(&args).unwrap().unwrap();
        let effect = Effect { read: true, written: Some(5 * PAGE_BYTES) };
        // The clock is read every 1024 misses; it advances by 400 us between two readings.
        let mut now = 0;
        for miss in 0..4096 {
            recorder.take(miss % 3 * PAGE_BYTES, effect, || {
                now += 400_000;
                now
            });
        }
        recorder.finish(now);
        let (survey, wrong) = Survey::take(File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(wrong.is_none());
        assert_eq!((survey.reads, survey.writes, survey.pages.len()), (4096, 4096, 4));
        assert_eq!((survey.epochs, survey.ns), (2, 1_600_000));
    }
}
