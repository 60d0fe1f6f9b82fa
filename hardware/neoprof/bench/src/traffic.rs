// SPDX-License-Identifier: Apache-2.0
//! Traffic at the memory controller: random, skewed, adversarial and recorded.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use neoprof::hash::h3;
use tierline_core::rng::Rng;

/// So many accesses to one page saturate its counters.
const SATURATES: u32 = 70_000;

/// A kind of traffic and its parameters.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Uniform over `pages` pages from `first`.
    Uniform { first: u32, pages: u32 },
    /// Nine of ten accesses go to a few pages.
    Skewed { first: u32, pages: u32, hot: u32 },
    /// A few pages that share counters, valid words or hot words, at every distance, with gaps.
    Meeting { pages: Vec<u32> },
    /// One page in bursts, so that counters saturate and pass through all bins.
    Bursts { page: u32, left: u32 },
    /// A recording, from position `at`.
    Recorded { at: usize },
}

impl Traffic {
    /// Draws a kind at random.
    pub fn draw(rng: &mut Rng, width_log2: u32, recorded: &[(u32, bool)]) -> Self {
        let below = |rng: &mut Rng, n: u64| u32::try_from(rng.below(n)).unwrap_or(0);
        let first = below(rng, 1 << 32) & [0, 0x3f_ffff, u32::MAX][rng.below(3) as usize];
        match rng.below(6) {
            0 => Self::Uniform { first, pages: 1 << below(rng, 23) },
            1 => Self::Skewed { first, pages: 1 << (4 + below(rng, 19)), hot: 1 + below(rng, 400) },
            2 | 3 => Self::Meeting { pages: meeting(rng, width_log2, first) },
            4 => Self::Bursts { page: first, left: [0, SATURATES][rng.below(2) as usize] },
            _ => Self::Recorded { at: rng.below(recorded.len() as u64) as usize },
        }
    }

    /// The next access: page and whether it writes.
    #[inline]
    pub fn next(&mut self, rng: &mut Rng, recorded: &[(u32, bool)]) -> (u32, bool) {
        let bits = rng.next_u64();
        let (low, write) = ((bits & 0xffff_ffff) as u32, bits >> 63 == 1);
        match self {
            Self::Uniform { first, pages } => (first.wrapping_add(low % *pages), write),
            Self::Skewed { first, pages, hot } => {
                let span = if (bits >> 32) % 10 < 9 { *hot } else { *pages };
                (first.wrapping_add(low % span), write)
            }
            Self::Meeting { pages } => (pages[low as usize % pages.len()], write),
            Self::Bursts { page, left } => {
                if *left == 0 {
                    *left = 1 + low % 3000;
                    *page = page.wrapping_add(1 + (low >> 16) % 3);
                }
                *left -= 1;
                (*page, write)
            }
            Self::Recorded { at } => {
                *at = (*at + 1) % recorded.len();
                recorded[*at]
            }
        }
    }
}

/// Pages whose counters are equal or adjacent in some lane, so that they share words of valid and hot bits.
fn meeting(rng: &mut Rng, width_log2: u32, first: u32) -> Vec<u32> {
    let lane = rng.below(2) as usize;
    let shift = [0, 5][rng.below(2) as usize];
    let want = h3(lane, first, width_log2) >> shift;
    let count = 2 + rng.below(5) as usize;
    let mut pages = vec![first];
    let mut page = first;
    for _ in 0..4 << (width_log2 - shift) {
        page = page.wrapping_add(1);
        if h3(lane, page, width_log2) >> shift == want {
            pages.push(page);
        }
        if pages.len() == count {
            break;
        }
    }
    pages
}

/// Accesses of a recorded trace. A trace gives the number of accesses per page and epoch; here the pages of an
/// epoch are accessed in turn.
pub fn recorded(path: &Path) -> Result<Vec<(u32, bool)>> {
    let mut reader = tierline_trace::Reader::new(File::open(path)?)?;
    let (mut accesses, mut epoch) = (Vec::new(), Vec::new());
    loop {
        match reader.next()? {
            Some(tierline_trace::Block::Pages { records, .. }) => epoch.extend_from_slice(records),
            other => {
                let end = other.is_none();
                in_turn(&mut accesses, &epoch);
                epoch.clear();
                if end {
                    return Ok(accesses);
                }
            }
        }
    }
}

fn in_turn(accesses: &mut Vec<(u32, bool)>, epoch: &[tierline_trace::Record]) {
    const TURNS_MAX: u32 = 200;
    for turn in 0..TURNS_MAX {
        for record in epoch {
            let page = (record.page & 0xffff_ffff) as u32;
            if turn < record.reads {
                accesses.push((page, false));
            }
            if turn < record.writes {
                accesses.push((page, true));
            }
        }
    }
}
