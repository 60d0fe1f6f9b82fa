// SPDX-License-Identifier: Apache-2.0
//! The API of a daemon: JSON over HTTP on a unix socket, described by `openapi.json`.
//!
//! It runs in a thread of its own. The manager hands it a snapshot when one is wanted, and takes changes between two
//! steps; neither ever waits for a caller.

pub mod client;
mod feed;
mod http;
mod limits;
mod routes;
mod server;

pub use feed::{Feed, Snapshot, feed};
pub use limits::COUNTS;
pub use server::{ApiOptions, start};

/// The document that describes this API.
pub const OPENAPI: &str = include_str!("openapi.json");
