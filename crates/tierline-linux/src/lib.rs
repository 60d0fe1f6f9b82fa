// SPDX-License-Identifier: Apache-2.0
//! The engine's world on a running Linux. The only crate of the product with `unsafe`; every path is
//! relative to a root that a test can replace with a folder.

mod balancing;
pub mod btf;
pub mod calibrate;
pub mod cgroup;
pub mod cha;
pub mod conflicts;
pub mod doctor;
pub mod error;
pub mod huge_alloc;
pub mod journal;
pub mod kcore;
pub mod kernel_tiering;
pub mod latency_probe;
pub mod loaded_latency;
pub mod manager;
pub mod mover;
pub mod nodes;
pub mod orders;
pub mod page_cache;
pub mod pagemap;
pub mod pagetable;
pub mod peer;
pub mod perf;
pub mod privilege;
pub mod process;
pub mod recorder;
pub mod resctrl;
pub mod root;
pub mod seccomp;
pub mod state_dir;
pub mod systemd;
pub mod telemetry;
pub mod tenant;
pub mod topology;
pub mod tracker;
pub mod user;
pub mod world;
