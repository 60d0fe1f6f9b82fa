// SPDX-License-Identifier: Apache-2.0
//! What is believed: page hotness from samples, in several forms, and whether placement is settled.

pub mod calm;
pub mod counts;
pub mod hotness;
