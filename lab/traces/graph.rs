// SPDX-License-Identifier: Apache-2.0
//! PageRank and a breadth-first search on a Kronecker graph, as in GAPBS: hubs are hot, edges are streamed.
//! Compiled by `record` with plain rustc.

const SCALE: u32 = 14;
const DEGREE: u32 = 8;
const ROUNDS: u32 = 3;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// An edge by the quadrant probabilities of Graph500: 0.57, 0.19, 0.19, 0.05.
fn edge(state: &mut u64) -> (u32, u32) {
    (0..SCALE).fold((0, 0), |(from, to), _| {
        let (a, b) = match random(state) % 100 {
            0..57 => (0, 0),
            57..76 => (0, 1),
            76..95 => (1, 0),
            _ => (1, 1),
        };
        (from << 1 | a, to << 1 | b)
    })
}

fn main() {
    let vertices = 1usize << SCALE;
    let mut state = 88_172_645_463_325_252;
    let edges: Vec<(u32, u32)> = (0..DEGREE << SCALE).map(|_| edge(&mut state)).collect();
    let mut starts = vec![0u32; vertices + 1];
    edges.iter().for_each(|edge| starts[edge.0 as usize + 1] += 1);
    (0..vertices).for_each(|v| starts[v + 1] += starts[v]);
    let (mut next, mut targets) = (starts.clone(), vec![0u32; edges.len()]);
    for (from, to) in edges {
        targets[next[from as usize] as usize] = to;
        next[from as usize] += 1;
    }
    let out = |v: usize| &targets[starts[v] as usize..starts[v + 1] as usize];

    let mut rank = vec![1.0 / vertices as f64; vertices];
    for _ in 0..ROUNDS {
        let mut sums = vec![0.15 / vertices as f64; vertices];
        for v in 0..vertices {
            let share = 0.85 * rank[v] / out(v).len().max(1) as f64;
            out(v).iter().for_each(|&to| sums[to as usize] += share);
        }
        rank = sums;
    }

    let mut depth = vec![u32::MAX; vertices];
    let (mut front, mut level) = (vec![0u32], 0);
    depth[0] = 0;
    while !front.is_empty() {
        level += 1;
        let mut found = Vec::new();
        for v in front {
            for &to in out(v as usize) {
                if depth[to as usize] == u32::MAX {
                    depth[to as usize] = level;
                    found.push(to);
                }
            }
        }
        front = found;
    }
    println!("{level} levels, rank of 0: {}", rank[0]);
}
