// SPDX-License-Identifier: Apache-2.0
//! Workloads: programs as distributions of accesses, with the parallelism of their cores.

pub mod antagonist;
pub mod datacenter;
pub mod graph;
pub mod gups;
pub mod kv;
pub mod latest;
pub mod liblinear;
pub mod list;
pub mod order;
pub mod pagerank;
pub mod pattern;
pub mod places;
pub mod program;
pub mod replay;
pub mod scan;
pub mod xsbench;

pub use order::Order;
pub use pattern::{Band, Census, Pattern};
pub use program::{Change, Layout, Phase, Placement, Program, Reach};
