// SPDX-License-Identifier: Apache-2.0
//! Tests NeoProf's hardware against its reference model: lockstep runs, and injected faults that they must
//! find.

mod campaign;
mod contract;
mod dut;
mod lockstep;
mod repeat;
mod replay;
mod traffic;
mod undercount;

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use clap::Parser;
use neoprof::Config;
use tierline_core::rng::Rng;

use dut::{Dut, In, Mutant, Shape, Workshop};
use lockstep::Lockstep;

#[derive(Parser)]
struct Arguments {
    /// Cycles of the core's clock in each lockstep run.
    #[arg(long, default_value_t = 20_000_000)]
    cycles: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Injects every second fault only (which half: by the seed), at W = 4096.
    #[arg(long)]
    quick: bool,
    /// Seed of random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints what the ports show during a copy of the histogram, and nothing else.
    #[arg(long)]
    waveform: bool,
    /// Prints the under-counting of a pipeline without forwarding, and nothing else.
    #[arg(long)]
    undercount: bool,
    /// Runs lockstep and contract only, without faults.
    #[arg(long)]
    no_faults: bool,
    /// Injects this fault only, at W = 4096, and runs nothing else.
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
    /// Lockstep at W = 4096 with this many seeds, from --seed on, and nothing else.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Runs the directed tests of the registers' contract, and nothing else.
    #[arg(long)]
    contract: bool,
    /// Tests that a seed determines a run, and nothing else.
    #[arg(long)]
    repeatable: bool,
    /// Replays the log of a lab machine's NeoProf, and nothing else.
    #[arg(long, value_name = "LOG")]
    replay: Option<PathBuf>,
    /// Verilator's folder, with bin/ and include/.
    #[arg(long)]
    verilator: PathBuf,
    /// Folder for builds.
    #[arg(long)]
    build: PathBuf,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutants {
    mutant: Vec<Mutant>,
}

/// Results for one width.
#[derive(serde::Serialize)]
struct Row {
    width: usize,
    depth: usize,
    banks: u32,
    cycles: u64,
    comparisons: u64,
    mismatches: u64,
    /// Of all inputs and outputs: a seed determines it.
    traffic: String,
    results: String,
    mutants: usize,
    mutants_caught: usize,
    /// Hardware and model in lockstep, in CPU time.
    cycles_per_second: f64,
    /// Hardware alone, one access per cycle, in CPU time.
    stream_cycles_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_mismatch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mutants_missed: Vec<String>,
}

/// A small configuration, whose counters saturate and whose lists fill at once; a medium one; and Table IV of
/// the paper, with the eight banks of its synthesis.
fn shapes() -> [Shape; 3] {
    let of =
        |width_log2, depth, counter_bits, fifo_log2, ring_log2, bank_log2, crossing_log2| Shape {
            model: Config {
                width_log2,
                depth,
                counter_bits,
                fifo_log2,
                ring_log2,
                ..Config::default()
            },
            bank_log2,
            crossing_log2,
        };
    [of(8, 3, 5, 3, 2, 1, 3), of(12, 2, 16, 8, 4, 2, 5), of(19, 2, 16, 14, 10, 3, 7)]
}

/// Cycles within which a fault must be found.
const MUTANT_CYCLES: u64 = 20_000_000;

enum Job<'a> {
    Lockstep(usize),
    Mutant(usize, &'a Mutant),
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let hardware = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workshop = Workshop {
        verilator_root: arguments.verilator.clone(),
        hardware: hardware.clone(),
        build: arguments.build.clone(),
    };
    workshop.prepare()?;
    if arguments.waveform {
        let shape = &shapes()[1];
        return contract::print_waveform(&workshop.build("waveform", shape, None)?, shape);
    }
    if arguments.contract {
        let shape = &shapes()[1];
        let (runs, failures) = contract::run(&workshop.build("contract", shape, None)?, shape)?;
        println!("{runs} runs, {} failures", failures.len());
        failures.iter().for_each(|line| println!("  {line}"));
        std::process::exit(i32::from(!failures.is_empty()));
    }
    if arguments.undercount {
        return undercount::print(&workshop, &shapes()[1]);
    }
    if let Some(log) = &arguments.replay {
        return replay(&workshop, log);
    }
    let mutants: Mutants =
        toml::from_str(&std::fs::read_to_string(hardware.join("mutants.toml"))?)?;
    let mut recorded = Vec::new();
    for name in ["redis", "sqlite", "graph"] {
        let path = hardware.join(format!("../../lab/traces/recorded/{name}.trace"));
        recorded.extend(
            traffic::recorded(&path).with_context(|| format!("cannot read {}", path.display()))?,
        );
    }

    if arguments.repeatable {
        let library = workshop.build("contract", &shapes()[1], None)?;
        return repeat::run(&library, &shapes()[1], arguments.seed, &recorded);
    }
    if let Some(seeds) = arguments.seeds {
        return soak(&workshop, &recorded, &arguments, seeds);
    }
    let shapes = shapes();
    let mut jobs: VecDeque<Job> = match arguments.fault {
        Some(_) => VecDeque::new(),
        None => [2, 1, 0].map(Job::Lockstep).into(),
    };
    // All faults in the medium shape and every fourth in the large one; with --quick half of them, in the medium shape.
    let faults = |offset: u64, every: usize| {
        let skip = usize::try_from(offset).unwrap_or(0) % every;
        mutants.mutant.iter().skip(skip).step_by(every)
    };
    let named = |fault: &&Mutant| arguments.fault.as_deref() == Some(&fault.name);
    match (arguments.no_faults, arguments.quick) {
        (true, _) => {}
        _ if arguments.fault.is_some() => {
            jobs.extend(faults(0, 1).filter(named).map(|fault| Job::Mutant(1, fault)));
            anyhow::ensure!(!jobs.is_empty(), "no fault of this name; they are in mutants.toml");
        }
        (_, true) => {
            jobs.extend(faults(arguments.seed + 1, 2).map(|fault| Job::Mutant(1, fault)));
        }
        _ => {
            jobs.extend(faults(0, 1).map(|fault| Job::Mutant(1, fault)));
            jobs.extend(faults(arguments.seed, 4).map(|fault| Job::Mutant(2, fault)));
        }
    }
    let rows = shapes.map(|shape| Row {
        width: shape.model.width(),
        depth: shape.model.depth,
        banks: 1 << shape.bank_log2,
        cycles: 0,
        comparisons: 0,
        mismatches: 0,
        traffic: String::new(),
        results: String::new(),
        mutants: 0,
        mutants_caught: 0,
        cycles_per_second: 0.0,
        stream_cycles_per_second: 0.0,
        first_mismatch: None,
        mutants_missed: Vec::new(),
    });
    let (jobs, rows) = (Mutex::new(jobs), Mutex::new(rows));
    let work = || {
        loop {
            let Some(job) = jobs.lock().expect("no panic").pop_front() else { return Ok(true) };
            match job {
                Job::Lockstep(i) => {
                    let library = workshop.build(
                        &format!("w{}", shapes[i].model.width()),
                        &shapes[i],
                        None,
                    )?;
                    let begun = cpu_seconds();
                    let mut pair = Lockstep::new(
                        Dut::new(&library, arguments.seed)?,
                        &shapes[i],
                        arguments.seed,
                    )?;
                    campaign::run(&mut pair, &recorded, arguments.cycles)?;
                    let seconds = cpu_seconds() - begun;
                    let stream = stream(&library)?;
                    let row = &mut rows.lock().expect("no panic")[i];
                    (row.cycles, row.comparisons, row.mismatches) =
                        (pair.cycles, pair.comparisons, pair.mismatches);
                    row.traffic = format!("{:016x}", pair.fingerprint.traffic);
                    row.results = format!("{:016x}", pair.fingerprint.results);
                    row.first_mismatch = pair.first_mismatch;
                    (row.cycles_per_second, row.stream_cycles_per_second) =
                        (pair.cycles as f64 / seconds, stream);
                }
                Job::Mutant(i, mutant) => {
                    let name =
                        format!("w{}-{}", shapes[i].model.width(), mutant.name.replace(' ', "-"));
                    let library = workshop.build(&name, &shapes[i], Some(mutant))?;
                    let begun = cpu_seconds();
                    let found = find(&library, &shapes[i], arguments.seed, &recorded)?;
                    let caught = found.is_some();
                    eprintln!(
                        "{name}: {}, {:.1} s",
                        found.as_deref().unwrap_or("missed"),
                        cpu_seconds() - begun
                    );
                    let row = &mut rows.lock().expect("no panic")[i];
                    row.mutants += 1;
                    row.mutants_caught += usize::from(caught);
                    if !caught {
                        row.mutants_missed.push(mutant.name.clone());
                    }
                }
            }
        }
    };
    in_threads(work)?;

    let rows = rows.into_inner().expect("no panic");
    let library = workshop.build("contract", &shapes[1], None)?;
    let (runs, broken) = contract::run(&library, &shapes[1])?;
    println!(r#"{{"contract": {runs}, "broken": {}}}"#, broken.len());
    broken.iter().for_each(|line| eprintln!("contract: {line}"));
    let repeated = repeat::run(&library, &shapes[1], arguments.seed, &recorded);
    println!(r#"{{"repeatable": {}}}"#, repeated.is_ok());
    if let Err(error) = &repeated {
        eprintln!("repeatable: {error:#}");
    }
    for row in &rows {
        if arguments.json {
            println!("{}", serde_json::to_string(row)?);
        } else {
            print(row);
        }
    }
    let good = broken.is_empty()
        && repeated.is_ok()
        && rows.iter().all(|row| row.mismatches == 0 && row.mutants_missed.is_empty());
    std::process::exit(i32::from(!good))
}

/// Lockstep with many seeds, until one has a mismatch.
fn soak(
    workshop: &Workshop,
    recorded: &[(u32, bool)],
    arguments: &Arguments,
    seeds: u64,
) -> Result<()> {
    let shape = &shapes()[1];
    let library = workshop.build("soak", shape, None)?;
    let queue = Mutex::new(arguments.seed..arguments.seed + seeds);
    let good = in_threads(|| {
        loop {
            let Some(seed) = queue.lock().expect("no panic").next() else { return Ok(true) };
            let mut pair = Lockstep::new(Dut::new(&library, seed)?, shape, seed)?;
            campaign::run(&mut pair, recorded, arguments.cycles)?;
            let Lockstep { cycles, comparisons, mismatches, fingerprint, .. } = &pair;
            println!(
                "seed {seed}: {cycles} cycles, {comparisons} comparisons, {mismatches} mismatches, traffic {:016x}, results {:016x}",
                fingerprint.traffic, fingerprint.results
            );
            if let Some(first) = pair.first_mismatch {
                println!("  {first}");
                queue.lock().expect("no panic").by_ref().for_each(drop);
                return Ok(false);
            }
        }
    })?;
    std::process::exit(i32::from(!good))
}

/// Runs it in a thread for each processor. Whether all returned true.
fn in_threads(work: impl Fn() -> Result<bool> + Sync) -> Result<bool> {
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        workers
            .into_iter()
            .try_fold(true, |all, worker| Ok(worker.join().expect("no panic")? && all))
    })
}

/// Whether the hardware differs from the model or breaks its contract, and where.
fn find(
    library: &Path,
    shape: &Shape,
    seed: u64,
    recorded: &[(u32, bool)],
) -> Result<Option<String>> {
    let mut pair = match Lockstep::new(Dut::new(library, seed)?, shape, seed) {
        Ok(pair) => pair,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let end = campaign::run(&mut pair, recorded, MUTANT_CYCLES);
    if let Err(error) = end {
        return Ok(Some(format!("cycle {}: {error}", pair.cycles)));
    }
    if pair.mismatches > 0 {
        return Ok(pair.first_mismatch);
    }
    Ok(contract::run(library, shape)?.1.pop())
}

fn replay(workshop: &Workshop, log: &Path) -> Result<()> {
    let shape = &shapes()[2];
    let library = workshop.build("replay", shape, None)?;
    let mut pair = Lockstep::new(Dut::new(&library, 1)?, shape, 1)?;
    let file = File::open(log).with_context(|| format!("cannot open {}", log.display()))?;
    let done = replay::run(&mut pair, &mut BufReader::new(file))?;
    println!("{}", serde_json::to_string(&done)?);
    std::process::exit(i32::from(done.mismatches > 0))
}

fn print(row: &Row) {
    let Row {
        width, depth, banks, cycles, comparisons, mismatches, mutants, mutants_caught, ..
    } = row;
    println!(
        "W = {width}, D = {depth}, {banks} banks: {cycles} cycles, {comparisons} comparisons, {mismatches} mismatches"
    );
    println!(
        "  {mutants_caught} of {mutants} mutants caught; {:.2} M cycles a CPU second in lockstep, {:.2} M for the hardware alone",
        row.cycles_per_second / 1e6,
        row.stream_cycles_per_second / 1e6
    );
    row.first_mismatch.iter().for_each(|first| println!("  first mismatch: {first}"));
    row.mutants_missed.iter().for_each(|name| println!("  missed: {name}"));
}

/// Cycles per CPU second of the hardware alone, with one access per cycle.
fn stream(library: &Path) -> Result<f64> {
    const CYCLES: u32 = 2_000_000;
    let mut dut = Dut::new(library, 1)?;
    let mut rng = Rng::new(1);
    let both = In { mem_edge: true, core_edge: true, ..In::default() };
    for _ in 0..8 {
        dut.step(&In { reset: true, ..both });
    }
    let begun = cpu_seconds();
    for _ in 0..CYCLES {
        let page = (rng.next_u64() & 0x3f_ffff) as u32;
        dut.step(&In { access: true, page, ..both });
    }
    Ok(f64::from(CYCLES) / (cpu_seconds() - begun))
}

/// CPU time of this thread so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}
