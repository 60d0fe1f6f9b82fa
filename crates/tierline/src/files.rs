// SPDX-License-Identifier: Apache-2.0
//! The files that a command names for the model: machines, scenarios and traces. Every command opens them here.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tierline_model::cell::Files;
use tierline_model::workload::replay::Recording;

use crate::recording::FileRecording;

/// Files of this machine. Each trace is surveyed once.
#[derive(Default)]
pub struct Disk {
    recordings: RefCell<BTreeMap<String, Arc<dyn Recording>>>,
}

impl Files for Disk {
    type Error = anyhow::Error;

    fn text(&self, file: &str) -> Result<String> {
        fs::read_to_string(file).with_context(|| format!("cannot read {file}"))
    }

    fn recording(&self, file: &str) -> Result<Arc<dyn Recording>> {
        if let Some(known) = self.recordings.borrow().get(file) {
            return Ok(Arc::clone(known));
        }
        let opened: Arc<dyn Recording> = Arc::new(FileRecording::open(Path::new(file))?);
        self.recordings.borrow_mut().insert(file.into(), Arc::clone(&opened));
        Ok(opened)
    }
}
