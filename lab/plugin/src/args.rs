// SPDX-License-Identifier: Apache-2.0
//! The arguments after the plugin's path, each `key=value`.

use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

use tierline_trace::cache::Geometry;

/// Cost of one event on the modelled clock, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// An instruction, including cache hits.
    pub insn_ps: u64,
    /// A miss served by the fast node.
    pub fast_ps: u64,
    /// A miss served by the slow node.
    pub slow_ps: u64,
}

/// The plugin's configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Args {
    /// File for the JSON summary.
    pub out: PathBuf,
    /// File for the misses per page, if any.
    pub pages: Option<PathBuf>,
    /// File for a trace of the misses, if any.
    pub trace: Option<PathBuf>,
    /// Length of its epochs on the modelled clock, in milliseconds.
    pub epoch_ms: u64,
    /// Socket on which NeoProf is served as a PCI device over vfio-user, if any.
    pub neoprof: Option<PathBuf>,
    /// File for the log of its accesses and register accesses, if any.
    pub neoprof_log: Option<PathBuf>,
    /// Guest-physical addresses of the slow node; all others are fast.
    pub slow: Vec<Range<u64>>,
    /// Whether the guest's kernel is also instrumented.
    pub kernel: bool,
    /// The last-level cache.
    pub llc: Geometry,
    /// Costs on the modelled clock.
    pub costs: Costs,
}

impl Args {
    /// Parses the arguments. An error names the wrong one and what was expected.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Args, String> {
        let mut out = None;
        let mut pages = None;
        let (mut trace, mut epoch_ms) = (None, 100);
        let (mut neoprof, mut neoprof_log) = (None, None);
        let mut slow = Vec::new();
        let mut kernel = false;
        let mut llc = Geometry { bytes: 1 << 20, ways: 8 };
        let mut costs = Costs { insn_ps: 300, fast_ps: 80_000, slow_ps: 200_000 };

        for word in words {
            let wanted = |what: &str| format!("`{word}`: expected {what}");
            let (key, value) = word.split_once('=').ok_or_else(|| wanted("KEY=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| wanted("a decimal number"));
            match key {
                "out" => out = Some(PathBuf::from(value)),
                "pages" => pages = Some(PathBuf::from(value)),
                "trace" => trace = Some(PathBuf::from(value)),
                "epoch_ms" => epoch_ms = number()?,
                "neoprof" => neoprof = Some(PathBuf::from(value)),
                "neoprof_log" => neoprof_log = Some(PathBuf::from(value)),
                "slow" => {
                    slow = ranges(value).ok_or_else(|| wanted("slow=LO-HI[+LO-HI] in hex"))?
                }
                // QEMU turns a bare `kernel` into `kernel=on`.
                "kernel" => match value {
                    "1" | "on" => kernel = true,
                    "0" | "off" => kernel = false,
                    _ => return Err(wanted("kernel=0 or kernel=1")),
                },
                "llc" => llc.bytes = number()?,
                "ways" => llc.ways = number()?,
                "insn_ps" => costs.insn_ps = number()?,
                "fast_ps" => costs.fast_ps = number()?,
                "slow_ps" => costs.slow_ps = number()?,
                _ => {
                    return Err(wanted(
                        "out, pages, trace, epoch_ms, neoprof, neoprof_log, slow, kernel, llc, ways, insn_ps, fast_ps or slow_ps",
                    ));
                }
            }
        }
        let out = out.ok_or("`out=PATH` is missing: expected the file for the summary")?;
        llc.check()?;
        Ok(Args { out, pages, trace, epoch_ms, neoprof, neoprof_log, slow, kernel, llc, costs })
    }
}

fn ranges(list: &str) -> Option<Vec<Range<u64>>> {
    let hex = |s: &str| u64::from_str_radix(s.strip_prefix("0x").unwrap_or(s), 16).ok();
    let range = |s: &str| {
        let (lo, hi) = s.split_once('-')?;
        let range = hex(lo)?..hex(hi)?;
        (!range.is_empty()).then_some(range)
    };
    // Without a slow node the lab passes the key with an empty value.
    list.split('+').filter(|s| !s.is_empty()).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults() {
        let args = Args::parse(["out=/tmp/o"]).unwrap();
        assert_eq!(args.out, PathBuf::from("/tmp/o"));
        assert_eq!(args.llc, Geometry { bytes: 1 << 20, ways: 8 });
        assert_eq!(args.costs, Costs { insn_ps: 300, fast_ps: 80_000, slow_ps: 200_000 });
        assert!(args.slow.is_empty() && !args.kernel && args.pages.is_none());
    }

    #[test]
    fn every_key() {
        let args = Args::parse([
            "out=o",
            "pages=p=q",
            "slow=40000000-80000000+0x100000000-0x140000000",
            "kernel=on",
            "llc=65536",
            "ways=4",
            "insn_ps=1",
            "fast_ps=2",
            "slow_ps=3",
        ])
        .unwrap();
        assert_eq!(args.pages, Some(PathBuf::from("p=q")));
        assert_eq!(args.slow, [0x4000_0000..0x8000_0000, 0x1_0000_0000..0x1_4000_0000]);
        assert!(args.kernel);
        assert_eq!(args.llc, Geometry { bytes: 65536, ways: 4 });
        assert_eq!(args.costs, Costs { insn_ps: 1, fast_ps: 2, slow_ps: 3 });
        assert!(Args::parse(["out=o", "slow="]).unwrap().slow.is_empty());
    }

    #[test]
    fn an_error_names_the_word() {
        for bad in ["slow=8-4", "slow=4", "slow=x-y", "llc=1M", "kernel=2", "colour=red", "out"] {
            let error = Args::parse(["out=o", bad]).unwrap_err();
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
        assert!(Args::parse(["llc=65536"]).unwrap_err().contains("out=PATH"));
        assert!(Args::parse(["out=o", "ways=3"]).unwrap_err().contains("ways=3"));
    }
}
