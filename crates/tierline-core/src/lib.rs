// SPDX-License-Identifier: Apache-2.0
//! The tiering pipeline.
#![forbid(unsafe_code)]

pub mod policy;
pub mod port;
pub mod tier;
pub mod unit;
