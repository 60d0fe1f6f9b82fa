// SPDX-License-Identifier: Apache-2.0
//! The machines that come with Tierline, embedded. Help, documents and tests use this list.

use super::Machine;
use super::file::MachineFile;
use crate::error::{Error, Result};

/// A machine file of the folder `machines/`.
#[derive(Clone, Copy, Debug)]
pub struct MachineEntry {
    /// Name on the command line: that of the file.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

macro_rules! machines {
    ($($name:literal),* $(,)?) => {
        &[$(MachineEntry {
            name: $name,
            text: include_str!(concat!("../../../../machines/", $name, ".toml")),
        }),*]
    };
}

/// All machines; the first is the default.
pub const MACHINES: &[MachineEntry] = machines![
    "colloid-icx",
    "neomem-spr-fpga",
    "arms-optane",
    "arms-numa",
    "tpp",
    "mercury-genoa-astera",
    "mercury-xeon",
    "ddr5-cxl-asic",
    "hbm-ddr5-cxl",
];

impl MachineEntry {
    /// The machine of that name.
    ///
    /// # Errors
    /// `Error::Unknown` with the known names.
    pub fn find(name: &str) -> Result<&'static Self> {
        MACHINES
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| Error::unknown("machine", name, MACHINES.iter().map(|entry| entry.name)))
    }

    /// The parsed file.
    ///
    /// # Errors
    /// As [`MachineFile::parse`]; a test parses all files.
    pub fn file(&self) -> Result<MachineFile> {
        MachineFile::parse(&self.place(), self.text)
    }

    /// The machine.
    ///
    /// # Errors
    /// As [`MachineFile::machine`]; a test builds all machines.
    pub fn machine(&self) -> Result<Machine> {
        self.file()?.machine(self.name, &self.place())
    }

    fn place(&self) -> String {
        format!("machines/{}.toml", self.name)
    }
}
