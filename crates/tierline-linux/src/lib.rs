// SPDX-License-Identifier: Apache-2.0
//! World B: a running Linux. The only crate of the product with `unsafe`; every path hangs from a
//! root that a test can replace with a folder.

pub mod error;
pub mod root;
pub mod tracker;
