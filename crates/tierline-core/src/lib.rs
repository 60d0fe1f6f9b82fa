// SPDX-License-Identifier: Apache-2.0
//! The tiering pipeline: observe, estimate, decide, act. [`engine`] shows the whole of it on one screen.
//!
//! ```text
//!         a world: the model, or Linux              (port)
//!    accesses, faults, counters        ▲ page moves
//!               │                      │
//!    1 tracker  ▼                      │ 4 migrator   budget, batches, retries
//!        samples, faults               │
//!               │                      │ plan (each move with its reason)
//!    2 telemetry▼                      │
//!        page hotness · tier latency ──► 3 policy ◄── qos: limits of tenants
//! ```
//!
//! This crate touches no file, clock, thread or environment: time and random numbers are arguments. No order
//! depends on a hash. A policy moves nothing itself; the migrator carries out orders and adds none.
#![forbid(unsafe_code)]

pub mod counters;
pub mod engine;
pub mod event;
pub mod intake;
pub mod knob;
pub mod lists;
pub mod migrator;
pub mod page;
pub mod policy;
pub mod port;
pub mod qos;
pub mod questions;
pub mod rng;
pub mod telemetry;
pub mod tier;
pub mod unit;
