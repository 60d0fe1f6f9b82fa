// SPDX-License-Identifier: Apache-2.0
//! `tierline trace`: converts, inspects, plots, cuts and merges memory traces.

use std::io::{BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use tierline_core::unit::{Bytes, Nanos};
use tierline_trace::cache::Geometry;
use tierline_trace::convert::{FORMATS, Format, Options};
use tierline_trace::survey::Survey;
use tierline_trace::{Block, Error, Reader, edit};

use super::{FOUND, Globals};
use crate::config::value::Text;
use crate::output::OutputFile;
use crate::plot::heat;
use crate::print::{self, row};
use crate::recording::{not_a_trace, open, survey};
use crate::report_error::{self, ErrorWithHint};

/// Convert, inspect, plot, cut and merge memory traces
///
/// A trace lists which pages a program read and wrote, epoch by epoch; docs/design/trace-format.md describes the
/// format. `tierline record` writes traces, `tierline sim --trace` replays them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline trace convert --from lackey lackey.txt app.trace\n\
  \x20 tierline trace info app.trace\n\
  \x20 tierline trace cut app.trace --start 10s --end 20s -o part.trace")]
pub struct TraceArgs {
    #[command(subcommand)]
    what: TraceVerb,
}

#[derive(Debug, Subcommand)]
enum TraceVerb {
    Convert(Convert),
    /// Summarise a trace; exit status 1 if it is truncated or damaged
    #[command(after_help = "Example: tierline trace info app.trace")]
    Info {
        /// The trace
        file: PathBuf,
    },
    /// Draw a heat map: accessed memory over time
    #[command(after_help = "Example: tierline trace plot app.trace -o heat.svg")]
    Plot {
        /// The trace
        file: PathBuf,
        /// File of the picture
        #[arg(short, long, value_name = "FILE.svg")]
        output: PathBuf,
    },
    /// Copy an interval of a trace to a new one
    #[command(
        after_help = "Example: tierline trace cut app.trace --start 10s --end 20s -o part.trace"
    )]
    Cut {
        /// The trace
        file: PathBuf,
        /// Start of the interval, as in 1.5s
        #[arg(long, value_name = "TIME", default_value = "0s")]
        start: Text<Nanos>,
        /// End of the interval [default: the end of the trace]
        #[arg(long, value_name = "TIME")]
        end: Option<Text<Nanos>>,
        /// File of the new trace
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Merge traces into one, as if their programs had started together
    #[command(after_help = "Example: tierline trace merge redis.trace sqlite.trace -o both.trace")]
    Merge {
        /// The traces
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// File of the merged trace
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

/// Convert another tool's output to a trace
///
/// Raw accesses (lackey, dynamorio, oracle-general) pass through a model of a last-level cache, so the trace contains
/// only what reaches memory, on a modelled clock: 0.3 ns per instruction, 80 ns per line.
#[derive(Debug, Args)]
#[command(after_help = formats())]
struct Convert {
    /// The tool that wrote the input
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(FORMATS.iter().map(|f| f.name)))]
    from: String,
    /// The input file; - is stdin
    input: PathBuf,
    /// File of the trace; - is stdout
    output: PathBuf,
    /// Length of an epoch; formats with their own epochs keep them
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    epoch: Text<Nanos>,
    /// Size of the cache before memory, a power of two; 0: none
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    llc: Text<Bytes>,
    /// Lines per set of that cache, a power of two
    #[arg(long, value_name = "N", default_value_t = 16)]
    ways: u64,
    /// Size of the trace's pages, a power of two
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    page: Text<Bytes>,
}

fn formats() -> String {
    let line = |format: &Format| format!("  {:<16}{}\n", format.name, format.about);
    let formats: String = FORMATS.iter().map(line).collect();
    format!(
        "Formats:\n{formats}\nExample: tierline trace convert --from lackey lackey.txt app.trace"
    )
}

#[derive(Serialize)]
struct Info {
    file: String,
    source: String,
    evidence: &'static str,
    page_bytes: Bytes,
    epochs: u64,
    seconds: f64,
    records: u64,
    reads: u64,
    writes: u64,
    accesses: Option<u64>,
    spaces: usize,
    touched_bytes: Bytes,
    file_bytes: Bytes,
    error: Option<String>,
}

impl TraceArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        match &self.what {
            TraceVerb::Convert(convert) => convert.run(globals),
            TraceVerb::Info { file } => info(file, globals),
            TraceVerb::Plot { file, output } => {
                let to = OutputFile::svg(output)?;
                let survey = survey(file)?;
                to.text(&heat::picture(&survey, open(file)?, &file.display().to_string())?)?;
                written(output, globals)
            }
            TraceVerb::Cut { file, start, end, output } => {
                let end = end.as_ref().map_or(Nanos(u64::MAX), |end| end.0);
                if start.0 >= end {
                    return Err(ErrorWithHint::error(
                        format!("--start {} is not before --end {end}", start.0),
                        "times count from the start of the trace, as in --start 1s --end 10s",
                    ));
                }
                let mut out = OutputFile::create(output)?.binary()?;
                let result = edit::cut(open(file)?, &mut out, start.0.0..end.0);
                let nothing = || {
                    let until = if end.0 == u64::MAX { "its end".into() } else { end.to_string() };
                    format!("{}: no access between {} and {until}", file.display(), start.0)
                };
                made(file, result, out, nothing)?.report(output, globals)
            }
            TraceVerb::Merge { files, output } => {
                let inputs = files.iter().map(|file| open(file)).collect::<Result<Vec<_>>>()?;
                let mut out = OutputFile::create(output)?.binary()?;
                let result = edit::merge(inputs, &mut out);
                let nothing = || "these traces contain no accesses".into();
                made(&files[0], result, out, nothing)?.report(output, globals)
            }
        }
    }
}

/// The result of making a trace.
enum Made {
    /// All of it.
    Whole,
    /// The part before this error.
    UpTo(anyhow::Error),
}

impl Made {
    /// Reports the result.
    fn report(self, output: &Path, globals: &Globals) -> Result<u8> {
        match self {
            Self::Whole => written(output, globals),
            Self::UpTo(error) => {
                report_error::print(&anyhow!(
                    "{error:#}; {} contains everything before the error",
                    output.display()
                ));
                Ok(FOUND)
            }
        }
    }
}

/// Keeps a new trace if it contains an access.
///
/// # Errors
/// If it contains none, the error says why.
fn made(
    source: &Path,
    result: Result<(), Error>,
    mut out: OutputFile,
    nothing: impl Fn() -> String,
) -> Result<Made> {
    if let Err(Error::Usage(why)) = result {
        return Err(ErrorWithHint::error(
            why,
            "`tierline trace info FILE` shows what each contains",
        ));
    }
    let holds = holds_pages(out.reopen()?);
    match result {
        Err(error) if !holds => Err(not_a_trace(source, &error)),
        _ if !holds => Err(ErrorWithHint::error(
            nothing(),
            "`tierline trace info FILE` shows what a trace contains; nothing was written",
        )),
        Ok(()) => out.keep().map(|()| Made::Whole),
        Err(error) => {
            out.keep()?;
            Ok(Made::UpTo(anyhow!("{}: {error}", source.display())))
        }
    }
}

/// True if a trace has an access to a page.
fn holds_pages(trace: impl Read) -> bool {
    let Ok(mut reader) = Reader::new(BufReader::new(trace)) else { return false };
    loop {
        match reader.next() {
            Ok(Some(Block::Pages { records, .. })) if !records.is_empty() => return true,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return false,
        }
    }
}

/// With `--json`, prints the name of the written file, unless stdout is that file.
fn written(output: &Path, globals: &Globals) -> Result<u8> {
    #[derive(Serialize)]
    struct Written<'a> {
        file: &'a Path,
    }
    if globals.json && output != Path::new("-") {
        print::json(&Written { file: output })?;
    }
    Ok(0)
}

impl Convert {
    fn run(&self, globals: &Globals) -> Result<u8> {
        let format = Format::find(&self.from).context("no such format")?;
        let page = self.page.0.0;
        let page_bits = u8::try_from(page.trailing_zeros()).unwrap_or(0);
        if !page.is_power_of_two() || !(6..=30).contains(&page_bits) {
            let hint = "say 4K or 2M";
            return Err(ErrorWithHint::error(format!("{page} bytes is not a page size"), hint));
        }
        let geometry = Geometry { bytes: self.llc.0.0, ways: self.ways };
        let cache = Some(geometry).filter(|geometry| geometry.bytes > 0);
        let options = Options { epoch_ns: self.epoch.0.0, cache, page_bits };
        let mut input: Box<dyn BufRead> = match self.input.to_str() {
            Some("-") => Box::new(BufReader::with_capacity(1 << 16, stdin())),
            _ => Box::new(open(&self.input)?),
        };
        let mut out = OutputFile::create(&self.output)?.binary()?;
        let result = format.convert(&mut input, &options, &mut out);
        let nothing = || {
            format!("{}: no access to memory in the format of {}", self.input.display(), self.from)
        };
        made(&self.input, result, out, nothing)?.report(&self.output, globals)
    }
}

fn info(file: &Path, globals: &Globals) -> Result<u8> {
    let (survey, wrong) = Survey::take(open(file)?).map_err(|error| not_a_trace(file, &error))?;
    let page_bytes = Bytes(1 << survey.header.page_bits);
    let info = Info {
        file: file.display().to_string(),
        source: survey.header.source.clone(),
        evidence: survey.header.evidence.name(),
        page_bytes,
        epochs: survey.epochs,
        seconds: Nanos(survey.ns).as_secs_f64(),
        records: survey.records,
        reads: survey.reads,
        writes: survey.writes,
        accesses: Some(survey.accesses).filter(|&accesses| accesses > 0),
        spaces: survey.spaces.len(),
        touched_bytes: Bytes(survey.pages.len() * page_bytes.0),
        file_bytes: Bytes(survey.bytes),
        error: wrong.as_ref().map(ToString::to_string),
    };
    match globals.json {
        true => print::json(&info)?,
        false => print::out(&describe(&info))?,
    }
    if let (Some(error), false) = (&info.error, globals.json) {
        report_error::print(&anyhow!("{}: {error}; above is the part before the error", info.file));
    }
    Ok(if info.error.is_some() { FOUND } else { 0 })
}

fn describe(info: &Info) -> String {
    let rows = [
        row(["source", &info.source]),
        row(["evidence", info.evidence]),
        row(["pages of", &info.page_bytes.to_string()]),
        row(["time", &format!("{:.3} s in {} epochs", info.seconds, info.epochs)]),
        row(["records", &info.records.to_string()]),
        row(["lines", &format!("{} read, {} written", info.reads, info.writes)]),
        row(["accesses", &print::or_dash(info.accesses)]),
        row(["touched", &format!("{} in {} spaces", info.touched_bytes, info.spaces)]),
        row(["file", &info.file_bytes.to_string()]),
    ];
    print::table(&rows)
}
