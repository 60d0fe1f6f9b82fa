// SPDX-License-Identifier: Apache-2.0
//! Output files: a JSON summary and a table of misses per page.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::args::{Args, Costs};
use crate::device::DeviceUse;
use crate::marker::{Log, Marker};
use crate::vcpu::{Accesses, PAGE_BYTES, Pages, Totals};
use tierline_trace::cache::Geometry;

/// A reader must refuse versions that it does not know.
const SCHEMA_VERSION: u32 = 1;

/// The summary, in the order of output.
#[derive(Serialize)]
pub struct Summary<'a> {
    schema_version: u32,
    /// Version of QEMU's plugin API.
    api: i32,
    /// False in a summary written at a marker, while the guest was running.
    complete: bool,
    vcpus: usize,
    kernel: bool,
    /// Of instrumented code, and of all code (the guest's kernel included).
    instructions: u64,
    all_instructions: u64,
    #[serde(flatten)]
    all: Accesses,
    llc: Geometry,
    slow_ranges: &'a [Range<u64>],
    /// Misses to the fast node.
    fast: Accesses,
    /// Misses to the slow node.
    slow: Accesses,
    fast_share: Option<f64>,
    modelled_ps: u64,
    modelled_seconds: f64,
    modelled_ps_by_vcpu: Vec<u64>,
    neoprof: Option<DeviceUse>,
    /// Known only at exit.
    pages: Option<PageSummary>,
    constants: Costs,
    markers: &'a [Marker],
    markers_dropped: u64,
}

#[derive(Serialize)]
struct PageSummary {
    distinct: usize,
    misses_beyond_table: u64,
}

impl<'a> Summary<'a> {
    /// Builds the summary; `pages` exists after the guest has ended.
    pub fn new(
        api: i32,
        args: &'a Args,
        vcpus: &[Totals],
        log: &'a Log,
        neoprof: Option<DeviceUse>,
        pages: Option<&Pages>,
    ) -> Summary<'a> {
        let mut sum = Totals::default();
        vcpus.iter().for_each(|vcpu| sum += vcpu);
        let modelled_ps = sum.modelled_ps(args.costs);
        Summary {
            schema_version: SCHEMA_VERSION,
            api,
            complete: pages.is_some(),
            vcpus: vcpus.len(),
            kernel: args.kernel,
            instructions: sum.instructions,
            all_instructions: sum.all_instructions,
            all: sum.all,
            llc: args.llc,
            slow_ranges: &args.slow,
            fast: sum.fast,
            slow: sum.slow,
            fast_share: sum.fast_share(),
            modelled_ps,
            modelled_seconds: modelled_ps as f64 / 1e12,
            modelled_ps_by_vcpu: vcpus.iter().map(|vcpu| vcpu.modelled_ps(args.costs)).collect(),
            neoprof,
            pages: pages.map(|pages| PageSummary {
                distinct: pages.distinct(),
                misses_beyond_table: pages.beyond,
            }),
            constants: args.costs,
            markers: &log.kept,
            markers_dropped: log.dropped,
        }
    }

    /// Writes the summary.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        replace(path, |file| {
            serde_json::to_writer(&mut *file, self)?;
            file.write_all(b"\n")
        })
    }
}

/// Writes the misses per page, all as little-endian u32: a header of four words (the bytes `TLPG`, format
/// version 1, bytes per page, number of frames), then one count per guest page frame, from frame 0.
pub fn write_pages(path: &Path, pages: &Pages) -> io::Result<()> {
    let word = |n: u64| u32::try_from(n).map_err(io::Error::other).map(u32::to_le_bytes);
    replace(path, |file| {
        file.write_all(b"TLPG")?;
        file.write_all(&word(1)?)?;
        file.write_all(&word(PAGE_BYTES)?)?;
        file.write_all(&word(pages.misses.len() as u64)?)?;
        pages.misses.iter().try_for_each(|n| file.write_all(&n.to_le_bytes()))
    })
}

/// Writes a temporary file and renames it, so that no reader or crash ever leaves a partial file.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let mut file = BufWriter::new(File::create(&temporary)?);
    write(&mut file)?;
    file.flush()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("lab-plugin-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_summary_reads_back() {
        let args = Args::parse(["out=o", "slow=1000-2000"]).unwrap();
        let totals = |n| Totals {
            instructions: n,
            all_instructions: 2 * n,
            all: Accesses { loads: 4, stores: 3 },
            fast: Accesses { loads: 2, stores: 1 },
            slow: Accesses { loads: 1, stores: 0 },
        };
        let mut log = Log::default();
        log.push(Marker::new(9, 1, &totals(10), args.costs));
        let pages = Pages { misses: vec![0, 4], beyond: 5 };
        let file = path("summary");

        let vcpus = [totals(10), totals(30)];
        Summary::new(7, &args, &vcpus, &log, Some(DeviceUse::default()), Some(&pages))
            .write(&file)
            .unwrap();
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        fs::remove_file(&file).unwrap();

        assert_eq!(json["schema_version"], 1);
        assert_eq!(json["complete"], true);
        assert_eq!(json["vcpus"], 2);
        assert_eq!(json["instructions"], 40);
        assert_eq!(json["all_instructions"], 80);
        assert_eq!(json["loads"], 8);
        assert_eq!(json["stores"], 6);
        assert_eq!(json["fast"]["loads"], 4);
        assert_eq!(json["slow"]["stores"], 0);
        assert_eq!(json["fast_share"], 0.75);
        assert_eq!(json["modelled_ps"], 40 * 300 + 6 * 80_000 + 2 * 200_000);
        assert_eq!(json["neoprof"]["register_reads"], 0);
        assert_eq!(json["pages"]["distinct"], 1);
        assert_eq!(json["pages"]["misses_beyond_table"], 5);
        assert_eq!(json["markers"][0]["id"], 9);
        assert_eq!(json["markers"][0]["slow_misses"], 1);

        let running = Summary::new(7, &args, &[], &log, None, None);
        let json = serde_json::to_value(&running).unwrap();
        assert_eq!(json["complete"], false);
        assert!(json["pages"].is_null() && json["fast_share"].is_null());
    }

    #[test]
    fn pages_have_the_documented_header() {
        let file = path("pages");
        write_pages(&file, &Pages { misses: vec![0, 258], beyond: 0 }).unwrap();
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(bytes[..4], *b"TLPG");
        assert_eq!(bytes[4..], [1, 0, 0, 0, 0, 16, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0]);
    }
}
