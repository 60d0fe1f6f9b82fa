// SPDX-License-Identifier: Apache-2.0
//! The best placement of accesses: a bound on what any placement of pages can reach.
//!
//! Maximises the sum of programs' speeds, each relative to the program alone in the fastest tier, over all placements of
//! their memory in the tiers' sizes. The speeds are those of the closed loop ([`solve`](crate::load::solve())) without
//! copying and stalls.
//!
//! Memory is a list of parts with one density of accesses each. A step takes two tiers: it ranks the parts by what a
//! byte gains in the upper one, computes the placement that follows the ranking, and goes towards it as far as the
//! speeds rise (golden section). With one program and two tiers one step is the exact search over the share of the upper
//! tier. Several programs can have several maxima, so the search starts with each of them hottest first.

use crate::load::{Class, Loads, Network, PerTier, solve};

/// Steps of the golden section: 0.618^18 is below a thousandth.
const SECTIONS: u32 = 18;
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Rounds over all pairs of tiers.
const ROUNDS: u32 = 12;
/// A relative gain below this ends the search.
const CLOSE: f64 = 1e-6;
/// Accesses that are moved to measure the gain, as a share of a program's.
const PROBE: f64 = 1e-4;
/// A change of a figure by less than this share does not start a new search. Far below the error of half a percent that
/// is promised.
const SAME: f64 = 1e-3;

/// Memory with one density of accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The program, an index into the classes.
    pub program: usize,
    /// Its share of the program's accesses.
    pub accesses: f64,
    /// Its base pages.
    pub base_pages: f64,
    /// Writes, and waits, per read.
    pub writes: f64,
    /// See `writes`.
    pub exposed: f64,
    /// The share of its base pages in each tier at present.
    pub now: PerTier,
}

/// What is to be placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// All programs; those without parts stay as they are.
    pub classes: Vec<Class>,
    /// Reads per ns alone in the fastest tier, by program.
    pub alone: Vec<f64>,
    /// The memory to be placed.
    pub parts: Vec<Part>,
    /// Base pages for it, by tier.
    pub room: Vec<f64>,
    /// Whether no part may be in faster memory than at present.
    pub as_moved: bool,
}

/// The search, with its last result.
#[derive(Clone, Debug, Default)]
pub struct Search {
    problem: Problem,
    found: Placed,
    loads: Loads,
}

/// Share of each part's base pages by tier.
type Placed = Vec<PerTier>;

impl Search {
    /// The classes at the best placement.
    pub fn best(&mut self, network: &Network, problem: Problem) -> Vec<Class> {
        if !problem.is_like(&self.problem) {
            self.found = self.search(network, &problem);
            self.problem = problem.clone();
        }
        problem.classes_at(&self.found)
    }

    fn search(&mut self, network: &Network, problem: &Problem) -> Placed {
        let mut best: Option<(f64, Placed)> = None;
        for start in problem.starts() {
            let (speed, placed) = self.climb(network, problem, start);
            if best.as_ref().is_none_or(|(most, _)| speed > *most) {
                best = Some((speed, placed));
            }
        }
        best.map(|(_, placed)| placed).unwrap_or_default()
    }

    fn climb(&mut self, network: &Network, problem: &Problem, start: Placed) -> (f64, Placed) {
        let mut at = start;
        let mut speed = self.speed(network, problem, &problem.classes_at(&at));
        for _ in 0..ROUNDS {
            let before = speed;
            for upper in 0..problem.room.len() {
                for lower in upper + 1..problem.room.len() {
                    speed = self.step(network, problem, &mut at, [upper, lower]).max(speed);
                }
            }
            if speed <= before * (1.0 + CLOSE) {
                break;
            }
        }
        (speed, at)
    }

    /// Exchanges memory between two tiers. Returns the new speed.
    fn step(
        &mut self,
        network: &Network,
        problem: &Problem,
        at: &mut Placed,
        tiers: [usize; 2],
    ) -> f64 {
        let from = problem.classes_at(at);
        let target = problem.ranked(at, &self.gains(network, problem, &from, tiers), tiers);
        let to = problem.classes_at(&target);
        let along = |way: f64| -> Vec<Class> {
            from.iter().zip(&to).map(|(from, to)| between(from, to, way)).collect()
        };
        let (mut low, mut high) = (0.0, 1.0);
        let (mut a, mut b) = (high - GOLDEN, low + GOLDEN);
        let mut speeds = [a, b].map(|way| self.speed(network, problem, &along(way)));
        for _ in 0..SECTIONS {
            match speeds[0] < speeds[1] {
                true => {
                    (low, a, speeds[0]) = (a, b, speeds[1]);
                    b = low + GOLDEN * (high - low);
                    speeds[1] = self.speed(network, problem, &along(b));
                }
                false => {
                    (high, b, speeds[1]) = (b, a, speeds[0]);
                    a = high - GOLDEN * (high - low);
                    speeds[0] = self.speed(network, problem, &along(a));
                }
            }
        }
        let ways = [0.0, 0.5 * (low + high), 1.0];
        let speeds = ways.map(|way| self.speed(network, problem, &along(way)));
        let most = (1..3).fold(0, |most, way| if speeds[way] > speeds[most] { way } else { most });
        for (now, then) in at.iter_mut().zip(&target) {
            for (now, then) in now.iter_mut().zip(then) {
                *now += ways[most] * (then - *now);
            }
        }
        speeds[most]
    }

    /// What each part's program gains by accesses in the upper instead of the lower tier, per access.
    fn gains(
        &mut self,
        network: &Network,
        problem: &Problem,
        classes: &[Class],
        [upper, lower]: [usize; 2],
    ) -> Vec<f64> {
        let speed = self.speed(network, problem, classes);
        let mut known: Vec<(usize, f64, f64, f64)> = Vec::new();
        let mut gains = Vec::with_capacity(problem.parts.len());
        for part in &problem.parts {
            let same = |&&(program, writes, exposed, _): &&(usize, f64, f64, f64)| {
                program == part.program && writes == part.writes && exposed == part.exposed
            };
            if let Some(&(.., gain)) = known.iter().find(same) {
                gains.push(gain);
                continue;
            }
            let mut one = |tier: usize| {
                let mut probed = classes.to_vec();
                part.add(&mut probed[part.program], tier, PROBE);
                self.speed(network, problem, &probed) - speed
            };
            let gain = one(upper) - one(lower);
            known.push((part.program, part.writes, part.exposed, gain));
            gains.push(gain);
        }
        gains
    }

    fn speed(&mut self, network: &Network, problem: &Problem, classes: &[Class]) -> f64 {
        solve(network, classes, &mut self.loads);
        let speeds = self.loads.reads_per_ns.iter().zip(&problem.alone);
        speeds.filter(|(_, alone)| **alone > 0.0).map(|(rate, alone)| rate / alone).sum()
    }
}

impl Part {
    fn add(&self, class: &mut Class, tier: usize, accesses: f64) {
        class.reads[tier] += accesses;
        class.writes[tier] += accesses * self.writes;
        class.waits[tier] += accesses * self.exposed;
    }
}

impl Problem {
    /// Whether the best placement of the other can serve.
    fn is_like(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs().max(b.abs());
        let alike = |a: &Part, b: &Part| {
            a.program == b.program
                && near(a.accesses, b.accesses)
                && near(a.base_pages, b.base_pages)
                && (!self.as_moved || a.now == b.now)
        };
        self.classes == other.classes
            && self.as_moved == other.as_moved
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(a, b)| alike(a, b))
            && self.room.iter().zip(&other.room).all(|(&a, &b)| near(a, b))
    }

    /// The classes with their memory at these places.
    fn classes_at(&self, placed: &Placed) -> Vec<Class> {
        let mut classes = self.classes.clone();
        for part in &self.parts {
            let class = &mut classes[part.program];
            *class =
                Class { in_flight: class.in_flight, think_ns: class.think_ns, ..Class::default() };
        }
        for (part, placed) in self.parts.iter().zip(placed) {
            for (tier, share) in placed.iter().enumerate() {
                part.add(&mut classes[part.program], tier, part.accesses * share);
            }
        }
        classes
    }

    /// Hottest first, all programs alike; and each program before the others. Or as moved.
    fn starts(&self) -> Vec<Placed> {
        if self.as_moved {
            return vec![self.parts.iter().map(|part| part.now).collect()];
        }
        let mut programs: Vec<usize> = self.parts.iter().map(|part| part.program).collect();
        programs.dedup();
        let firsts = programs.iter().copied().map(Some).filter(|_| programs.len() > 1);
        [None].into_iter().chain(firsts).map(|first| self.packed(first)).collect()
    }

    fn packed(&self, first: Option<usize>) -> Placed {
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        let rank = |&at: &usize| {
            let part = &self.parts[at];
            (first == Some(part.program), part.accesses / part.base_pages)
        };
        order.sort_by(|a, b| {
            let ((a_first, a_heat), (b_first, b_heat)) = (rank(a), rank(b));
            b_first.cmp(&a_first).then(b_heat.total_cmp(&a_heat))
        });
        let mut placed = vec![PerTier::default(); self.parts.len()];
        let (mut tier, mut room) = (0, self.room.first().copied().unwrap_or(0.0));
        for at in order {
            let (all, mut left) = (self.parts[at].base_pages, self.parts[at].base_pages);
            while left > 0.0 {
                // The slowest tier takes what is left.
                let last = tier + 1 >= self.room.len();
                let takes = if last { left } else { left.min(room) };
                placed[at][tier] += takes / all;
                left -= takes;
                room -= takes;
                if !last && room <= 0.0 {
                    tier += 1;
                    room = self.room[tier];
                }
            }
        }
        placed
    }

    /// The placement of the memory in two tiers by what a base page gains in the upper one.
    fn ranked(&self, at: &Placed, gains: &[f64], [upper, lower]: [usize; 2]) -> Placed {
        let worth =
            |part: usize| gains[part] * self.parts[part].accesses / self.parts[part].base_pages;
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)));
        let in_both =
            |part: usize| (at[part][upper] + at[part][lower]) * self.parts[part].base_pages;
        let all: f64 = order.iter().map(|&part| in_both(part)).sum();
        let wanted: f64 = order.iter().filter(|&&p| worth(p) > 0.0).map(|&p| in_both(p)).sum();
        let least = (all - self.room[lower]).max(0.0);
        let mut left = wanted.max(least).min(self.room[upper]);
        let mut target = at.clone();
        for part in order {
            let here = in_both(part);
            let up = here.min(left).min(self.limit(part, &at[part], [upper, lower]));
            left -= up;
            target[part][upper] = up / self.parts[part].base_pages;
            target[part][lower] = (here - up) / self.parts[part].base_pages;
        }
        target
    }

    /// Base pages of a part that may be in the upper of two tiers.
    fn limit(&self, part: usize, at: &PerTier, [upper, lower]: [usize; 2]) -> f64 {
        if !self.as_moved {
            return f64::INFINITY;
        }
        let Part { now, base_pages, .. } = &self.parts[part];
        let until = |tier: usize| -> f64 { (0..=tier).map(|t| now[t] - at[t]).sum() };
        let more = (upper..lower).map(until).fold(f64::INFINITY, f64::min);
        (at[upper] + more).max(0.0) * base_pages
    }
}

/// A class part of the way from one to another.
fn between(from: &Class, to: &Class, way: f64) -> Class {
    let mix = |a: &PerTier, b: &PerTier| -> PerTier {
        std::array::from_fn(|t: usize| (a[t] + way * (b[t] - a[t])).max(0.0))
    };
    Class {
        reads: mix(&from.reads, &to.reads),
        writes: mix(&from.writes, &to.writes),
        waits: mix(&from.waits, &to.waits),
        ..*from
    }
}
