// SPDX-License-Identifier: Apache-2.0
//! `tierline trace`: memory traces: made from other tools' output, looked at, cut, merged.

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
use crate::letter::{self, Hinted};
use crate::output::Output;
use crate::plot::heat;
use crate::print::{self, row};
use crate::recording::{not_a_trace, open, survey};

/// Convert, inspect, plot, cut and merge memory traces
///
/// A trace says which pages a program read and wrote, epoch by epoch; docs/design/trace-format.md has its format.
/// `tierline record` makes one, `tierline sim --trace` replays it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline trace convert --from lackey lackey.txt app.trace\n\
  \x20 tierline trace info app.trace\n\
  \x20 tierline trace cut app.trace --start 10s --end 20s -o part.trace")]
pub struct TraceArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Convert(Convert),
    /// Say what is in a trace; exit status 1 where it is cut short or damaged
    #[command(after_help = "Example: tierline trace info app.trace")]
    Info {
        /// The trace
        file: PathBuf,
    },
    /// Draw a heat map: touched memory by time
    #[command(after_help = "Example: tierline trace plot app.trace -o heat.svg")]
    Plot {
        /// The trace
        file: PathBuf,
        /// Where the picture goes
        #[arg(short, long, value_name = "FILE.svg")]
        output: PathBuf,
    },
    /// Take a stretch of time out of a trace
    #[command(
        after_help = "Example: tierline trace cut app.trace --start 10s --end 20s -o part.trace"
    )]
    Cut {
        /// The trace
        file: PathBuf,
        /// From then on, as in 1.5s
        #[arg(long, value_name = "TIME", default_value = "0s")]
        start: Text<Nanos>,
        /// Until then [default: the end]
        #[arg(long, value_name = "TIME")]
        end: Option<Text<Nanos>>,
        /// Where it goes
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Put traces side by side, as if their programs had started together
    #[command(after_help = "Example: tierline trace merge redis.trace sqlite.trace -o both.trace")]
    Merge {
        /// The traces
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where the one goes
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}

/// Make a trace of another tool's output
///
/// Raw accesses (lackey, dynamorio, oracle-general) pass a model of a last-level cache, so that the trace has
/// what reaches memory, on a modelled clock: 0.3 ns an instruction, 80 ns a line.
#[derive(Debug, Args)]
#[command(after_help = formats())]
struct Convert {
    /// What wrote the input
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(FORMATS.iter().map(|f| f.name)))]
    from: String,
    /// What it wrote; - is stdin
    input: PathBuf,
    /// Where the trace goes; - is stdout
    output: PathBuf,
    /// Length of an epoch; formats with epochs of their own keep those
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    epoch: Text<Nanos>,
    /// Size of the cache before memory, a power of two; 0: none
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    llc: Text<Bytes>,
    /// Its lines a set, a power of two
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
            What::Convert(convert) => convert.run(globals),
            What::Info { file } => info(file, globals),
            What::Plot { file, output } => {
                let to = Output::svg(output)?;
                let survey = survey(file)?;
                to.text(&heat::picture(&survey, open(file)?, &file.display().to_string())?)?;
                written(output, globals)
            }
            What::Cut { file, start, end, output } => {
                let end = end.as_ref().map_or(Nanos(u64::MAX), |end| end.0);
                if start.0 >= end {
                    return Err(Hinted::error(
                        format!("--start {} is not before --end {end}", start.0),
                        "times count from the beginning of the trace, as in --start 1s --end 10s",
                    ));
                }
                let mut out = Output::create(output)?.binary()?;
                let result = edit::cut(open(file)?, &mut out, start.0.0..end.0);
                let nothing = || {
                    let until = if end.0 == u64::MAX { "its end".into() } else { end.to_string() };
                    format!("{}: no access between {} and {until}", file.display(), start.0)
                };
                made(file, result, out, nothing)?.report(output, globals)
            }
            What::Merge { files, output } => {
                let inputs = files.iter().map(|file| open(file)).collect::<Result<Vec<_>>>()?;
                let mut out = Output::create(output)?.binary()?;
                let result = edit::merge(inputs, &mut out);
                let nothing = || "there is nothing in these traces".into();
                made(&files[0], result, out, nothing)?.report(output, globals)
            }
        }
    }
}

/// What came of making a trace.
enum Made {
    /// All of it.
    Whole,
    /// What came before this error.
    UpTo(anyhow::Error),
}

impl Made {
    /// Says so.
    fn report(self, output: &Path, globals: &Globals) -> Result<u8> {
        match self {
            Self::Whole => written(output, globals),
            Self::UpTo(error) => {
                letter::print(&anyhow!("{error:#}; {} has what came before", output.display()));
                Ok(FOUND)
            }
        }
    }
}

/// Keeps a trace that was made, if there is anything in it.
///
/// # Errors
/// Where there is not, and why not.
fn made(
    source: &Path,
    result: Result<(), Error>,
    mut out: Output,
    nothing: impl Fn() -> String,
) -> Result<Made> {
    if let Err(Error::Usage(why)) = result {
        return Err(Hinted::error(why, "`tierline trace info FILE` says what is in each"));
    }
    let holds = holds_pages(out.reopen()?);
    match result {
        Err(error) if !holds => Err(not_a_trace(source, &error)),
        _ if !holds => Err(Hinted::error(
            nothing(),
            "`tierline trace info FILE` says what is in a trace; nothing was written",
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

/// Says with `--json` which file was written; stdout may be that file.
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
            return Err(Hinted::error(format!("{page} bytes are no size of a page"), hint));
        }
        let geometry = Geometry { bytes: self.llc.0.0, ways: self.ways };
        let cache = Some(geometry).filter(|geometry| geometry.bytes > 0);
        let options = Options { epoch_ns: self.epoch.0.0, cache, page_bits };
        let mut input: Box<dyn BufRead> = match self.input.to_str() {
            Some("-") => Box::new(BufReader::with_capacity(1 << 16, stdin())),
            _ => Box::new(open(&self.input)?),
        };
        let mut out = Output::create(&self.output)?.binary()?;
        let result = format.convert(&mut input, &options, &mut out);
        let nothing = || {
            format!(
                "{}: there is no access to memory in it, as {} writes them",
                self.input.display(),
                self.from
            )
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
        letter::print(&anyhow!("{}: {error}; above is what came before", info.file));
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
