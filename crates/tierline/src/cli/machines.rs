// SPDX-License-Identifier: Apache-2.0
//! `tierline machines`: lists, shows and fits modelled machines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tierline_core::unit::Bytes;
use tierline_model::cell::{Files, is_file};
use tierline_model::machine::Machine;
use tierline_model::machine::file::{Figure, MachineFile};
use tierline_model::machine::fit::{Fit, Link};
use tierline_model::machine::list::{MACHINES, MachineEntry};
use tierline_model::machine::table::Table;

use super::Globals;
use super::names;
use crate::files::Disk;
use crate::output::OutputFile;
use crate::print::{self, row};

/// List the modelled machines, show one, or fit one to your measurements
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline machines\n\
  \x20 tierline machines show colloid-icx\n\
  \x20 tierline machines fit local.txt cxl.csv --capacity 64G,256G -o mine.toml")]
pub struct MachinesArgs {
    #[command(subcommand)]
    what: Option<MachinesVerb>,
}

#[derive(Debug, Subcommand)]
enum MachinesVerb {
    /// List the machines (also without a subcommand)
    #[command(after_help = "Example: tierline machines list")]
    List,
    /// Show every figure of a machine with its source
    #[command(after_help = "Example: tierline machines show colloid-icx")]
    Show {
        /// A name from the list, or a machine file
        #[arg(value_parser = names::machine(), hide_possible_values = true)]
        name: String,
    },
    /// Fit a machine to loaded-latency tables, one file per tier, fastest first
    ///
    /// A table is the output of `mlc --loaded_latency` (optionally with that of `--max_bandwidth`), or CSV with the
    /// columns gb_per_s, ns and write_share.
    #[command(
        after_help = "Example: tierline machines fit local.txt cxl.csv --capacity 64G,256G -o mine.toml"
    )]
    Fit {
        /// The tables
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Memory of each tier, as in 64G,256G
        #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
        capacity: Vec<Bytes>,
        /// How each tier is linked [default: half for the fastest, full for others]
        #[arg(long, value_name = "LINK,…", value_delimiter = ',')]
        link: Vec<LinkArg>,
        /// Write the machine file here, for `tierline sim --machine FILE`
        #[arg(short, long, value_name = "FILE.toml")]
        output: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LinkArg {
    /// One bus for reads and writes: DDR, HBM
    Half,
    /// A pair of lanes: UPI, CXL
    Full,
}

#[derive(Serialize)]
struct List {
    machines: Vec<MachineReport>,
}

#[derive(Serialize)]
struct MachineReport {
    name: String,
    about: String,
    tiers: Vec<TierReport>,
    fitted: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    figures: Vec<FigureReport>,
}

#[derive(Serialize)]
struct TierReport {
    name: String,
    capacity_bytes: Bytes,
    latency_ns: f64,
    read_bytes_per_second: f64,
    even_mix_bytes_per_second: f64,
}

#[derive(Serialize)]
struct FigureReport {
    key: String,
    #[serde(flatten)]
    figure: Figure,
}

#[derive(Serialize)]
struct FitReport {
    tiers: Vec<FitTier>,
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct FitTier {
    table: PathBuf,
    mean_error: f64,
    max_error: f64,
    points: Vec<FitPoint>,
}

#[derive(Serialize)]
struct FitPoint {
    bytes_per_second: f64,
    write_share: f64,
    measured_ns: f64,
    fitted_ns: f64,
    error: f64,
}

impl MachinesArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        match &self.what {
            None | Some(MachinesVerb::List) => list(globals),
            Some(MachinesVerb::Show { name }) => show(name, globals),
            Some(MachinesVerb::Fit { files, capacity, link, output }) => {
                fit(files, capacity, link, output.as_deref(), globals)
            }
        }?;
        Ok(0)
    }
}

fn list(globals: &Globals) -> Result<()> {
    let reports = MACHINES.iter().map(|entry| listed(entry, false));
    let machines = reports.collect::<Result<Vec<_>>>()?;
    if globals.json {
        return print::json(&List { machines });
    }
    let mut rows = vec![row(["machine", "tiers", "ns", "GB/s", "what it is"])];
    rows.extend(machines.iter().map(|machine| {
        let tiers = |of: &dyn Fn(&TierReport) -> String| {
            machine.tiers.iter().map(of).collect::<Vec<_>>().join(" / ")
        };
        row([
            &machine.name,
            &tiers(&|tier| tier.capacity_bytes.to_string()),
            &tiers(&|tier| format!("{:.0}", tier.latency_ns)),
            &tiers(&|tier| format!("{:.0}", tier.read_bytes_per_second * 1e-9)),
            &machine.about,
        ])
    }));
    print::out(
        &(print::table(&rows) + "\nEvery figure and its source: tierline machines show NAME\n"),
    )
}

fn show(name: &str, globals: &Globals) -> Result<()> {
    let machine = match is_file(name) {
        true => {
            let file = MachineFile::parse(name, &Disk::default().text(name)?)?;
            report(name, &file.machine(name, name)?, &file, true)
        }
        false => listed(MachineEntry::find(name)?, true)?,
    };
    if globals.json {
        return print::json(&machine);
    }
    let mut rows = vec![row(["figure", "value", "source", "fitted to"])];
    rows.extend(machine.figures.iter().map(|FigureReport { key, figure }| {
        row([key, &figure.value.to_string(), &figure.source, &figure.fitted.join(", ")])
    }));
    print::out(&format!("{}: {}\n\n{}", machine.name, machine.about, print::table(&rows)))
}

fn listed(entry: &MachineEntry, figures: bool) -> Result<MachineReport> {
    Ok(report(entry.name, &entry.machine()?, &entry.file()?, figures))
}

fn report(name: &str, machine: &Machine, file: &MachineFile, figures: bool) -> MachineReport {
    let tiers = machine.tiers.iter().map(|tier| TierReport {
        name: tier.name.clone(),
        capacity_bytes: tier.capacity,
        latency_ns: machine.cores.path_ns + tier.queue.curve.unloaded_ns,
        read_bytes_per_second: tier.queue.capacity.gb_per_s(0.0) * 1e9,
        even_mix_bytes_per_second: tier.queue.capacity.gb_per_s(0.5) * 1e9,
    });
    let all = file.figures().into_iter();
    let all = all.map(|(key, figure)| FigureReport { key, figure: figure.clone() });
    MachineReport {
        name: name.into(),
        about: machine.about.clone(),
        tiers: tiers.collect(),
        fitted: file.fitted(),
        figures: if figures { all.collect() } else { Vec::new() },
    }
}

fn fit(
    files: &[PathBuf],
    capacity: &[Bytes],
    link: &[LinkArg],
    output: Option<&Path>,
    globals: &Globals,
) -> Result<()> {
    let file = output.map(OutputFile::create).transpose()?;
    let mut fits = Vec::new();
    for (at, path) in files.iter().enumerate() {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let table = Table::parse(&path.display().to_string(), &text)?;
        let link =
            link.get(at).copied().unwrap_or(if at == 0 { LinkArg::Half } else { LinkArg::Full });
        let link = match link {
            LinkArg::Half => Link::HalfDuplex,
            LinkArg::Full => Link::FullDuplex,
        };
        let capacity = capacity.get(at).copied().unwrap_or(Bytes::from_mib(64 << 10));
        fits.push(Fit::of(&format!("tier{at}"), capacity, &table, link));
    }
    if let Some(to) = file {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let about = format!("Fitted by tierline machines fit to {}", names.join(", "));
        let file = MachineFile::fitted_to(&about, "fitted to a loaded-latency table", &fits)?;
        let text = format!("# SPDX-License-Identifier: Apache-2.0\n{}", toml::to_string(&file)?);
        to.text(&text)?;
    }
    let tiers = files.iter().zip(&fits).map(|(table, fit)| fit_tier(table, fit)).collect();
    let report = FitReport { tiers, file: output.map(Path::to_path_buf) };
    match globals.json {
        true => print::json(&report),
        false => print::out(&describe(&report)),
    }
}

fn fit_tier(table: &Path, fit: &Fit) -> FitTier {
    let (mean_error, max_error) = fit.errors();
    let points = fit.points.iter().map(|(point, ns)| FitPoint {
        bytes_per_second: point.gb_per_s * 1e9,
        write_share: point.write_share,
        measured_ns: point.ns,
        fitted_ns: *ns,
        error: ns / point.ns - 1.0,
    });
    FitTier { table: table.to_path_buf(), mean_error, max_error, points: points.collect() }
}

fn describe(report: &FitReport) -> String {
    let mut text = String::new();
    for tier in &report.tiers {
        let most = tier.points.iter().map(|point| point.measured_ns).fold(0.0, f64::max);
        let mut rows =
            vec![row(["GB/s", "writes", "measured ns", "fitted ns", "error", "latency"])];
        rows.extend(tier.points.iter().map(|point| {
            row([
                &format!("{:.1}", point.bytes_per_second * 1e-9),
                &format!("{:.0} %", point.write_share * 100.0),
                &format!("{:.1}", point.measured_ns),
                &format!("{:.1}", point.fitted_ns),
                &format!("{:+.1} %", point.error * 100.0),
                &bar(point, most),
            ])
        }));
        let (mean, max) = (tier.mean_error * 100.0, tier.max_error * 100.0);
        text += &format!("{}: mean error {mean:.1} %, largest {max:.1} %\n", tier.table.display());
        text += &print::table(&rows);
        text.push('\n');
    }
    match &report.file {
        Some(file) => text + &format!("Run on it: tierline sim --machine {}\n", file.display()),
        None => text + "Write the machine file: -o FILE.toml\n",
    }
}

/// The measured latency as a bar, with a mark for the fitted one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a line of forty"
)]
fn bar(point: &FitPoint, most: f64) -> String {
    let place = |ns: f64| ((ns / most * 40.0) as usize).min(40);
    let (measured, fitted) = (place(point.measured_ns), place(point.fitted_ns));
    (0..=measured.max(fitted))
        .map(|at| {
            if at == fitted {
                'o'
            } else if at <= measured {
                '='
            } else {
                ' '
            }
        })
        .collect()
}
