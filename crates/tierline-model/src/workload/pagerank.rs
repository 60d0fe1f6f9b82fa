// SPDX-License-Identifier: Apache-2.0
//! pagerank: makes a graph and iterates over it, as GAPBS does from end to end.
//!
//! What it does: generates a list of edges, end to end, and renames their ends by a shuffled array; counts degrees and fills
//! the rows of a matrix, each edge at two random places; frees the list; copies the rows, sorted, into the
//! graph and frees them; then iterates: the graph is streamed and contributions are gathered at random. Fast memory is full of what
//! is no longer needed while what is needed is being made, and empty when it is freed.
//! Where it comes from: GAPBS (`generator.h`, `builder.h`, `pr.cc`), a Kronecker graph of 16 edges a vertex, undirected, so each
//! edge is in two rows, in NeoMem (MICRO 2024, table VI: how long TPP takes to generate and to build). Ours: how these
//! times divide, how long squishing takes, and what misses the cache, all worked out below. Each phase takes its time
//! however fast it goes: how much is done in it tells.

use tierline_core::port::PageKind;
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use super::knob::{MAX_THREADS, MAX_TIME, program_knobs};
use super::program::{Change, Layout, Memory, Phase, Placement, Program, Reach};

program_knobs! {
    /// Its knobs.
    pub struct PageRank {
        /// log2 of vertices.
        scale: u32 = 26, 16, 34;
        /// Threads.
        threads: f64 = 32.0, 0.0, MAX_THREADS;
        /// How long it takes to generate the list.
        generate: Nanos = Nanos::from_millis(10_670), Nanos::from_secs(1), MAX_TIME;
        /// To build the matrix.
        build: Nanos = Nanos::from_millis(35_670), Nanos::from_secs(1), MAX_TIME;
        /// To squish it, which GAPBS does not time: ours, to sort 2³¹ ends and to copy 8 GiB out of slow memory.
        squish: Nanos = Nanos::from_secs(5), Nanos::from_secs(1), MAX_TIME;
    }
}

/// When its phases end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Edges are drawn.
    pub drawn: Nanos,
    /// The array of new names is shuffled.
    pub shuffled: Nanos,
    /// The list's ends are renamed: it is generated.
    pub generated: Nanos,
    /// Degrees are counted.
    pub counted: Nanos,
    /// The matrix is filled: it is built.
    pub built: Nanos,
    /// The graph is made.
    pub squished: Nanos,
}

/// Edges a vertex (`-k`, by default).
const DEGREE: u64 = 16;
/// Percent of generation. A core draws 26 numbers an edge in 100 ns, all together 3.4 s; one core alone swaps 2²⁶ names, of which
/// three in four miss the cache, 5.3 s in slow memory; 2³¹ names are looked up, of which a third misses, 2.3 s.
const DRAW: u64 = 31;
const SHUFFLE: u64 = 48;
/// Percent of building: of all misses.
const COUNT: u64 = 23;

/// Lines missed for a line of eight edges, or of sixteen ends of edges, each of which goes to another place: of degrees,
/// contributions and names a third misses, of a row's next free place, of which there are eight in a line, half, and of the rows
/// themselves 0.56. Ends are as frequent as R-MAT with 0.57, 0.19, 0.19 has them: of the bits of a vertex's number before it
/// is renamed each is 0 three times in four, 0.76. The cache is the L3 of a Xeon 6430, 60 MB, least recently used first
/// (Che's approximation), less what is streamed through it.
const GATHERED: f64 = 16.0 * 0.32;
const CURSORS: f64 = 16.0 * 0.51;
const FILLED: f64 = 16.0 * 0.56;
/// Vertices' own values, in a line of sixteen, a line of edges.
const OWN: f64 = 1.0 / 16.0;
/// What is streamed is waited for by so much less as a core has more in flight of it (colloid-icx).
const STREAMED: f64 = AT_RANDOM / 22.65;
/// What threads stream at any moment, 2 MiB each of 32.
const WINDOW: Bytes = Bytes::from_mib(64);
/// At which memory is touched first where all of it is at once: slow memory takes no more.
const TOUCH: BytesPerSec = BytesPerSec(16 << 30);
/// In which the names are numbered.
const NUMBERED: Nanos = Nanos::from_millis(100);

/// A line of eight edges is drawn in 800 ns (ours).
const DRAWING: Reach = Reach::Fixed(1.0, 800.0);
/// What a core has in flight at random (colloid-icx).
const AT_RANDOM: f64 = 3.959;
/// Nothing passes an atomic increment.
const ATOMIC: Reach = Reach::Fixed(1.0, 0.0);
const GATHERING: Reach = Reach::Objects(1.0);

impl PageRank {
    /// When its phases end.
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

    /// The program: the list leads, as it is there first.
    pub fn program(self) -> Result<Program, String> {
        let mut list = self.list();
        list.memory.beside = vec![
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

    /// So many bytes a vertex.
    fn a_vertex(&self, bytes: u64) -> Bytes {
        Bytes(bytes << self.scale)
    }

    /// Pairs of names. They are read twice to count degrees: the first time for the highest name.
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
        // Of five times that it is read, it is written twice.
        let list = self.memory("pagerank", bytes, 0.4, phases);
        Program { memory: Memory { exposed: STREAMED, ..list.memory }, ..list }
    }

    /// The array by which vertices are renamed.
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

    /// Each edge in the rows of both its ends. Where each row begins comes first, and is read when it is copied.
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

    /// Differences of degrees and their sums, from which the graph is squished.
    fn offsets(&self) -> Program {
        let bytes = self.a_vertex(4 + 8);
        let Ends { built, squished, .. } = self.ends();
        let phases =
            vec![lasting(squished, OWN, alike(bytes, Change::Load(built, TOUCH))), absent(bytes)];
        self.memory("offsets", bytes, 1.0, phases)
    }

    /// Where each row begins, and the rows. Rows are sorted first and copied then. An iteration takes less than the
    /// reclaimer needs to come by again, so each page is as good as any.
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

    /// Contributions, and scores: freed and allocated again for each trial, which puts them where they were.
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

/// Any page as much as any other.
fn alike(bytes: Bytes, change: Change) -> Phase {
    Phase { change, ..Phase::forever(vec![(bytes, 1.0)], Layout::Front) }
}

/// From end to end.
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

/// All of it in a time, with some to spare.
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
    /// Lines of an L3 of 60 MB, and of an edge streamed for each place.
    const CACHE: f64 = 60.0 * 16_384.0;
    const PASSED: f64 = 1.0 / 16.0;

    /// Vertices by the ones of their number: how many, and how often each is an end.
    fn vertices() -> impl Iterator<Item = (f64, f64)> {
        let many = |ones| (0..ones).fold(1.0, |n, i| n * f64::from(SCALE - i) / f64::from(i + 1));
        let each = |ones| (0..SCALE).fold(1.0, |p, bit| p * if bit < ones { 0.24 } else { 0.76 });
        (0..=SCALE).map(move |ones| (many(ones), each(ones)))
    }

    /// The probability that a vertex is no end for a time, which is in places.
    fn idle(time: f64) -> f64 {
        vertices().map(|(many, each)| many * (-each * time).exp()).sum::<f64>() / VERTICES
    }

    /// Of lines of so many vertices: how many are in the cache if they stay for a time.
    fn there(of: i32, time: f64) -> f64 {
        VERTICES / f64::from(of) * (1.0 - idle(time).powi(of))
    }

    /// And what part of accesses misses them.
    fn missed(of: i32, time: f64) -> f64 {
        let all = vertices().map(|(many, each)| many * each * (-each * time).exp()).sum::<f64>();
        all * idle(time).powi(of - 1)
    }

    /// The lines at which rows are filled, one a row, or of short rows one for all in it: how many, how often one of them and all are.
    fn rows() -> impl Iterator<Item = (f64, f64, f64)> {
        vertices().map(|(many, each)| {
            let shared = (each * PLACES / 16.0).min(1.0);
            (many * shared, each / shared, many * each)
        })
    }

    /// How long a line stays.
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
    fn what_misses_the_cache_is_worked_out() {
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

    /// NeoMem, VI-A: from 10.3 to 19.7 GB of all its programs.
    #[test]
    fn memory_is_as_published() {
        let of = |memory: Program| memory.bytes.0;
        let it = PageRank::default();
        let filled = of(it.list()) + of(it.degrees()) + of(it.cursors()) + of(it.rows());
        let copied = of(it.rows()) + of(it.offsets()) + of(it.graph());
        for bytes in [filled, copied] {
            assert!((10_300_000_000..19_700_000_000).contains(&bytes), "{bytes}");
        }
    }
}
