// SPDX-License-Identifier: Apache-2.0
//! `ask`: requests to a service over HTTP, at a rate that does not depend on its answers, and how long each took.
//!
//! An answer with status 200 is served; one with 429 or 503 is shed, which must be as quick.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::Verdict;
use crate::report;
use crate::unit::Span;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// The service
    #[arg(long)]
    address: SocketAddr,
    /// The path
    #[arg(long, default_value = "/metrics")]
    path: String,
    /// Requests
    #[arg(long, default_value_t = 100)]
    requests: u32,
    /// The time between two of them
    #[arg(long, default_value = "100ms")]
    #[serde(rename = "every_seconds")]
    every: Span,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    parameters: &'a Args,
    elapsed_seconds: f64,
    /// Answers by status; 0: none.
    answers: BTreeMap<u16, usize>,
    served: Times,
    shed: Times,
}

/// Seconds from the start of a connection to the end of its answer.
#[derive(Serialize)]
struct Times {
    median: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    most: Option<f64>,
}

impl Times {
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            seconds.get((seconds.len() * percent / 100).min(seconds.len().saturating_sub(1)))
        };
        let [median, p95, p99] = [50, 95, 99].map(|percent| at(percent).copied());
        Self { median, p95, p99, most: seconds.last().copied() }
    }
}

pub fn run(args: &Args) -> Result<Verdict> {
    let begun = Instant::now();
    let mut answers: BTreeMap<u16, usize> = BTreeMap::new();
    let (mut served, mut shed) = (Vec::new(), Vec::new());
    for at in 0..args.requests {
        let due = begun + args.every.0 * at;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        let status = ask(args).unwrap_or(0);
        *answers.entry(status).or_default() += 1;
        let times = if status == 200 { &mut served } else { &mut shed };
        times.push(asked.elapsed().as_secs_f64());
    }
    anyhow::ensure!(!served.is_empty(), "{} answered nothing", args.address);
    let (served, shed) = (Times::of(served), Times::of(shed));
    let elapsed_seconds = begun.elapsed().as_secs_f64();
    let load = "ask";
    report::write(
        &args.report,
        &Report { load, parameters: args, elapsed_seconds, answers, served, shed },
    )
    .context("the report")?;
    Ok(Verdict::Good)
}

/// The status of the answer, once it has been read to its end.
fn ask(args: &Args) -> io::Result<u16> {
    let mut stream = TcpStream::connect(args.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", args.path);
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    // A caller that is turned away at once may find the connection reset.
    let _ = stream.read_to_end(&mut answer);
    let status = answer.get(9..12).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    status.ok_or_else(|| io::Error::other("no answer"))
}
