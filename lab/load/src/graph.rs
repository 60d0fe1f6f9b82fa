// SPDX-License-Identifier: Apache-2.0
//! `graph`: two kernels on a graph whose in-degrees follow a power law, as in GAPBS: PageRank, then connected
//! components by label propagation. Edges are streamed; the data of hubs is hot. The second kernel has data of its
//! own, so the hot set changes when it starts. The work is fixed.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::Verdict;
use crate::marker::{self, mark};
use crate::report;
use crate::rng::{Rng, hash};
use crate::sys;

#[derive(clap::Args, Clone, Debug, Serialize)]
pub struct Args {
    /// Number of vertices, as a power of two
    #[arg(long, default_value_t = 22, value_parser = clap::value_parser!(u32).range(4..=28))]
    scale: u32,
    /// Edges of a vertex
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=64))]
    degree: u32,
    /// Iterations of each kernel
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// Node on which the memory is populated, as long as it has room
    #[arg(long, default_value_t = 1)]
    node: u32,
    /// Seed of every random choice
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Where to write the JSON report; - is stdout
    #[arg(long, default_value = "-")]
    #[serde(skip)]
    report: String,
}

#[derive(Serialize)]
struct Report<'a> {
    load: &'static str,
    pid: u32,
    parameters: &'a Args,
    elapsed_seconds: f64,
    /// Edges visited.
    accesses: u64,
    /// Sum of all ranks; the distance from 1 is rounding.
    rank_sum: f64,
    /// Vertices with a label smaller than their own number.
    labelled: usize,
}

/// The memory of both kernels, populated before the measured phase.
struct Graph {
    degree: usize,
    /// Heads of the edges, `degree` for each vertex.
    heads: Vec<u32>,
    rank: Vec<f64>,
    sums: Vec<f64>,
    labels: Vec<u32>,
}

impl Graph {
    /// The head of an edge is a uniform number, cubed, so that few vertices have most edges; a hash scatters them.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^scale")]
    fn new(args: &Args) -> Graph {
        let vertices = 1usize << args.scale;
        let mut rng = Rng::new(args.seed);
        let mask = (1u64 << args.scale) - 1;
        let edges = vertices * args.degree as usize;
        let head = |_| {
            let uniform = (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
            let low = (uniform * uniform * uniform * vertices as f64) as u64;
            // An odd factor is a permutation modulo a power of two.
            (low.wrapping_mul(hash(args.seed, 1) | 1) & mask) as u32
        };
        let heads = (0..edges).map(head).collect();
        let rank = vec![1.0 / vertices as f64; vertices];
        // Not zeroed, as zeroed pages would not be populated.
        let sums = rank.clone();
        let labels = (0..1u32 << args.scale).collect();
        Graph { degree: args.degree as usize, heads, rank, sums, labels }
    }

    fn page_rank(&mut self) {
        let base = 0.15 / self.rank.len() as f64;
        self.sums.fill(base);
        for (heads, rank) in self.heads.chunks_exact(self.degree).zip(&self.rank) {
            let share = 0.85 * rank / self.degree as f64;
            heads.iter().for_each(|&head| self.sums[head as usize] += share);
        }
        std::mem::swap(&mut self.rank, &mut self.sums);
    }

    fn propagate(&mut self) {
        for vertex in 0..self.labels.len() {
            let heads = &self.heads[vertex * self.degree..][..self.degree];
            let least = heads.iter().map(|&head| self.labels[head as usize]).min();
            let least = least.unwrap_or(u32::MAX).min(self.labels[vertex]);
            self.labels[vertex] = least;
            heads.iter().for_each(|&head| self.labels[head as usize] = least);
        }
    }
}

pub fn run(args: &Args) -> Result<Verdict> {
    let mut graph = sys::on_node(args.node, || Graph::new(args))?;
    report::ready(None)?;
    let start = Instant::now();
    mark::<{ marker::START }>();
    (0..args.rounds).for_each(|_| graph.page_rank());
    mark::<{ marker::JUMP }>();
    (0..args.rounds).for_each(|_| graph.propagate());
    mark::<{ marker::END }>();
    let rank_sum: f64 = graph.rank.iter().sum();
    ensure!((rank_sum - 1.0).abs() < 1e-6, "the ranks add up to {rank_sum} instead of 1");
    report::write(
        &args.report,
        &Report {
            load: "graph",
            pid: std::process::id(),
            parameters: args,
            elapsed_seconds: start.elapsed().as_secs_f64(),
            accesses: 2 * u64::from(args.rounds) * graph.heads.len() as u64,
            rank_sum,
            labelled: (0..).zip(&graph.labels).filter(|&(own, &label)| label < own).count(),
        },
    )?;
    Ok(Verdict::Good)
}
