// SPDX-License-Identifier: Apache-2.0
//! Memory traces: which pages a program read and wrote, epoch by epoch.
//!
//! ```text
//!   convert   text and binary of other tools ─┐
//!   cache     raw accesses → misses           ├─► tally   counts per page ─► write ─► FILE
//!   (record)  observations of a tracker       ┘             per epoch                  │
//!                                                                                      ▼
//!   survey · edit · replay in the model  ◄──────────────────────────────────────────  read
//! ```
//!
//! The format is described in `docs/design/trace-format.md`. Reader and writer hold one block in memory,
//! whatever the length of the trace. This crate knows no policies, machines or kernels.
#![forbid(unsafe_code)]

pub mod cache;
pub mod convert;
pub mod edit;
pub mod error;
pub mod format;
pub mod page_set;
pub mod read;
pub mod survey;
pub mod tally;
pub mod write;

pub use error::{Error, Result};
pub use format::{Epoch, Evidence, Header, Record};
pub use read::{Block, Reader};
pub use write::Writer;
