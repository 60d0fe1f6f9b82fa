// SPDX-License-Identifier: Apache-2.0
//! World A: a deterministic closed-loop model of a machine with tiers.
//!
//! ```text
//!   workload     which page gets which share of a program's accesses
//!       │
//!   load         cores keep so many misses in flight; tiers answer the slower the fuller they are
//!       │        (one fixed point a quantum: throughput and loaded latency of everything)
//!   tracker      what a sampler, a scanner or a fault handler would have seen of it
//!       │
//!   world        pages, moves and counters: `tierline_core::port::World`
//!       │
//!   run          a scenario with a policy of the core's list, and what came of it
//! ```
//!
//! What never happens here: no clock, file, thread or environment is read (machine files are embedded
//! or passed in as text); no order depends on a hash; no arithmetic but `+ - * /` on floats, so that
//! results are the same to the last bit on every machine. A quantum costs samples and moves, never
//! pages.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod compare;
pub mod due;
pub mod error;
pub mod fit;
pub mod load;
pub mod machine;
pub mod matrix;
pub mod parallel;
pub mod profile;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod runner;
pub mod scenario;
pub mod tenant;
pub mod text;
pub mod tracker;
pub mod workload;
pub mod world;
