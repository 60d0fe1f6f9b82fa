// SPDX-License-Identifier: Apache-2.0
//! Traces for replay in the model: read from their files, one epoch at a time.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tierline_core::port::PageSize;
use tierline_core::unit::BASE_PER_HUGE;
use tierline_model::workload::replay::{Epochs, Recorded, Recording};
use tierline_trace::page_set::PageSet;
use tierline_trace::survey::Survey;
use tierline_trace::{Block, Evidence, Reader, Record};

use crate::print::to_stderr;
use crate::report_error::ErrorWithHint;

/// Opens a trace.
pub fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

/// Surveys a trace. An error in it is printed, and the part before it is used.
pub fn survey(path: &Path) -> Result<Survey> {
    let taken = Survey::take(open(path)?).map_err(|error| not_a_trace(path, &error))?;
    if let (survey, Some(error)) = &taken {
        let epochs = survey.epochs.saturating_sub(1);
        to_stderr(&format!(
            "tierline: {}: {error}; the {epochs} whole epochs before that are used",
            path.display()
        ));
    }
    Ok(taken.0)
}

/// An error of a trace, with its file.
pub fn not_a_trace(path: &Path, error: &tierline_trace::Error) -> anyhow::Error {
    let hint = "`tierline trace convert --help` lists the formats that can be converted";
    ErrorWithHint::error(format!("{}: {error}", path.display()), hint)
}

/// A recorded program in a file.
pub struct FileRecording {
    path: PathBuf,
    page_bits: u8,
    evidence: Evidence,
    base: Arc<PageSet>,
    huge: Arc<PageSet>,
}

impl FileRecording {
    /// Surveys the file.
    pub fn open(path: &Path) -> Result<Self> {
        let survey = survey(path)?;
        let page_bits = survey.header.page_bits;
        let of = |size| {
            let mut pages = PageSet::default();
            if let Some(shift) = shift(size, page_bits) {
                for (space, page) in survey.pages.iter() {
                    let record = Record { page: page >> shift, ..Record::default() };
                    // No more pages than the survey has, in fewer places.
                    let _ = pages.insert(space, &[record]);
                }
            }
            pages.number();
            Arc::new(pages)
        };
        let (base, huge) = (of(PageSize::Base), of(PageSize::Huge));
        let evidence = survey.header.evidence;
        Ok(Self { path: path.into(), page_bits, evidence, base, huge })
    }

    fn set(&self, size: PageSize) -> &Arc<PageSet> {
        if size == PageSize::Huge { &self.huge } else { &self.base }
    }
}

/// The difference in bits between a page number of the trace and one of the model.
fn shift(size: PageSize, page_bits: u8) -> Option<u32> {
    let own = if size == PageSize::Huge { 12 + BASE_PER_HUGE.ilog2() } else { 12 };
    own.checked_sub(page_bits.into())
}

impl Recording for FileRecording {
    fn pages(&self, size: PageSize) -> u32 {
        u32::try_from(self.set(size).len()).unwrap_or(u32::MAX)
    }

    fn size(&self) -> PageSize {
        if self.page_bits <= 12 { PageSize::Base } else { PageSize::Huge }
    }

    fn open(&self, size: PageSize) -> Box<dyn Epochs> {
        let reader = open(&self.path).ok().and_then(|file| Reader::new(file).ok());
        Box::new(FileEpochs {
            reader,
            next_ns: None,
            shift: shift(size, self.page_bits).unwrap_or(0),
            pages: self.set(size).clone(),
            counted: self.evidence != Evidence::Touched,
        })
    }
}

struct FileEpochs {
    /// `None` once the trace has ended, with or without an error.
    reader: Option<Reader<BufReader<File>>>,
    /// The time of the epoch whose head was already read.
    next_ns: Option<u64>,
    shift: u32,
    pages: Arc<PageSet>,
    counted: bool,
}

impl Epochs for FileEpochs {
    fn next(&mut self, epoch: &mut Recorded) -> bool {
        epoch.pages.clear();
        epoch.counted = self.counted;
        let mut ns = self.next_ns.take();
        let whole = loop {
            let Some(reader) = &mut self.reader else { break false };
            match reader.next() {
                Ok(Some(Block::Epoch(head))) => match ns.replace(head.ns) {
                    None => {}
                    this => {
                        self.next_ns = ns;
                        ns = this;
                        break true;
                    }
                },
                Ok(Some(Block::Pages { space, records })) => {
                    epoch.pages.extend(records.iter().filter_map(|record| {
                        let page = self.pages.index(space, record.page >> self.shift)?;
                        Some((page, f64::from(record.reads), f64::from(record.writes)))
                    }));
                }
                Ok(None) => {
                    self.reader = None;
                    break ns.is_some();
                }
                Err(_) => self.reader = None, // printed when the trace was surveyed
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "an epoch is far below 2^52 ns")]
        let recorded = ns.unwrap_or(0) as f64;
        epoch.ns = recorded;
        if !whole {
            return false;
        }
        epoch.pages.sort_unstable_by_key(|page| page.0);
        epoch.pages.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                (kept.1, kept.2) = (kept.1 + next.1, kept.2 + next.2);
            }
            same
        });
        true
    }
}
