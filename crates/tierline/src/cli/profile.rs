// SPDX-License-Identifier: Apache-2.0
//! `tierline profile`: how much of a program's memory is in use, and how soon cold memory is used again.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Result;
use clap::{ArgGroup, Args};
use serde::Serialize;
use tierline_core::port::{
    Observations, PageKind, PageSize, Region, Sample, SpaceEvent, SpaceId, Vpn,
};
use tierline_core::telemetry::profile::{MemoryUse, Profile};
use tierline_core::unit::{Bytes, Nanos};
use tierline_model::cell::Cell;
use tierline_model::profile::profile;
use tierline_trace::page_set::MOST_PAGES;
use tierline_trace::survey::Survey;
use tierline_trace::{Block, Reader};

use super::Globals;
use super::names;
use super::watch::{WatchArgs, Watcher};
use crate::config::value::Text;
use crate::files::Disk;
use crate::print::{self, row};
use crate::recording::{not_a_trace, open, survey};
use crate::report_error::ErrorWithHint;

/// Report how hot a program's memory is
///
/// How much of it was used within the last intervals, by kind (private, file, shared), and how soon cold memory was
/// used again: a smaller fast memory would have to keep that. For running programs, a trace, or a workload on a
/// modelled machine. Nothing is moved, and one memory node is enough. Accesses that the tracker misses count as idle
/// time.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("targets").required(true).multiple(true))]
#[command(after_help = "Examples:\n\
  \x20 tierline profile --interval 60s --duration 1h -p 4242\n\
  \x20 tierline profile --trace redis.trace")]
pub struct ProfileArgs {
    /// A trace
    #[arg(long, value_name = "FILE", group = "targets", conflicts_with_all = ["pid", "cgroup", "command", "workload"])]
    trace: Option<PathBuf>,
    /// A workload on a modelled machine, with optional knobs, as in datacenter:app=web1, or a scenario file; may be repeated
    #[arg(long, value_name = "KIND[:KEY=VALUE,…]", value_parser = names::workload(), hide_possible_values = true, group = "targets", conflicts_with_all = ["pid", "cgroup", "command"])]
    workload: Vec<String>,
    /// The modelled machine, or a machine file [default: tpp, or the scenario's]
    #[arg(long, value_name = "NAME|FILE.toml", requires = "workload", value_parser = names::machine(), hide_possible_values = true)]
    machine: Option<String>,
    /// Simulated time of a workload
    #[arg(long, value_name = "S", default_value_t = 600.0, requires = "workload")]
    seconds: f64,
    /// Length of an interval [default: 60s; for a trace, 1/32 of its length]
    #[arg(long, value_name = "TIME")]
    interval: Option<Text<Nanos>>,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Serialize)]
struct Report {
    interval_seconds: f64,
    intervals: u32,
    /// All memory, then each kind if kinds are known.
    memory: Vec<MemoryUse>,
}

/// That of Chameleon's programs.
const MACHINE: &str = "tpp";
/// One minute, as in Chameleon.
const INTERVAL: Nanos = Nanos::from_secs(60);
/// Number of intervals in a trace.
const OF_A_TRACE: u64 = 32;
/// The most of them.
const MOST_INTERVALS: u64 = 10_000_000;

impl ProfileArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let interval = self.interval.as_ref().map(|time| time.0.max(Nanos(1)));
        if let Some(file) = &self.trace {
            let (interval, profile) = of_trace(file, interval)?;
            return print_report(interval, Found::of(&profile), false, globals);
        }
        let interval = interval.unwrap_or(INTERVAL);
        if !self.workload.is_empty() {
            let named = Cell::new(self.machine.as_deref(), &self.workload.join("+"));
            let own = named.file.is_none().then(|| MACHINE.to_string());
            let machine = named.machine.clone().or(own);
            let cell = Cell { machine, seconds: Some(self.seconds), ..named };
            let profile = profile(&cell.scenario(&Disk::default())?, interval)?;
            return print_report(interval, Found::of(&profile), true, globals);
        }
        let found = Rc::new(RefCell::default());
        let status =
            self.watch.run(globals, |_| Ok(RunningProfile::new(interval, Rc::clone(&found))))?;
        print_report(interval, found.take(), true, globals)?;
        Ok(status)
    }
}

/// The profile of a trace, and the length of its intervals.
fn of_trace(file: &Path, interval: Option<Nanos>) -> Result<(Nanos, Profile)> {
    let survey = survey(file)?;
    let interval = interval.unwrap_or(Nanos(survey.ns / OF_A_TRACE).max(Nanos(1)));
    let bits = survey.header.page_bits;
    check_size(file, &survey, interval)?;
    let mut profile = Profile::default();
    let mut seen = Observations::default();
    for (space, page) in survey.pages.iter() {
        let (start, base_pages) = base(page, bits);
        let region = Region {
            space: SpaceId(space),
            start,
            base_pages: base_pages.into(),
            size: PageSize::Base,
            kind: PageKind::Anonymous,
        };
        seen.space_events.push(SpaceEvent::Mapped(region));
    }
    profile.observe(&seen);
    let mut reader = Reader::new(open(file)?).map_err(|error| not_a_trace(file, &error))?;
    let (mut now, mut length, mut over) = (0_u64, 0, interval.0);
    // Its errors were reported by the survey.
    while let Ok(Some(block)) = reader.next() {
        match block {
            Block::Epoch(head) => {
                now = now.saturating_add(length);
                length = head.ns;
                while now >= over {
                    profile.end_interval();
                    over = over.saturating_add(interval.0);
                }
            }
            Block::Pages { space, records } => {
                seen.clear();
                seen.samples.extend(records.iter().map(|record| {
                    let (vpn, base_pages) = base(record.page, bits);
                    let space = SpaceId(space);
                    Sample {
                        space,
                        vpn,
                        base_pages,
                        hits: 1.0,
                        exposure: None,
                        tier: None,
                        write: None,
                    }
                }));
                profile.observe(&seen);
            }
        }
    }
    if now.saturating_add(length) > over - interval.0 {
        profile.end_interval();
    }
    Ok((interval, profile))
}

/// A page of a trace can be of any size, and an epoch of any length; a profile counts base pages and intervals.
fn check_size(file: &Path, survey: &Survey, interval: Nanos) -> Result<()> {
    let (file, more) = (file.display(), u32::from(survey.header.page_bits).saturating_sub(12));
    let pages = u128::from(survey.pages.len()) << more;
    if pages > MOST_PAGES.into() || survey.pages.iter().any(|(_, page)| page.leading_zeros() < more)
    {
        let text = format!("{file}: its pages of 2^{} bytes are {pages} base pages", 12 + more);
        let hint = format!("a profile has {MOST_PAGES} at most: make the trace of smaller pages");
        return Err(ErrorWithHint::error(text, hint));
    }
    if survey.ns / interval.0 > MOST_INTERVALS {
        let text =
            format!("{file}: it lasts {}, too many intervals of {interval}", Nanos(survey.ns));
        return Err(ErrorWithHint::error(text, "name a longer --interval"));
    }
    Ok(())
}

/// The base pages of a page of a trace.
fn base(page: u64, bits: u8) -> (Vpn, u32) {
    match bits.checked_sub(12) {
        Some(more) => (Vpn(page << more), 1 << more),
        None => (Vpn(page >> (12 - bits)), 1),
    }
}

/// The result of a profile.
#[derive(Default)]
struct Found {
    intervals: u32,
    memory: Vec<MemoryUse>,
}

impl Found {
    fn of(profile: &Profile) -> Self {
        Self { intervals: profile.intervals(), memory: profile.report() }
    }
}

/// A running profile.
struct RunningProfile {
    profile: Profile,
    interval: Nanos,
    /// The end of the interval.
    over: Option<Nanos>,
    /// The result at the last interval that had memory.
    found: Rc<RefCell<Found>>,
}

impl RunningProfile {
    fn new(interval: Nanos, found: Rc<RefCell<Found>>) -> Self {
        Self { profile: Profile::default(), interval, over: None, found }
    }

    fn keep(&self) {
        let found = Found::of(&self.profile);
        if found.memory.iter().any(|heat| heat.memory > Bytes::ZERO) {
            *self.found.borrow_mut() = found;
        }
    }

    /// Keeps a first interval that is shorter because the program ended.
    fn keep_short_interval(&mut self) {
        if self.profile.intervals() == 0 {
            self.profile.end_interval();
            self.keep();
        }
    }
}

impl Watcher for RunningProfile {
    fn observe(&mut self, now: Nanos, seen: &Observations) {
        // The memory of a program is gone when it ends, so its profile is kept first.
        if seen.space_events.iter().any(|event| matches!(event, SpaceEvent::Gone(_))) {
            self.keep_short_interval();
        }
        self.profile.observe(seen);
        let over = self.over.get_or_insert(now + self.interval);
        if now >= *over {
            *over += self.interval;
            self.profile.end_interval();
            self.keep();
        }
    }

    fn next_due(&self) -> Nanos {
        self.over.unwrap_or(Nanos::ZERO)
    }

    fn finish(mut self) {
        self.keep_short_interval();
    }
}

fn print_report(interval: Nanos, found: Found, kinds: bool, globals: &Globals) -> Result<u8> {
    let Found { intervals, mut memory } = found;
    memory.truncate(if kinds { memory.len() } else { 1 });
    let report = Report { interval_seconds: interval.as_secs_f64(), intervals, memory };
    match globals.json {
        true => print::json(&report)?,
        false => print::out(&describe(&report))?,
    }
    Ok(0)
}

fn describe(report: &Report) -> String {
    let time = |intervals: u32| {
        Nanos::from_secs_f64(report.interval_seconds * f64::from(intervals)).to_string()
    };
    let spans = || report.memory.iter().take(1).flat_map(|heat| &heat.within);
    let mut used = vec![row(["", "memory"])];
    let mut back = vec![row(["", "came back"])];
    used[0].extend(spans().map(|span| format!("in {}", time(span.intervals))));
    // The first column is skipped: within one interval, reuse cannot be distinguished from continuous use.
    back[0].extend(spans().skip(1).map(|span| format!("in {}", time(span.intervals))));
    for heat in &report.memory {
        let name = match heat.kind {
            None => "all",
            Some(PageKind::Anonymous) => "private",
            Some(PageKind::File) => "file",
            Some(PageKind::Shared) => "shared",
        };
        let within = heat.within.iter();
        let mut cells = row([name, &heat.memory.to_string()]);
        cells.extend(within.clone().map(|span| percent(span.used, heat.memory)));
        used.push(cells);
        let mut cells = row([name, &heat.came_back.to_string()]);
        cells.extend(within.skip(1).map(|span| percent(span.came_back, heat.came_back)));
        back.push(cells);
    }
    let (count, length) = (report.intervals, time(1));
    format!(
        "{}\n{}\n{count} intervals of {length}. Above: memory that was used within the last of them. Below: memory \
         used again after at least one unused interval, by the time since its last use.\n",
        print::table(&used),
        print::table(&back),
    )
}

fn percent(part: Bytes, all: Bytes) -> String {
    let permille = (part.0 * 1000).checked_div(all.0);
    permille.map_or("-".into(), |share| format!("{}.{} %", share / 10, share % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Nanos = Nanos::from_secs(1);

    fn seen(event: Option<SpaceEvent>, touched: u64) -> Observations {
        let space = SpaceId(7);
        let sample = |vpn| Sample {
            space,
            vpn: Vpn(vpn),
            base_pages: 1,
            hits: 1.0,
            exposure: None,
            tier: None,
            write: None,
        };
        Observations {
            space_events: event.into_iter().collect(),
            samples: (0..touched).map(sample).collect(),
            ..Observations::default()
        }
    }

    /// Of ten pages all are accessed in the first interval, and three in the second, in which the program ends.
    #[test]
    fn the_profile_of_an_ended_program_is_kept() {
        let region = Region {
            space: SpaceId(7),
            start: Vpn(0),
            base_pages: 10,
            size: PageSize::Base,
            kind: PageKind::Anonymous,
        };
        for whole in [0, 2] {
            let found = Rc::new(RefCell::default());
            let mut profiling = RunningProfile::new(INTERVAL, Rc::clone(&found));
            profiling.observe(Nanos(1), &seen(Some(SpaceEvent::Mapped(region)), 10));
            for second in 1..=whole {
                profiling.observe(INTERVAL * second + Nanos(1), &seen(None, 3));
            }
            let gone = SpaceEvent::Gone(SpaceId(7));
            profiling.observe(INTERVAL * (whole + 1), &seen(Some(gone), 0));
            profiling.finish();
            let found = found.take();
            let all = &found.memory[0];
            assert_eq!(all.memory, Bytes::from_base_pages(10));
            let last = if whole == 0 { 10 } else { 3 };
            assert_eq!(all.within[0].used, Bytes::from_base_pages(last), "{whole} intervals");
        }
    }
}
