// SPDX-License-Identifier: Apache-2.0
//! `tierline qos calibrate`: the machine's thresholds.

use anyhow::Result;
use tierline_core::unit::BytesPerSec;
use tierline_linux::calibrate::{Calibration, Point, calibrate};
use tierline_linux::topology::Topology;

use crate::calibration;
use crate::cli::Globals;
use crate::config::Layer;
use crate::config::file::ConfigSources;
use crate::print::{self, row};

/// Measures, prints, and keeps the thresholds.
pub fn run(sources: &ConfigSources, dry_run: bool, globals: &Globals) -> Result<u8> {
    let root = globals.root();
    let options = sources.stack(&root, Layer::default())?.flatten().options(false)?.0;
    let tiers = Topology::read(&root)?.tiers(options.tiers.as_ref())?;
    let found = calibrate(&tiers)?;
    let kept = match dry_run {
        true => None,
        false => Some(calibration::write(&root, found.thresholds)?),
    };
    match globals.json {
        true => print::json(&found)?,
        false => print::out(&described(&found))?,
    }
    if let Some(file) = kept.filter(|_| !globals.json) {
        print::out(&format!("kept in {}\n", file.display()))?;
    }
    Ok(0)
}

fn described(found: &Calibration) -> String {
    let heading = ["readers fast", "slow", "latency", "traffic fast", "slow"];
    let mut rows = vec![row(heading)];
    rows.extend(found.load.iter().chain(&found.slow_share).map(|point: &Point| {
        row([
            &point.fast_readers.to_string(),
            &point.slow_readers.to_string(),
            &format!("{:.0} ns", point.latency_ns),
            &point.fast_bytes_per_second.to_string(),
            &point.slow_bytes_per_second.to_string(),
        ])
    }));
    let threshold = |rate: Option<BytesPerSec>| {
        rate.map_or_else(|| "not reached".into(), |rate| rate.to_string())
    };
    let thresholds = found.thresholds;
    format!(
        "{}\nlatency alone               {:.0} ns\nhealthy traffic, fast tier  {}\nharmful traffic, slow tier  {}\n",
        print::table(&rows),
        found.alone_ns,
        threshold(thresholds.fast),
        threshold(thresholds.slow)
    )
}
