// SPDX-License-Identifier: Apache-2.0
//! The binary. It decides nothing: it reads the command line, drives the manager, and prints.
#![forbid(unsafe_code)]

mod api;
mod apps;
mod calibration;
mod cli;
mod clock;
mod config;
mod daemon;
mod document;
mod drive;
mod files;
mod metrics;
mod nearest;
mod notify;
mod openmetrics;
mod output;
mod parquet;
mod plot;
mod print;
mod progress;
mod recording;
mod report_cache;
mod report_error;
mod request;
mod roster;
mod rules;
mod serve;
mod signals;
mod status;
mod tenants;

/// Page words in huge pages.
#[global_allocator]
static ALLOCATOR: tierline_linux::huge_alloc::HugeAlloc = tierline_linux::huge_alloc::HugeAlloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
