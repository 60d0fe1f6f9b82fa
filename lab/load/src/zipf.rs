// SPDX-License-Identifier: Apache-2.0
//! Zipf's law by an alias table (Walker 1977, Vose 1991): rank `k` of `n` is drawn with probability
//! proportional to `1 / (k + 1)^s`.
//!
//! One table look-up and no floating point per draw: on an emulated CPU a `pow` costs more than the access
//! itself. The table takes 8 bytes per rank, which are themselves hot memory of the process.

use crate::rng::{Rng, scale};

/// A column of the table: the rank itself below the cut, its alias above.
#[derive(Clone, Copy, Debug)]
struct Column {
    cut: u32,
    alias: u32,
}

/// A sampler of ranks; rank 0 is the most frequent.
#[derive(Clone, Debug)]
pub struct Zipf {
    columns: Vec<Column>,
    len: u32,
}

impl Zipf {
    /// Ranks `0..n` with exponent `s`.
    #[expect(clippy::cast_possible_truncation, reason = "as saturates, and the cut is a fraction")]
    pub fn new(n: u32, s: f64) -> Zipf {
        assert!(n > 0, "at least one rank");
        let mut weight: Vec<f64> = (1..=n).map(|k| f64::from(k).powf(-s)).collect();
        let mean = weight.iter().sum::<f64>() / f64::from(n);
        weight.iter_mut().for_each(|w| *w /= mean);

        let mut columns: Vec<Column> = (0..n).map(|k| Column { cut: u32::MAX, alias: k }).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..n).partition(|&k| weight[k as usize] < 1.0);
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            let w = weight[poor as usize];
            columns[poor as usize] = Column { cut: (w * 4_294_967_296.0) as u32, alias: rich };
            weight[rich as usize] -= 1.0 - w;
            if weight[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Zipf { columns, len: n }
    }

    /// A rank.
    #[inline(always)]
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let x = rng.next();
        let k = scale(x >> 32, self.len);
        let column = self.columns[k as usize];
        if x & 0xffff_ffff < u64::from(column.cut) { k } else { column.alias }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of the draws of the first `head` of `n` ranks, by definition.
    fn head_mass(n: u32, head: u32, s: f64) -> f64 {
        let mass = |m: u32| (1..=m).map(|k| f64::from(k).powf(-s)).sum::<f64>();
        mass(head) / mass(n)
    }

    #[test]
    fn draws_follow_the_analytic_distribution() {
        const DRAWS: u32 = 400_000;
        for (n, s) in [(1000, 0.99), (32_768, 0.8), (32_768, 1.2), (10, 0.0), (1, 1.0)] {
            let zipf = Zipf::new(n, s);
            let mut rng = Rng::new(11);
            let ranks: Vec<u32> = (0..DRAWS).map(|_| zipf.draw(&mut rng)).collect();
            assert!(ranks.iter().all(|&k| k < n));
            for head in [1, n.div_ceil(100), n.div_ceil(10)] {
                let drawn = ranks.iter().filter(|&&k| k < head).count() as f64 / f64::from(DRAWS);
                let mass = head_mass(n, head, s);
                // Four standard deviations of a share.
                let room = 4.0 * (mass * (1.0 - mass) / f64::from(DRAWS)).sqrt() + 1e-9;
                assert!((drawn - mass).abs() <= room, "{n} {s} {head}: {drawn} for {mass}");
            }
        }
    }
}
