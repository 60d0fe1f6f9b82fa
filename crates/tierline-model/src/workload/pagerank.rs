// SPDX-License-Identifier: Apache-2.0
//! pagerank: builds a graph and iterates over it, as GAPBS does from start to end.
//!
//! What it does: generates a list of edges sequentially, and renames their ends through a shuffled array.
//! Counts degrees and fills the rows of a matrix, each edge at two random places; frees the list. Copies the
//! rows, sorted, into the graph and frees them. Then iterates: streams the graph and gathers contributions at
//! random. Fast memory is full of data that is no longer needed while the needed data is built, and empty after
//! the former is freed.
//! Where it comes from: GAPBS (`generator.h`, `builder.h`, `pr.cc`), a Kronecker graph of 16 edges per vertex,
//! undirected, so each edge is in two rows, in NeoMem (MICRO 2024, table VI: TPP's times to generate and to
//! build). Ours: how these times are divided, the duration of squishing, and the cache misses, all derived
//! below. The phases have fixed durations; the amount of work done in them is the result.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use super::knob::{MAX_THREADS, MAX_TIME, program_knobs};
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct PageRank {
        /// log2 of the number of vertices.
        scale: u32 = 26, 16, 34;
        /// Threads.
        threads: f64 = 32.0, 0.0, MAX_THREADS;
        /// Duration of generating the list.
        generate: Nanos = Nanos::from_millis(10_670), Nanos::from_secs(1), MAX_TIME;
        /// Duration of building the matrix.
        build: Nanos = Nanos::from_millis(35_670), Nanos::from_secs(1), MAX_TIME;
        /// Duration of squishing: ours, to sort 2³¹ ends and to copy 8 GiB from slow memory.
        squish: Nanos = Nanos::from_secs(5), Nanos::from_secs(1), MAX_TIME;
    }
}

/// End times of its phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Edges are drawn.
    pub drawn: Nanos,
    /// The array of new names is shuffled.
    pub shuffled: Nanos,
    /// The ends are renamed; generation is complete.
    pub generated: Nanos,
    /// Degrees are counted.
    pub counted: Nanos,
    /// The matrix is filled; building is complete.
    pub built: Nanos,
    /// The graph is complete.
    pub squished: Nanos,
}

/// Edges per vertex (`-k`, default).
const DEGREE: u64 = 16;
/// Shares of generation in percent. A core draws 26 numbers per edge in 100 ns, 3.4 s on all cores. One core
/// swaps 2²⁶ names, of which three in four miss the cache, 5.3 s in slow memory. 2³¹ names are looked up, of
/// which a third misses, 2.3 s.
const DRAW: u64 = 31;
const SHUFFLE: u64 = 48;
/// Share of building in percent, by cache misses.
const COUNT: u64 = 23;

/// Lines missed per line of eight edges, i.e. sixteen ends, each of which accesses another place. Of degrees,
/// contributions and names a third misses; of a row's next free place (eight per line) half; of the rows 0.56.
/// Ends have the frequencies of R-MAT with 0.57, 0.19, 0.19: before renaming, each bit of a vertex number is 0
/// with probability 0.76. The cache is the L3 of a Xeon 6430, 60 MB, LRU (Che's approximation), minus the share
/// taken by streams.
const GATHERED: f64 = 16.0 * 0.32;
const CURSORS: f64 = 16.0 * 0.51;
const FILLED: f64 = 16.0 * 0.56;
/// The vertices' own values, sixteen per line, per line of edges.
const OWN: f64 = 1.0 / 16.0;
/// Exposed share of a stream's latency: the ratio of a core's misses in flight at random and in a stream
/// (colloid-icx).
const STREAMED: f64 = AT_RANDOM / 22.65;
/// Memory streamed at any moment: 2 MiB for each of 32 threads.
const WINDOW: Bytes = Bytes::from_mib(64);
/// Rate of first touch for memory that is touched at once: the limit of slow memory.
const TOUCH: BytesPerSec = BytesPerSec(16 << 30);
/// Duration of numbering the names.
const NUMBERED: Nanos = Nanos::from_millis(100);

/// A line of eight edges is drawn in 800 ns (ours).
const DRAWING: Reach = Reach::Fixed(1.0, 800.0);
/// Misses in flight of a core at random (colloid-icx).
const AT_RANDOM: f64 = 3.959;
/// Atomic increments do not overlap.
const ATOMIC: Reach = Reach::Fixed(1.0, 0.0);
const GATHERING: Reach = Reach::Objects(1.0);

impl PageRank {
    /// End times of its phases.
    pub fn ends(&self) -> Ends {
        let part = |of: Nanos, percent: u64| Nanos(of.0 / 100 * percent);
        let generated = self.generate;
        let built = generated + self.build;
        Ends {
            drawn: part(generated, DRAW),
            shuffled: part(generated, DRAW + SHUFFLE),
            generated,
            counted: generated + part(self.build, COUNT),
            built,
            squished: built + self.squish,
        }
    }

    /// The program; the list is the leader, as it exists first.
    pub fn program(self) -> Result<Program, String> {
        let mut list = self.list();
        list.memory.further = vec![
            self.names(),
            self.degrees(),
            self.cursors(),
            self.rows(),
            self.offsets(),
            self.graph(),
            self.vertices(),
        ];
        Ok(list)
    }

    /// Memory for `bytes` bytes per vertex.
    fn a_vertex(&self, bytes: u64) -> Bytes {
        Bytes(bytes << self.scale)
    }

    /// Pairs of names. They are read twice to count degrees: the first time to find the highest name.
    fn list(&self) -> Program {
        let bytes = self.a_vertex(8 * DEGREE);
        let Ends { drawn, shuffled, generated, counted, built, .. } = self.ends();
        let alone = Reach::Fixed(AT_RANDOM / self.threads.max(1.0), 0.0);
        let draws = Change::Growth(WINDOW.min(bytes), rate(bytes, drawn));
        let phases = vec![
            during(drawn, 1.0, DRAWING, streamed(bytes, draws)),
            during(shuffled - drawn, 0.0, alone, alike(bytes, Change::None)),
            during(generated - shuffled, 1.0, GATHERING, streamed(bytes, Change::Sweep)),
            during(counted - generated, 2.0, ATOMIC, streamed(bytes, Change::Sweep)),
            during(built - counted, 1.0, ATOMIC, streamed(bytes, Change::Sweep)),
            during(self.squish, 0.0, Reach::Stream, alike(bytes, Change::Absent)),
            Phase { reach: Some(GATHERING), ..absent(bytes) },
        ];
        // Written in two of the five passes.
        let list = self.memory("pagerank", bytes, 0.4, phases);
        Program { memory: Memory { exposed: STREAMED, ..list.memory }, ..list }
    }

    /// The array for renaming vertices.
    fn names(&self) -> Program {
        let bytes = self.a_vertex(4);
        let Ends { drawn, shuffled, generated, .. } = self.ends();
        let phases = vec![
            lasting(drawn, 0.0, alike(bytes, Change::Load(drawn - NUMBERED, TOUCH))),
            lasting(shuffled - drawn, 1.0, alike(bytes, Change::None)),
            lasting(generated - shuffled, GATHERED, alike(bytes, Change::None)),
            absent(bytes),
        ];
        self.memory("names", bytes, 0.0, phases)
    }

    fn degrees(&self) -> Program {
        let bytes = self.a_vertex(4);
        let Ends { generated, counted, built, .. } = self.ends();
        let phases = vec![
            lasting(counted, GATHERED, alike(bytes, Change::Load(generated, TOUCH))),
            lasting(built - counted, 0.0, alike(bytes, Change::None)),
            absent(bytes),
        ];
        self.memory("degrees", bytes, 1.0, phases)
    }

    /// The next free place of each row.
    fn cursors(&self) -> Program {
        let bytes = self.a_vertex(8);
        let Ends { counted, built, .. } = self.ends();
        let phases = vec![
            lasting(built, CURSORS, alike(bytes, Change::Load(counted, TOUCH))),
            absent(bytes),
        ];
        self.memory("cursors", bytes, 1.0, phases)
    }

    /// Each edge, in the rows of both its ends, after an index of row starts, which is read during copying.
    fn rows(&self) -> Program {
        let index = self.a_vertex(8);
        let bytes = index + self.a_vertex(8 * DEGREE);
        let Ends { counted, built, .. } = self.ends();
        let mut fills = alike(bytes, Change::Load(counted, TOUCH));
        fills.bands = vec![(index, 0.0), (bytes, 1.0)];
        let phases = vec![
            lasting(built, FILLED, fills),
            lasting(self.squish, 1.0, streamed(bytes, Change::Sweep)),
            absent(bytes),
        ];
        self.memory("rows", bytes, 1.0, phases)
    }

    /// Differences of degrees and their sums, used to squish the graph.
    fn offsets(&self) -> Program {
        let bytes = self.a_vertex(4 + 8);
        let Ends { built, squished, .. } = self.ends();
        let phases =
            vec![lasting(squished, OWN, alike(bytes, Change::Load(built, TOUCH))), absent(bytes)];
        self.memory("offsets", bytes, 1.0, phases)
    }

    /// The index of row starts, and the rows. Rows are first sorted, then copied. An iteration is shorter than
    /// a cycle of the reclaimer, so all pages are equal to it.
    fn graph(&self) -> Program {
        let bytes = self.a_vertex(8 + 8 * DEGREE);
        let Ends { built, squished, .. } = self.ends();
        let half = Nanos(self.squish.0 / 2);
        let copies = Change::Load(built + half, rate(bytes, half));
        let iterates = Phase { weight: Some(1.0 + OWN), ..alike(bytes, Change::None) };
        let phases = vec![lasting(squished, 1.0, alike(bytes, copies)), iterates];
        let graph = self.memory("graph", bytes, 0.0, phases);
        Program { memory: Memory { exposed: STREAMED, ..graph.memory }, ..graph }
    }

    /// Contributions and scores: freed and allocated again for each trial, at the same addresses.
    fn vertices(&self) -> Program {
        let contributions = self.a_vertex(4);
        let bytes = contributions + self.a_vertex(4);
        let Ends { squished, .. } = self.ends();
        let mut iterates = alike(bytes, Change::Load(squished, TOUCH));
        iterates.bands = vec![(contributions, GATHERED + OWN), (bytes, OWN)];
        iterates.weight = Some(GATHERED + 2.0 * OWN);
        self.memory("vertices", bytes, 0.02, vec![iterates])
    }

    fn memory(
        &self,
        name: &str,
        bytes: Bytes,
        writes_per_read: f64,
        phases: Vec<Phase>,
    ) -> Program {
        Program {
            name: name.into(),
            bytes,
            kind: PageKind::Anonymous,
            threads: self.threads,
            reach: GATHERING,
            writes_per_read,
            reads_per_op: 1.0,
            unit: "lines",
            phases,
            placement: Placement::FirstTouch,
            managed: true,
            memory: Memory::default(),
        }
    }
}

/// All pages equally popular.
fn alike(bytes: Bytes, change: Change) -> Phase {
    Phase { change, ..Phase::forever(vec![(bytes, 1.0)], Layout::Front) }
}

/// A sequential pass.
fn streamed(bytes: Bytes, change: Change) -> Phase {
    let bands = vec![(WINDOW.min(bytes), 1.0), (bytes, 0.0)];
    Phase { change, ..Phase::forever(bands, Layout::Back) }
}

fn lasting(lasts: Nanos, weight: f64, phase: Phase) -> Phase {
    Phase { lasts: Some(lasts), weight: Some(weight), ..phase }
}

fn during(lasts: Nanos, weight: f64, reach: Reach, phase: Phase) -> Phase {
    Phase { reach: Some(reach), ..lasting(lasts, weight, phase) }
}

fn absent(bytes: Bytes) -> Phase {
    Phase { weight: Some(0.0), ..alike(bytes, Change::Absent) }
}

/// The rate that covers all of it within a time, with a small reserve.
fn rate(bytes: Bytes, time: Nanos) -> BytesPerSec {
    BytesPerSec(bytes.0 / (time.0 / 1_000_000).max(1) * 1_010)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: u32 = 26;
    /// 2²⁶ vertices, and 2³¹ ends of edges.
    const VERTICES: f64 = 67_108_864.0;
    const PLACES: f64 = 2_147_483_648.0;
    /// Lines of an L3 of 60 MB, and lines of edges streamed per place.
    const CACHE: f64 = 60.0 * 16_384.0;
    const PASSED: f64 = 1.0 / 16.0;

    /// Vertices by the number of ones in their number: count, and frequency as an end.
    fn vertices() -> impl Iterator<Item = (f64, f64)> {
        let many = |ones| (0..ones).fold(1.0, |n, i| n * f64::from(SCALE - i) / f64::from(i + 1));
        let each = |ones| (0..SCALE).fold(1.0, |p, bit| p * if bit < ones { 0.24 } else { 0.76 });
        (0..=SCALE).map(move |ones| (many(ones), each(ones)))
    }

    /// Probability that a vertex is not accessed within `time`, in places.
    fn idle(time: f64) -> f64 {
        vertices().map(|(many, each)| many * (-each * time).exp()).sum::<f64>() / VERTICES
    }

    /// Number of lines with `of` vertices each that are in the cache if a line stays for `time`.
    fn there(of: i32, time: f64) -> f64 {
        VERTICES / f64::from(of) * (1.0 - idle(time).powi(of))
    }

    /// Share of accesses that miss them.
    fn missed(of: i32, time: f64) -> f64 {
        let all = vertices().map(|(many, each)| many * each * (-each * time).exp()).sum::<f64>();
        all * idle(time).powi(of - 1)
    }

    /// Lines at which rows are filled: one per row, or one for all short rows in it. Count, frequency of one
    /// row, frequency of all rows in the line.
    fn rows() -> impl Iterator<Item = (f64, f64, f64)> {
        vertices().map(|(many, each)| {
            let shared = (each * PLACES / 16.0).min(1.0);
            (many * shared, each / shared, many * each)
        })
    }

    /// The time that a line stays in the cache.
    fn stays(there: impl Fn(f64) -> f64) -> f64 {
        let (mut short, mut long) = (1.0, 1e9);
        for _ in 0..60 {
            let time = (short + long) / 2.0;
            let fits = there(time) + PASSED * time <= CACHE;
            if fits { short = time } else { long = time }
        }
        short
    }

    #[test]
    fn cache_misses_are_derived_from_the_graph() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.02, "{a} is not {b}");
        near(16.0 * missed(16, stays(|time| there(16, time))), GATHERED);
        let of_rows = |time: f64| {
            let there = |(many, each, _): (f64, f64, f64)| many * (1.0 - (-each * time).exp());
            rows().map(there).sum::<f64>()
        };
        let time = stays(|time| there(8, time) + of_rows(time));
        near(16.0 * missed(8, time), CURSORS);
        // A line of a row is new once in sixteen times.
        let again = rows().map(|(_, each, all)| all * (-each * time).exp()).sum::<f64>();
        near(1.0 + 15.0 * again, FILLED);
        near(GATHERED / (GATHERED + CURSORS + FILLED), 0.23);
        assert_eq!(COUNT, 23);
    }

    /// NeoMem, VI-A: its programs have 10.3 to 19.7 GB.
    #[test]
    fn memory_size_matches_the_paper() {
        let of = |memory: Program| memory.bytes.0;
        let it = PageRank::default();
        let filled = of(it.list()) + of(it.degrees()) + of(it.cursors()) + of(it.rows());
        let copied = of(it.rows()) + of(it.offsets()) + of(it.graph());
        for bytes in [filled, copied] {
            assert!((10_300_000_000..19_700_000_000).contains(&bytes), "{bytes}");
        }
    }
}
