// SPDX-License-Identifier: Apache-2.0
//! `hostile`: an address space that is expensive to look at: many mappings, a large reservation, or pages far apart.

use std::time::Duration;
use std::{io, ptr};

use anyhow::{Context, Result};
use libc::c_int;
use serde::Serialize;

use crate::Verdict;
use crate::report;
use crate::unit::{Bytes, PAGE, Span};

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// Number of mappings of one page that cannot be merged
    #[arg(long, default_value_t = 0)]
    mappings: usize,
    /// Unmap and map every second of them again, continuously
    #[arg(long)]
    churn: bool,
    /// Size of a mapping without memory
    #[arg(long, default_value = "0")]
    #[serde(rename = "reserved_bytes")]
    reserve: Bytes,
    /// Number of touched pages that are 16 MiB apart
    #[arg(long, default_value_t = 0)]
    far: usize,
    /// How long to stay
    #[arg(long, default_value = "10s")]
    #[serde(rename = "duration_seconds")]
    duration: Span,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    parameters: &'a Args,
    remapped: u64,
    mismatches: u64,
}

/// The distance of far pages.
const APART: usize = 16 << 20;
const NO_MEMORY: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

pub fn run(args: &Args) -> Result<Verdict> {
    let write = libc::PROT_READ | libc::PROT_WRITE;
    if args.reserve.0 > 0 {
        map(ptr::null_mut(), usize::try_from(args.reserve.0)?, libc::PROT_NONE, NO_MEMORY)?;
    }
    let far = match args.far {
        0 => ptr::null_mut(),
        far => map(ptr::null_mut(), far * APART, write, NO_MEMORY)?,
    };
    for at in 0..args.far {
        // SAFETY: within the mapping, which is writable and nobody else's; aligned to a page.
        unsafe { far.add(at * APART).cast::<usize>().write_volatile(at) };
    }
    // Neighbours of different protection are not merged.
    let many = match args.mappings {
        0 => ptr::null_mut(),
        many => map(ptr::null_mut(), many * PAGE, libc::PROT_NONE, NO_MEMORY)?,
    };
    let remap = |at: usize| -> Result<()> {
        // SAFETY: within the mapping.
        let page = unsafe { many.add(at * PAGE) };
        map(page, PAGE, write, NO_MEMORY | libc::MAP_FIXED)?;
        // SAFETY: the page has just been mapped writable, and is nobody else's.
        unsafe { page.cast::<usize>().write_volatile(at) };
        Ok(())
    };
    (0..args.mappings).step_by(2).try_for_each(remap)?;
    report::ready(None)?;
    let end = std::time::Instant::now() + args.duration.0;
    let mut remapped = 0;
    while std::time::Instant::now() < end {
        if args.churn {
            (0..args.mappings).step_by(2).try_for_each(remap)?;
            remapped += args.mappings as u64 / 2;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let is_wrong = |page: *mut u8, at: usize| {
        // SAFETY: both kinds of pages were mapped and written above.
        unsafe { page.cast::<usize>().read_volatile() != at }
    };
    let far_wrong = (0..args.far).filter(|&at| is_wrong(far.wrapping_add(at * APART), at)).count();
    let many_wrong = (0..args.mappings)
        .step_by(2)
        .filter(|&at| is_wrong(many.wrapping_add(at * PAGE), at))
        .count();
    let mismatches = (far_wrong + many_wrong) as u64;
    report::write(
        &args.report,
        &Report { load: "hostile", parameters: args, remapped, mismatches },
    )?;
    Ok(Verdict::of(mismatches))
}

fn map(at: *mut u8, size: usize, prot: c_int, flags: c_int) -> Result<*mut u8> {
    // SAFETY: a new mapping, or one in place of a page of ours that nothing refers to.
    let mapped = unsafe { libc::mmap(at.cast(), size, prot, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error()).with_context(|| format!("cannot map {size} bytes"));
    }
    Ok(mapped.cast())
}
