// SPDX-License-Identifier: Apache-2.0
//! What is believed: page hotness from samples, and whether placement is settled.

pub mod calm;
pub mod hotness;
