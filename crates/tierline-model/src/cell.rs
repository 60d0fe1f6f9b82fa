// SPDX-License-Identifier: Apache-2.0
//! A cell: a scenario as it is named on a command line. Every command, and Python, names scenarios in this way, so the same
//! words are the same run.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use tierline_core::unit::{Bytes, BytesPerSec};

use crate::error::Error;
use crate::scenario::Scenario;
use crate::workload::list::written;
use crate::workload::replay::Recording;

/// The programs of a cell that names none.
const PROGRAM: &str = "gups";

/// What a command line says of a scenario. Missing parts are those of the scenario file, or defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// A scenario file.
    pub file: Option<String>,
    /// A machine of the list, or a machine file.
    pub machine: Option<String>,
    /// Programs that run at the same time. The first is measured.
    pub programs: Vec<String>,
    /// Fast to slow memory.
    pub ratio: Option<Ratio>,
    /// Simulated time.
    pub seconds: Option<f64>,
    /// Seed of all random numbers.
    pub seed: Option<u64>,
    /// Maximum rate of moves.
    pub max_rate: Option<BytesPerSec>,
}

/// Opens the files that a scenario names. The model itself reads no files.
pub trait Files {
    /// Errors of files and scenarios.
    type Error: From<Error>;

    /// The text of a scenario or of a machine.
    ///
    /// # Errors
    /// If it cannot be read.
    fn text(&self, file: &str) -> Result<String, Self::Error>;

    /// A recorded program.
    ///
    /// # Errors
    /// If it cannot be read.
    fn recording(&self, file: &str) -> Result<Arc<dyn Recording>, Self::Error>;
}

/// No files.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    type Error = Error;

    fn text(&self, file: &str) -> Result<String, Error> {
        Err(Error::unknown("file", file, []))
    }

    fn recording(&self, file: &str) -> Result<Arc<dyn Recording>, Error> {
        Err(Error::unknown("trace", file, []))
    }
}

/// Whether a machine or a workload of this name is a file.
pub fn is_file(name: &str) -> bool {
    name.ends_with(".toml")
}

impl Cell {
    /// A scenario file, or programs joined by `+`, on a machine.
    pub fn new(machine: Option<&str>, workload: &str) -> Self {
        let machine = machine.map(String::from);
        match is_file(workload) {
            true => Self { file: Some(workload.into()), machine, ..Self::default() },
            false => {
                let programs = workload.split('+').map(String::from).collect();
                Self { machine, programs, ..Self::default() }
            }
        }
    }

    /// Its name in tables: the programs, or the scenario file.
    pub fn name(&self) -> String {
        match &self.file {
            Some(file) if self.programs.is_empty() => file.clone(),
            None if self.programs.is_empty() => PROGRAM.into(),
            _ => self.programs.join("+"),
        }
    }

    /// The scenario, with its files.
    ///
    /// # Errors
    /// If a file cannot be read, or a part is invalid.
    pub fn scenario<F: Files>(&self, files: &F) -> Result<Scenario, F::Error> {
        let mut scenario = match &self.file {
            Some(file) => Scenario::parse(file, &files.text(file)?)?,
            None => Scenario { grow: true, ..Scenario::default() },
        };
        let programs = self.programs.iter().map(|text| written(text)).collect::<Result<_, _>>()?;
        scenario.workload = match (self.programs.is_empty(), scenario.workload.is_empty()) {
            (false, _) => programs,
            (true, true) => vec![written(PROGRAM)?],
            (true, false) => scenario.workload,
        };
        let file = self.file.as_deref();
        scenario.machine = match &self.machine {
            Some(machine) => machine.clone(),
            None if is_file(&scenario.machine) => beside(file, &scenario.machine),
            None => scenario.machine,
        };
        scenario.ratio = self.ratio.or(scenario.ratio);
        scenario.seconds = self.seconds.unwrap_or(scenario.seconds);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.max_rate = self.max_rate.unwrap_or(scenario.max_rate);
        if is_file(&scenario.machine) {
            scenario.machine_text = Some(files.text(&scenario.machine)?);
        }
        let named_by = file.filter(|_| self.programs.is_empty());
        let traces: Vec<String> = scenario.trace_files().map(String::from).collect();
        for trace in traces {
            let recording = files.recording(&beside(named_by, &trace))?;
            scenario.traces.0.insert(trace, recording);
        }
        Ok(scenario)
    }

    /// The command that repeats its run under a policy. `scenario` is its scenario, whose length, seed and rate are written
    /// out.
    pub fn command(&self, scenario: &Scenario) -> String {
        let mut words = vec!["tierline".to_string(), "sim".into()];
        words.extend(self.file.iter().map(|file| quoted(file)));
        let mut say = |flag: &str, value: &str| words.extend([flag.into(), quoted(value)]);
        if self.file.is_none() || self.machine.is_some() {
            say("--machine", &scenario.machine);
        }
        match (self.programs.is_empty(), &self.file) {
            (true, None) => say("--workload", PROGRAM),
            _ => self.programs.iter().for_each(|program| say("--workload", program)),
        }
        if let Some(ratio) = self.ratio {
            say("--ratio", &ratio.to_string());
        }
        say("--policy", &scenario.policy);
        say("--seconds", &scenario.seconds.to_string());
        say("--seed", &scenario.seed.to_string());
        say("--max-rate", &format!("{}B/s", scenario.max_rate.0));
        words.join(" ")
    }
}

/// The path of a file that a scenario file names: relative to the folder of that file.
fn beside(file: Option<&str>, name: &str) -> String {
    let folder = file.and_then(|file| Path::new(file).parent());
    folder.map_or_else(|| name.into(), |folder| folder.join(name).to_string_lossy().into_owned())
}

/// A word as a shell needs it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    match word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Fast to slow memory, as parts of the first program's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    fast: u32,
    slow: u32,
}

impl Ratio {
    /// The size of the fastest tier for this much memory.
    pub fn fast_of(self, bytes: Bytes) -> Bytes {
        Bytes(bytes.0 / (u64::from(self.fast) + u64::from(self.slow)) * u64::from(self.fast))
    }
}

impl From<(u32, u32)> for Ratio {
    fn from((fast, slow): (u32, u32)) -> Self {
        Self { fast: fast.max(1), slow }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.fast, self.slow)
    }
}

impl FromStr for Ratio {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once(':')
            .and_then(|(fast, slow)| Some((fast.parse::<u32>().ok()?, slow.parse::<u32>().ok()?)));
        let parts = parts.filter(|&(fast, _)| fast > 0);
        parts.map(Self::from).ok_or_else(|| {
            format!("{text} is not a ratio of fast to slow memory; write it as in 1:2")
        })
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::quantity(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One scenario file and one machine file.
    struct Two;

    impl Files for Two {
        type Error = Error;
        fn text(&self, file: &str) -> Result<String, Error> {
            match file {
                "run.toml" => Ok("seconds = 3\n[[workload]]\nkind = \"scan\"\n".into()),
                "runs/named.toml" => {
                    Ok("machine = \"../mine.toml\"\n[[workload]]\nkind = \"scan\"\n".into())
                }
                "mine.toml" | "runs/../mine.toml" => {
                    Ok(include_str!("../../../machines/arms-numa.toml").into())
                }
                _ => NoFiles.text(file),
            }
        }
        fn recording(&self, file: &str) -> Result<Arc<dyn Recording>, Error> {
            NoFiles.recording(file)
        }
    }

    #[test]
    fn a_file_is_overridden_by_what_is_named() {
        let file = Cell::new(Some("mine.toml"), "run.toml").scenario(&Two).unwrap();
        assert_eq!((file.seconds, file.workload.len()), (3.0, 1));
        assert_eq!(file.machine().unwrap().name, "mine.toml");
        let named = Cell {
            file: Some("run.toml".into()),
            ratio: Some(Ratio::from((1, 2))),
            seconds: Some(5.0),
            ..Cell::new(None, "gups:set=9GiB,hot=1GiB+scan:set=1GiB")
        };
        let scenario = named.scenario(&Two).unwrap();
        assert_eq!((scenario.seconds, scenario.workload.len()), (5.0, 2));
        assert_eq!(scenario.machine().unwrap().tiers[0].capacity, Bytes::from_mib(3 << 10));
        assert!(Cell::new(None, "none.toml").scenario(&Two).is_err());
    }

    #[test]
    fn a_scenario_names_files_relative_to_itself() {
        let scenario = Cell::new(None, "runs/named.toml").scenario(&Two).unwrap();
        assert_eq!(scenario.machine().unwrap().name, "runs/../mine.toml");
        let other = Cell::new(Some("mine.toml"), "runs/named.toml").scenario(&Two).unwrap();
        assert_eq!(
            other.machine, "mine.toml",
            "on the command line, relative to the present folder"
        );
        assert_eq!(beside(Some("a/b.toml"), "/c.trace"), "/c.trace");
    }

    #[test]
    fn a_command_names_what_the_cell_names() {
        let cell = Cell { ratio: "1:8".parse().ok(), ..Cell::new(None, "gups:hot=1GiB+scan") };
        let scenario = cell.scenario(&Two).unwrap();
        assert_eq!(
            cell.command(&scenario),
            "tierline sim --machine colloid-icx --workload gups:hot=1GiB --workload scan --ratio 1:8 \
             --policy tierline --seconds 60 --seed 1 --max-rate 10737418240B/s"
        );
        assert_eq!(quoted("a b's"), "'a b'\\''s'");
    }

    #[test]
    fn a_ratio_is_two_numbers() {
        assert_eq!("1:16".parse::<Ratio>().map(|ratio| ratio.to_string()), Ok("1:16".into()));
        assert!(["0:1", "1", "1:x", ""].iter().all(|text| text.parse::<Ratio>().is_err()));
    }
}
