// SPDX-License-Identifier: Apache-2.0
//! Communication with the script that started the load: READY, the start file, the report.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// Interval of checking for the start file.
const POLL: Duration = Duration::from_millis(10);

/// Prints READY: memory is populated, and the clock has not started. Then waits for the start file, if any, so
/// that a manager can attach.
pub fn ready(start_file: Option<&Path>) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "READY {}", std::process::id())?;
    out.flush()?;
    while start_file.is_some_and(|path| !path.exists()) {
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Writes a report as JSON to a file, or to stdout for `-`.
pub fn write(target: &str, report: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    if target == "-" {
        return Ok(io::stdout().lock().write_all(text.as_bytes())?);
    }
    std::fs::write(target, text).with_context(|| format!("cannot write the report {target}"))
}
