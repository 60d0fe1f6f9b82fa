// SPDX-License-Identifier: Apache-2.0
//! NeoProf (NeoMem, MICRO 2024, Section IV): the unit in a memory device that counts the accesses to every page
//! with a Count-Min sketch and reports hot pages to the host. This crate is the reference model. The hardware
//! in `hardware/neoprof` must agree with it in every bit of every register.
//!
//! ```text
//!   access ─► page monitor ─► H3 ─► D lanes of counters ─► min > θ ─► new? ─► hot pages, or the CHMU's hotlist
//!      └────► state monitor            └─► histogram ─► error bound
//! ```
//!
//! ```
//! let mut neoprof = neoprof::NeoProf::new(neoprof::Config::default());
//! neoprof.set_threshold(2);
//! (0..5).for_each(|_| neoprof.access(0x1234, false));
//! assert_eq!(neoprof.pop_hot(), Some(0x1234)); // once, at the third access
//! assert_eq!(neoprof.pop_hot(), None);
//! ```
//!
//! No I/O, no clock, no randomness: the same calls give the same results.
#![forbid(unsafe_code)]

mod chmu;
mod config;
mod device;
pub mod driver;
pub mod hash;
pub mod histogram;
mod monitor;
pub mod rates;
pub mod registers;
mod sketch;

pub use config::{Config, LANES_MAX};
pub use device::{NO_PAGE, NeoProf};
pub use driver::{Driver, Registers};
pub use histogram::Histogram;
pub use monitor::State;
