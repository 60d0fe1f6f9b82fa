// SPDX-License-Identifier: Apache-2.0
//! A deterministic closed-loop model of a machine with memory tiers.
//!
//! ```text
//!   workload     share of a program's accesses for each page
//!       │
//!   load         cores keep a number of misses in flight; tiers are slower when they are busier
//!       │        (one fixed point per quantum: throughput and loaded latency of everything)
//!   tracker      what a sampler, a scanner or a fault handler would have observed
//!       │
//!   world        pages, moves and counters: `tierline_core::port::World`
//!       │
//!   run          a scenario with a policy of the core's list, and its report
//! ```
//!
//! Rules: the model reads no clock, file or environment (machine files are embedded or passed as text). No order depends
//! on a hash. Floats use only `+ - * /`, so results are identical to the last bit on every machine. The cost of a
//! quantum grows with samples and moves, never with pages.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod cell;
pub mod compare;
pub mod due;
pub mod error;
pub mod fit;
pub mod load;
pub mod machine;
pub mod matrix;
pub mod parallel;
pub mod plan;
pub mod profile;
pub mod qos;
pub mod random;
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
