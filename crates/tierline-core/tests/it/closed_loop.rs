// SPDX-License-Identifier: Apache-2.0
//! A toy machine whose latencies depend on load: a program and an antagonist, each with a fixed number of reads
//! in flight, on two tiers. A tenth of Colloid's machine: 7.2 GB of which 2.4 GB are hot, 3.2 GB fast.

use tierline_core::port::{
    Attention, Capabilities, Capability, Observations, Order, Outcome, PageKind, PageSize,
    Question, Region, Residence, Sample, SpaceEvent, Telemetry, TenantId, TierTelemetry, Tracking,
    TrueRate, Vpn, World,
};
use tierline_core::rng::Rng;
use tierline_core::tier::{TierId, Tiers};
use tierline_core::unit::{BASE_PER_HUGE, Bytes, BytesPerSec, Nanos};

use crate::toy::{SPACE, machine};

/// Huge pages of the program; a third is hot and gets nine of ten reads.
pub const PAGES: usize = 3_600;
pub const HOT: usize = PAGES / 3;
const FAST: usize = 1_600;
/// Reads in flight of the program, and of an antagonist at intensity 1, with its think time.
const PROGRAM: f64 = 6.0;
const ANTAGONIST: f64 = 11.7;
const THINK_NS: f64 = 24.0;
/// Latency L = L0 + Q·u/(1−u), with u the used share of the bandwidth, in bytes per nanosecond.
const L0_NS: [f64; 2] = [65.0, 130.0];
const Q_NS: [f64; 2] = [32.7, 4.3];
const CAPACITY: [f64; 2] = [16.5, 10.0];
/// A read brings a line, and writes one back.
const BYTES_A_READ: f64 = 128.0;

pub struct ClosedLoop {
    pub tiers: Tiers,
    pub place: Vec<TierId>,
    /// The first hot page.
    pub hot_from: usize,
    /// Intensity of the antagonist.
    pub intensity: f64,
    pub moved: u64,
    /// Latencies, and the program's reads per nanosecond.
    pub latency_ns: [f64; 2],
    pub program_reads: f64,
    watch: Tracking,
    rng: Rng,
    last: Nanos,
    reported_for: Option<usize>,
    armed: Vec<Option<Nanos>>,
    next_armed: usize,
    armed_at: Option<Nanos>,
    announced: bool,
}

impl ClosedLoop {
    /// First touch: pages are fast in order until fast memory is full.
    pub fn new(watch: Option<Tracking>, hot_from: usize, seed: u64) -> Self {
        let tier = |page| TierId(u8::from(page >= FAST - 20));
        let pages = |huge: usize| huge as u64 * BASE_PER_HUGE;
        let mut new = Self {
            tiers: machine(&[pages(FAST), pages(2 * PAGES)]),
            place: (0..PAGES).map(tier).collect(),
            hot_from,
            intensity: 0.0,
            moved: 0,
            latency_ns: L0_NS,
            program_reads: 0.0,
            watch: watch.unwrap_or(Tracking::Samples {
                loads: 5003,
                stores: None,
                cpu_permille: None,
            }),
            rng: Rng::new(seed),
            last: Nanos::ZERO,
            reported_for: None,
            armed: vec![None; PAGES],
            next_armed: 0,
            armed_at: None,
            announced: false,
        };
        new.solve();
        new
    }

    fn is_hot(&self, page: usize) -> bool {
        (page + PAGES - self.hot_from) % PAGES < HOT
    }

    /// The share of the program's reads that go to a page.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn share(&self, page: usize) -> f64 {
        0.1 / PAGES as f64 + if self.is_hot(page) { 0.9 / HOT as f64 } else { 0.0 }
    }

    /// The share of the program's reads that fast memory serves.
    pub fn fast_share(&self) -> f64 {
        let fast = self.place.iter().enumerate().filter(|(_, t)| **t == TierId::FAST);
        fast.map(|(page, _)| self.share(page)).sum()
    }

    /// The share of hot pages that are in fast memory.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    pub fn hot_share(&self) -> f64 {
        let hot = (0..PAGES).filter(|&page| self.is_hot(page));
        hot.filter(|&page| self.place[page] == TierId::FAST).count() as f64 / HOT as f64
    }

    fn antagonist(&self) -> f64 {
        ANTAGONIST * self.intensity / (THINK_NS + self.latency_ns[0])
    }

    /// Finds the fixed point, tier by tier: reads fall with latency and latency rises with reads.
    pub fn solve(&mut self) {
        let p = self.fast_share();
        for _ in 0..8 {
            for tier in [1, 0] {
                let (mut low, mut high) = (L0_NS[tier], 1e5);
                for _ in 0..40 {
                    let middle = f64::midpoint(low, high);
                    self.latency_ns[tier] = middle;
                    self.program_reads =
                        PROGRAM / (p * self.latency_ns[0] + (1.0 - p) * self.latency_ns[1]);
                    let reads = match tier {
                        0 => p * self.program_reads + self.antagonist(),
                        _ => (1.0 - p) * self.program_reads,
                    };
                    let used = reads * BYTES_A_READ / CAPACITY[tier];
                    let wanted = L0_NS[tier] + Q_NS[tier] * used / (1.0 - used);
                    *(if used >= 1.0 || wanted > middle { &mut low } else { &mut high }) = middle;
                }
            }
        }
    }

    fn free(&self) -> usize {
        FAST - self.place.iter().filter(|&&tier| tier == TierId::FAST).count()
    }

    fn sample(&mut self, passed: Nanos, period: u64, out: &mut Observations) {
        #[expect(clippy::cast_precision_loss, reason = "a mean")]
        let mean = self.program_reads * passed.0 as f64 / period as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded")]
        for _ in 0..(mean + self.rng.unit()) as u64 {
            let hot = self.rng.unit() < 0.9;
            let at = |rng: &mut Rng, n: usize| usize::try_from(rng.below(n as u64)).unwrap();
            let page = match hot {
                true => (self.hot_from + at(&mut self.rng, HOT)) % PAGES,
                false => at(&mut self.rng, PAGES),
            };
            out.samples.push(self.seen(page, None));
        }
    }

    /// Arms the next pages, and reports armed pages that were accessed.
    fn fault(
        &mut self,
        now: Nanos,
        round: Nanos,
        bytes: Bytes,
        fast_too: bool,
        out: &mut Observations,
    ) {
        let begins = self.armed_at.is_none_or(|last| now.saturating_sub(last) >= round);
        self.armed_at = if begins { Some(now) } else { self.armed_at };
        let pages = if begins { bytes.base_pages() / BASE_PER_HUGE } else { 0 };
        for _ in 0..pages {
            let page = self.next_armed;
            self.next_armed = (page + 1) % PAGES;
            if fast_too || self.place[page] > TierId::FAST {
                self.armed[page].get_or_insert(now);
            }
        }
        for page in 0..PAGES {
            let Some(since) = self.armed[page] else { continue };
            let rate = self.share(page) * self.program_reads * 1e9;
            let to_fault = Nanos::from_secs_f64(self.rng.exponential(rate));
            if since + to_fault <= now.max(since + Nanos(1)) {
                self.armed[page] = None;
                out.samples.push(self.seen(page, Some(to_fault)));
            }
        }
    }

    /// Reports the true rates when they have changed.
    fn report_rates(&mut self, out: &mut Observations) {
        if self.reported_for != Some(self.hot_from) {
            self.reported_for = Some(self.hot_from);
            #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
            out.true_rates.extend((0..PAGES).map(|page| TrueRate {
                space: SPACE,
                vpn: Vpn(page as u64 * BASE_PER_HUGE),
                base_pages: 512,
                rate_per_sec: (self.share(page) * 1e9) as f32,
            }));
        }
    }

    fn seen(&self, page: usize, exposure: Option<Nanos>) -> Sample {
        Sample {
            space: SPACE,
            vpn: Vpn(page as u64 * BASE_PER_HUGE),
            base_pages: 1,
            hits: 1.0,
            exposure,
            tier: Some(self.place[page]),
            write: Some(false),
        }
    }

    fn announce(&mut self, out: &mut Observations) {
        self.announced = true;
        out.space_events.push(SpaceEvent::Mapped(Region {
            space: SPACE,
            start: Vpn(0),
            base_pages: PAGES as u64 * BASE_PER_HUGE,
            size: PageSize::Huge,
            kind: PageKind::Anonymous,
        }));
        for (page, &tier) in (0..).zip(&self.place) {
            out.residence.push(Residence {
                space: SPACE,
                vpn: Vpn(page * BASE_PER_HUGE),
                base_pages: 1,
                tier,
            });
        }
    }
}

impl World for ClosedLoop {
    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        if !self.announced {
            self.announce(out);
        }
        let passed = now.saturating_sub(self.last);
        self.last = now;
        match self.watch {
            Tracking::Samples { loads, .. } => self.sample(passed, loads, out),
            Tracking::TrueRates => self.report_rates(out),
            Tracking::Regions { .. } | Tracking::Counters { .. } => {
                unreachable!("no policy of these tests requests it")
            }
            watch @ Tracking::HintFaults { bytes, fast_too, .. } => {
                let memory = Bytes::from_base_pages(PAGES as u64 * BASE_PER_HUGE);
                let round = watch.round(memory).unwrap();
                self.fault(now, round, bytes, fast_too, out);
            }
        }
    }

    fn measure(&mut self, _now: Nanos) -> Telemetry {
        self.solve();
        let p = self.fast_share();
        let reads = [p * self.program_reads + self.antagonist(), (1.0 - p) * self.program_reads];
        let free = [self.free(), 2 * PAGES];
        let tier = |t: usize| TierTelemetry {
            free: Bytes::from_base_pages(free[t] as u64 * BASE_PER_HUGE),
            occupancy: Some(reads[t] * self.latency_ns[t]),
            reads_per_sec: Some(reads[t] * 1e9),
            ..TierTelemetry::default()
        };
        Telemetry { tiers: vec![tier(0), tier(1)], ..Telemetry::default() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::of([Capability::Answers, Capability::TrueRates])
    }

    fn act(&mut self, _now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        for order in orders {
            let Some(m) = order.as_move() else { unreachable!("not offered: {order:?}") };
            let page = usize::try_from(m.vpn.0 / BASE_PER_HUGE).unwrap();
            assert_eq!((self.place[page], m.size), (m.from, PageSize::Huge));
            assert!(m.to > TierId::FAST || self.free() > 0, "no room");
            self.place[page] = m.to;
            self.moved += 1;
            out.push(Outcome::Done);
        }
        Nanos(200_000) * orders.len() as u64
    }

    fn set_attention(&mut self, _attention: Attention) {}

    fn configure_tracking(&mut self, _watch: Tracking) -> bool {
        false
    }

    fn limit_cpu(&mut self, _: TenantId, _: f64) {
        unreachable!("not offered")
    }

    fn check_accessed(&mut self, _now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        for question in questions {
            let page = usize::try_from(question.vpn.0 / BASE_PER_HUGE).unwrap();
            let rate = self.share(page) * self.program_reads * 1e9;
            out.push(self.rng.exponential(rate) < question.within.as_secs_f64());
        }
    }
}

/// High enough that only the policies' own limits matter.
pub const RATE: BytesPerSec = BytesPerSec(20 << 30);
