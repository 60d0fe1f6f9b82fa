// SPDX-License-Identifier: Apache-2.0
//! The tiering pipeline: look, believe, decide, act. [`engine`] holds the whole journey on one screen.
//!
//! ```text
//!         a world: the model, or Linux              (port)
//!    accesses, faults, counters        ▲ page moves
//!               │                      │
//!    1 tracker  ▼                      │ 4 migrator   budget, batches, retries
//!        samples, faults               │
//!               │                      │ plan (each move says why)
//!    2 telemetry▼                      │
//!        page hotness · tier latency ──► 3 policy ◄── qos: who may use how much
//! ```
//!
//! What never happens here: no file, clock, thread or environment is touched; time and chance are
//! arguments. No order depends on a hash. A policy moves nothing; the migrator invents nothing.
#![forbid(unsafe_code)]

pub mod counters;
pub mod engine;
pub mod event;
pub mod knob;
pub mod lists;
pub mod migrator;
pub mod page;
pub mod policy;
pub mod port;
pub mod qos;
pub mod rng;
pub mod telemetry;
pub mod tier;
pub mod tracker;
pub mod unit;
