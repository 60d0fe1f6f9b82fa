// SPDX-License-Identifier: Apache-2.0
//! `redis-client`: skewed GET and SET requests to a redis server over a unix socket.
//!
//! A real program whose hot data is not laid out on purpose: a seeded permutation scatters hot keys over the
//! key space, and the server's allocator scatters them over its heap. A value starts with its key, so each GET
//! checks that the server returns what was set. One connection, requests in batches (`--pipeline`). The latency
//! of a request is measured from the write of its batch to the read that completed its reply.
//!
//! At the jump, ranks are shifted by half of the key space: with a hot share of at most half, all hot keys are
//! new.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::Verdict;
use crate::histogram::{Histogram, Percentiles};
use crate::marker::{self, mark};
use crate::report;
use crate::resp::{self, Reply};
use crate::rng::{Rng, scale};
use crate::unit::{Bytes, Span, share};
use crate::zipf::Zipf;

/// Keys per batch while filling; large, as latency does not matter.
const FILL_BATCH: u32 = 64;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// The server's unix socket
    #[arg(long, default_value = "/tmp/redis.sock")]
    socket: PathBuf,
    /// Number of keys
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// Size of a value
    #[arg(long, default_value = "1K")]
    #[serde(rename = "value_bytes")]
    value: Bytes,
    /// Share of the keys that is hot
    #[arg(long, default_value = "0.1", value_parser = share)]
    hot_keys_share: f64,
    /// Share of the requests for hot keys; the others are for any key
    #[arg(long, default_value = "0.9", value_parser = share)]
    hot_share: f64,
    /// Zipf exponent over all keys, instead of a hot share
    #[arg(long)]
    zipf: Option<f64>,
    /// Share of the requests that are GET; the others are SET
    #[arg(long, default_value = "0.9", value_parser = share)]
    get_share: f64,
    /// Length of the measured phase
    #[arg(long, default_value = "60s")]
    #[serde(rename = "duration_seconds")]
    duration: Span,
    /// Number of requests, instead of a duration
    #[arg(long)]
    requests: Option<u64>,
    /// When other keys become hot
    #[arg(long)]
    #[serde(rename = "jump_seconds")]
    jump: Option<Span>,
    /// Requests in flight
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pipeline: u64,
    /// Set every key first
    #[arg(long)]
    load: bool,
    /// Set every key and stop
    #[arg(long)]
    load_only: bool,
    /// Seed of every random choice
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
    /// Interval of recording the number of requests
    #[arg(long, default_value = "1s")]
    #[serde(rename = "interval_seconds")]
    interval: Span,
    /// Wait for this file before the measured phase
    #[arg(long)]
    #[serde(skip)]
    start_file: Option<PathBuf>,
}

/// Chooses keys.
struct Keys {
    /// Key by rank; ranks below `hot` are hot.
    order: Vec<u32>,
    hot: u32,
    hot_share: u64,
    zipf: Option<Zipf>,
    /// Added to every rank after the jump.
    shift: u32,
}

impl Keys {
    #[expect(clippy::cast_possible_truncation, reason = "shares of u32 and of 2^32")]
    #[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
    fn new(n: u32, hot: f64, hot_share: f64, zipf: Option<f64>, rng: &mut Rng) -> Keys {
        Keys {
            order: rng.permutation(n),
            hot: ((f64::from(n) * hot).round() as u32).clamp(1, n),
            hot_share: (hot_share * 4_294_967_296.0) as u64,
            zipf: zipf.map(|s| Zipf::new(n, s)),
            shift: 0,
        }
    }

    fn jump(&mut self) {
        self.shift = self.len() / 2;
    }

    fn len(&self) -> u32 {
        u32::try_from(self.order.len()).expect("the length comes from a u32")
    }

    fn rank(&self, rng: &mut Rng) -> u32 {
        if let Some(zipf) = &self.zipf {
            return zipf.draw(rng);
        }
        let x = rng.next();
        let bound = if x & 0xffff_ffff < self.hot_share { self.hot } else { self.len() };
        scale(x >> 32, bound)
    }

    fn draw(&self, rng: &mut Rng) -> u32 {
        let rank = (self.rank(rng) as usize + self.shift as usize) % self.order.len();
        self.order[rank]
    }
}

/// A key's name.
fn name(key: u32) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let mut rest = key;
    for digit in name[4..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    name
}

/// Whether a GET of a key returned the expected value: its name, then filling.
fn is_value(key: u32, size: usize, value: &[u8]) -> bool {
    let name = name(key);
    let tagged = size.min(name.len());
    value.len() == size && value[..tagged] == name[..tagged]
}

/// A sent request, to check its reply.
#[derive(Clone, Copy)]
enum Request {
    Get(u32),
    Set,
}

/// Counts of replies.
#[derive(Default, Serialize)]
struct Answers {
    gets: u64,
    sets: u64,
    /// GETs of a key that the server did not have.
    misses: u64,
    /// GETs that returned something other than what was set.
    mismatches: u64,
}

/// One connection.
struct Client {
    stream: UnixStream,
    out: Vec<u8>,
    buffer: Vec<u8>,
    filled: usize,
    value: Vec<u8>,
}

impl Client {
    fn connect(args: &Args) -> Result<Client> {
        let stream = UnixStream::connect(&args.socket).with_context(|| {
            format!(
                "cannot connect to {}; start redis-server with --unixsocket",
                args.socket.display()
            )
        })?;
        let size = usize::try_from(args.value.0)?;
        ensure!(size > 0, "--value must be at least a byte");
        Ok(Client {
            stream,
            out: Vec::new(),
            buffer: vec![0; (2 * size).max(1 << 16)],
            filled: 0,
            value: vec![b'x'; size],
        })
    }

    fn set(&mut self, key: u32) {
        let name = name(key);
        let tagged = self.value.len().min(name.len());
        self.value[..tagged].copy_from_slice(&name[..tagged]);
        resp::encode(&mut self.out, &[b"SET", &name, &self.value]);
    }

    fn get(&mut self, key: u32) {
        resp::encode(&mut self.out, &[b"GET", &name(key)]);
    }

    /// Sends the encoded requests and reads the replies. Calls `completed` with the number of replies completed
    /// by each read.
    fn exchange(
        &mut self,
        requests: &[Request],
        answers: &mut Answers,
        mut completed: impl FnMut(u64),
    ) -> Result<()> {
        self.stream.write_all(&self.out).context("lost the connection to the server")?;
        self.out.clear();
        let mut open = requests.iter();
        while open.len() > 0 {
            let read = self.stream.read(&mut self.buffer[self.filled..])?;
            ensure!(read > 0, "the server closed the connection");
            self.filled += read;
            let (mut at, mut done) = (0, 0);
            while let Some((reply, used)) = resp::parse(&self.buffer[at..self.filled])? {
                let request = *open.next().context("the server sent more replies than requests")?;
                match (request, reply) {
                    (Request::Set, Reply::Simple(_)) => answers.sets += 1,
                    (Request::Get(key), Reply::Bulk(value)) => {
                        answers.gets += 1;
                        answers.mismatches += u64::from(!is_value(key, self.value.len(), value));
                    }
                    (Request::Get(_), Reply::Nil) => {
                        answers.gets += 1;
                        answers.misses += 1;
                    }
                    (_, Reply::Error(text)) => {
                        bail!("error from the server: {}", String::from_utf8_lossy(text))
                    }
                    (_, other) => bail!("an unexpected reply: {other:?}"),
                }
                at += used;
                done += 1;
            }
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.filled, 0);
            }
            if done > 0 {
                completed(done);
            }
        }
        Ok(())
    }

    /// Sets every key.
    fn fill(&mut self, keys: u32) -> Result<()> {
        let mut answers = Answers::default();
        for first in (0..keys).step_by(FILL_BATCH as usize) {
            let batch = first..keys.min(first.saturating_add(FILL_BATCH));
            let requests = vec![Request::Set; batch.len()];
            batch.for_each(|key| self.set(key));
            self.exchange(&requests, &mut answers, |_| {})?;
        }
        Ok(())
    }
}

/// Requests up to one time.
#[derive(Serialize)]
struct Sample {
    t_seconds: f64,
    requests: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    pid: u32,
    parameters: &'a Args,
    load_seconds: Option<f64>,
    elapsed_seconds: f64,
    jumped_seconds: Option<f64>,
    requests: u64,
    requests_before_jump: Option<u64>,
    requests_per_second: f64,
    #[serde(flatten)]
    answers: Answers,
    latency: Option<Percentiles>,
    latency_before_jump: Option<Percentiles>,
    latency_after_jump: Option<Percentiles>,
    samples: Vec<Sample>,
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub fn run(args: &Args) -> Result<Verdict> {
    let mut client = Client::connect(args)?;
    let mut report = Report {
        load: "redis-client",
        pid: std::process::id(),
        parameters: args,
        load_seconds: None,
        elapsed_seconds: 0.0,
        jumped_seconds: None,
        requests: 0,
        requests_before_jump: None,
        requests_per_second: 0.0,
        answers: Answers::default(),
        latency: None,
        latency_before_jump: None,
        latency_after_jump: None,
        samples: Vec::new(),
    };
    if args.load || args.load_only {
        let start = Instant::now();
        client.fill(args.keys)?;
        report.load_seconds = Some(start.elapsed().as_secs_f64());
    }
    if args.load_only {
        report::write(&args.report, &report)?;
        return Ok(Verdict::Good);
    }
    if let Some(s) = args.zipf {
        ensure!(s >= 0.0, "--zipf must be at least 0");
    }

    let mut rng = Rng::new(args.seed);
    let mut keys = Keys::new(args.keys, args.hot_keys_share, args.hot_share, args.zipf, &mut rng);
    #[expect(clippy::cast_possible_truncation, reason = "a share of 2^32")]
    #[expect(clippy::cast_sign_loss, reason = "a share is not negative")]
    let get_below = (args.get_share * 4_294_967_296.0) as u64;
    let (mut latency, mut before) = (Histogram::new(), None);
    let mut jump = args.jump.map(|at| at.0);
    let (mut batch, mut due) = (Vec::new(), args.interval.0);

    report::ready(args.start_file.as_deref())?;
    let start = Instant::now();
    mark::<{ marker::START }>();
    loop {
        let sent = start.elapsed();
        let left = match args.requests {
            Some(most) => most - report.requests,
            None if sent < args.duration.0 => u64::MAX,
            None => 0,
        };
        if left == 0 {
            break;
        }
        if sent >= due {
            mark::<{ marker::INTERVAL }>();
            report
                .samples
                .push(Sample { t_seconds: sent.as_secs_f64(), requests: report.requests });
            due = sent + args.interval.0;
        }
        if jump.is_some_and(|at| sent >= at) {
            jump = None;
            keys.jump();
            mark::<{ marker::JUMP }>();
            report.jumped_seconds = Some(sent.as_secs_f64());
            report.requests_before_jump = Some(report.requests);
            before = Some(std::mem::replace(&mut latency, Histogram::new()));
        }
        batch.clear();
        for _ in 0..args.pipeline.min(left) {
            let key = keys.draw(&mut rng);
            if rng.next() >> 32 < get_below {
                client.get(key);
                batch.push(Request::Get(key));
            } else {
                client.set(key);
                batch.push(Request::Set);
            }
        }
        client.exchange(&batch, &mut report.answers, |done| {
            latency.add(nanos(start.elapsed() - sent), done);
        })?;
        report.requests += batch.len() as u64;
    }
    mark::<{ marker::END }>();
    let elapsed = start.elapsed().as_secs_f64();
    if let Some(before) = before {
        report.latency_before_jump = Some(before.percentiles());
        report.latency_after_jump = Some(latency.percentiles());
        latency.merge(&before);
    }
    report.latency = Some(latency.percentiles());
    report.elapsed_seconds = elapsed;
    report.requests_per_second = report.requests as f64 / elapsed;
    report.samples.push(Sample { t_seconds: elapsed, requests: report.requests });
    let verdict = Verdict::of(report.answers.mismatches);
    report::write(&args.report, &report)?;
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_values() {
        assert_eq!(&name(4_294_967_295), b"key:004294967295");
        assert!(is_value(7, 18, b"key:000000000007xx"));
        assert!(!is_value(7, 18, b"key:000000000008xx"));
        assert!(!is_value(7, 18, b"key:000000000007x"));
        assert!(is_value(7, 3, b"key"));
    }

    #[test]
    fn hot_keys_take_their_share_and_are_new_after_the_jump() {
        let mut rng = Rng::new(1);
        let mut keys = Keys::new(1000, 0.1, 0.9, None, &mut rng);
        let hot = |keys: &Keys, rng: &mut Rng| {
            let mut counts = vec![0u32; 1000];
            (0..100_000).for_each(|_| counts[keys.draw(rng) as usize] += 1);
            let hot: Vec<usize> = (0..1000).filter(|&key| counts[key] > 300).collect();
            let share = hot.iter().map(|&key| counts[key]).sum::<u32>();
            assert!((90_000..92_000).contains(&share), "0.9 plus a tenth of the rest: {share}");
            hot.into_iter().collect::<HashSet<usize>>()
        };
        let before = hot(&keys, &mut rng);
        keys.jump();
        let after = hot(&keys, &mut rng);
        assert_eq!((before.len(), after.len()), (100, 100));
        assert!(before.is_disjoint(&after));
        assert!(before.iter().any(|&k| k < 200) && before.iter().any(|&k| k >= 800), "scattered");
    }

    /// A server that remembers only the last value.
    fn echo_server(socket: &std::path::Path) -> std::thread::JoinHandle<()> {
        let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut got) {
                let gets = got[..n].windows(3).filter(|w| w == b"GET").count();
                let sets = got[..n].windows(3).filter(|w| w == b"SET").count();
                (0..gets).for_each(|_| stream.write_all(b"$-1\r\n").unwrap());
                (0..sets).for_each(|_| stream.write_all(b"+OK\r\n").unwrap());
            }
        })
    }

    #[test]
    fn a_batch_is_answered() {
        use clap::Parser;
        #[derive(Parser)]
        struct Cli {
            #[command(flatten)]
            args: Args,
        }
        let socket = std::env::temp_dir().join(format!("lab-load-{}.sock", std::process::id()));
        let server = echo_server(&socket);
        let text = socket.to_str().unwrap();
        let args = Cli::parse_from(["x", "--socket", text, "--value", "32"]).args;
        let mut client = Client::connect(&args).unwrap();
        std::fs::remove_file(&socket).unwrap();
        let (mut answers, mut seen) = (Answers::default(), 0);
        client.get(1);
        client.set(2);
        let batch = [Request::Get(1), Request::Set];
        client.exchange(&batch, &mut answers, |done| seen += done).unwrap();
        assert_eq!((seen, answers.gets, answers.sets, answers.misses), (2, 1, 1, 1));
        drop(client);
        server.join().unwrap();
    }
}
