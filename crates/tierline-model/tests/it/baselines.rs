// SPDX-License-Identifier: Apache-2.0
//! Systems used for comparison, in the closed loop: each shows its characteristic behaviour.

use tierline_core::engine::Engine;
use tierline_core::port::{Move, Observations, Order, Outcome, PageSize, Reason, SpaceId, World};
use tierline_core::qos::Limits;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};
use tierline_model::scenario::Scenario;
use tierline_model::world::ModelWorld;
use tierline_model::world::shadows::ShadowCounts;

use crate::run::on_neomems_machine;

const SLOW: TierId = TierId(1);

/// Runs a scenario with these knobs to its end, and calls `look` after every tick.
fn play(text: &str, knobs: &[(&str, f64)], mut look: impl FnMut(Nanos, &ModelWorld)) -> Engine {
    let scenario = Scenario::parse("test", text).unwrap();
    let mut policy = (scenario.policy().unwrap().make)();
    knobs.iter().for_each(|(knob, value)| assert!(policy.set(knob, *value), "no {knob}"));
    let wants = policy.wants();
    let mut world = scenario.world_for(&wants).unwrap();
    let interval = scenario.interval(&wants);
    let tiers = world.tiers().clone();
    let mut engine = Engine::new(tiers, Limits::default(), policy, scenario.max_rate);
    let mut now = Nanos::ZERO;
    while now <= Nanos::from_secs_f64(scenario.seconds) {
        engine.tick(now, &mut world);
        look(now, &world);
        now = (now + interval).max(world.busy_until());
    }
    world.check();
    engine
}

/// The share of reads served by the fastest tier.
fn fast_share(world: &ModelWorld) -> f64 {
    let job = &world.jobs()[0];
    job.census.shares(&job.pattern)[0]
}

/// 1 GiB of 4 GiB is accessed, scattered; 2 GiB are fast. Few accesses, so that hint faults do not dominate.
fn scattered(policy: &str) -> String {
    format!(
        r#"
        policy = "{policy}"
        seconds = 60
        fast_capacity = "2GiB"
        [[workload]]
        kind = "gups"
        set = "4GiB"
        hot = "1GiB"
        hot_share = 1.0
        threads = 0.01
        "#
    )
}

/// First touch fills fast memory in order of allocation; AutoNUMA leaves it so.
#[test]
fn autonuma_promotes_nothing_into_full_memory_and_autotiering_does() {
    let mut shares = Vec::new();
    for (policy, knobs) in [("autonuma", &[][..]), ("autotiering", &[("scan_period_max", 2.0)][..])]
    {
        let (mut first, mut last) = (None, 0.0);
        let engine = play(&scattered(policy), knobs, |_, world| {
            last = fast_share(world);
            first.get_or_insert(last);
        });
        let counts = &engine.migrator().counts;
        println!("{policy}: {first:?} -> {last:.3}, {counts:?}");
        if policy == "autonuma" {
            assert_eq!(counts.demoted_pages, 0);
            assert_eq!(counts.promoted_pages, 0, "there was never room");
        } else {
            assert!(counts.demoted_pages > 0);
        }
        shares.push(last - first.unwrap());
    }
    assert!(shares[0].abs() < 1e-9 && shares[1] > 0.1, "{shares:?}");
}

/// DAMON finds a contiguous hot set; its goals keep 99.7 % of fast memory in use.
#[test]
fn damon_promotes_a_hot_region_within_its_quota() {
    let text = r#"
        policy = "damon"
        seconds = 30
        fast_capacity = "2GiB"
        [[workload]]
        kind = "gups"
        set = "4GiB"
        hot = "1GiB"
        chunk = "1GiB"
        hot_share = 0.99
        hot_share_fast = 0.0
        threads = 0.003
    "#;
    let (mut last, mut free) = (0.0, Bytes::ZERO);
    let engine = play(text, &[("quota", 200e6)], |now, world| {
        last = fast_share(world);
        free = world.frames().free_bytes(TierId::FAST);
        let moved = world.counters().promoted_bytes;
        let seconds = now.as_secs_f64() + 1.0;
        assert!(moved <= 200e6 * seconds + 2e6 * seconds, "{moved} B after {now}");
    });
    println!("{last:.3}, {free} free, {:?}", engine.migrator().counts);
    assert!(last > 0.85, "{last}");
    assert!(free < Bytes::from_mib(256), "{free}");
}

/// The reclaimer pages out the coldest pages until the stall reaches the threshold, and no further.
#[test]
fn tmo_stops_at_the_threshold() {
    let text = r#"
        policy = "first-touch+tmo"
        seconds = 120
        fast_capacity = "8GiB"
        [[workload]]
        kind = "kv"
        set = "4GiB"
        threads = 0.05
    "#;
    let knobs = [("tmo_interval", 1.0), ("tmo_ratio", 0.02), ("stall_threshold", 0.02)];
    let (mut late, mut end) = (None, Bytes::ZERO);
    let (mut stall, mut most) = (0.0, 0.0f64);
    play(text, &knobs, |now, world| {
        if now >= Nanos::from_secs(90) {
            let counters = *world.counters();
            let since = counters.since(late.get_or_insert(counters));
            stall = since.stall_ns / since.slots_ns.max(1.0);
            most = most.max(stall);
        }
        end = world.jobs()[0].bytes_in(SLOW);
    });
    println!("stall {stall:.4}, at most {most:.4}, {end} pushed out");
    assert!((0.014..0.022).contains(&stall), "{stall}");
    assert!(end > Bytes::from_mib(256), "{end}");
}

/// Three quarters of memory are never accessed. With swap, those in slow memory are paged out, and page-ins
/// cost less than the threshold.
#[test]
fn tmo_pages_out_unused_slow_memory() {
    for swap in [false, true] {
        let knobs = [("tmo_interval", 1.0), ("tmo_ratio", 0.02), ("swap", f64::from(swap))];
        let (mut out, mut share, mut last) = (Bytes::ZERO, 0.0, None);
        let engine = play(&scattered("first-touch+tmo"), &knobs, |now, world| {
            let job = &world.jobs()[0];
            out = [TierId::FAST, SLOW]
                .iter()
                .fold(job.program.bytes, |left, &tier| left.saturating_sub(job.bytes_in(tier)));
            if now >= Nanos::from_secs(30) {
                let since = world.counters().since(last.get_or_insert(*world.counters()));
                share = since.page_in_ns / since.slots_ns.max(1.0);
            }
        });
        let counted = engine.migrator().counts.tiering.page_out_anon;
        println!("swap {swap}: {out} out, {counted} pages paged out, {share} of the time lost");
        // 2 % of 2 GiB per second, less as it shrinks.
        assert_eq!(out > Bytes::from_mib(512), swap, "{out}");
        assert_eq!(counted > 0, swap, "{counted}");
        assert!(share < 0.001, "{share}");
    }
}

/// Moves huge pages directly, one at a time.
struct Hands {
    world: ModelWorld,
    now: Nanos,
}

impl Hands {
    fn new(migrator: &str, updates: f64, threads: f64) -> Self {
        let text = format!(
            r#"
            policy = "hold"
            migrator = "{migrator}"
            fast_capacity = "2GiB"
            [[workload]]
            kind = "gups"
            set = "4GiB"
            hot = "1GiB"
            threads = {threads}
            updates = {updates}
            hot_share_fast = 0.0
            "#
        );
        let world = Scenario::parse("test", &text).unwrap().world().unwrap();
        let mut hands = Self { world, now: Nanos::ZERO };
        hands.run(Nanos::from_secs(1));
        hands
    }

    fn run(&mut self, time: Nanos) {
        self.now += time;
        self.world.observe(self.now, &mut Observations::default());
        self.world.check();
    }

    fn pages_in(&self, tier: TierId) -> Vec<u32> {
        let job = &self.world.jobs()[0];
        (0..job.live()).filter(|&page| job.tier(page) == Some(tier)).collect()
    }

    /// The outcome, and the time taken, ns.
    fn move_page(&mut self, page: u32, from: TierId, to: TierId) -> (Outcome, f64) {
        let vpn = self.world.jobs()[0].vpn(page);
        let reason = Reason::Placed { rate_per_sec: 0.0 };
        let m = Move { space: SpaceId(1), vpn, size: PageSize::Huge, from, to, reason };
        let mut out = Vec::new();
        let spent = self.world.act(self.now, &[Order::Move(m)], &mut out);
        (out[0], spent.as_secs_f64() * 1e9)
    }

    /// Makes room for `count` pages and promotes them. Returns the pages.
    fn promote(&mut self, count: usize) -> Vec<u32> {
        for page in self.pages_in(TierId::FAST).into_iter().take(count) {
            assert_eq!(self.move_page(page, TierId::FAST, SLOW).0, Outcome::Done);
        }
        let mut promoted = self.pages_in(SLOW);
        promoted.truncate(count);
        promoted.retain(|&page| self.move_page(page, SLOW, TierId::FAST).0 == Outcome::Done);
        promoted
    }
}

/// Remapping a huge page costs 5 us and a 32nd of a shootdown of 4 us; copying 32,768 lines, 16 in flight, at
/// 65 ns or more each, costs more than 130 us.
#[test]
fn nomad_demotes_unwritten_pages_at_the_cost_of_a_remap() {
    for (migrator, most_ns, least_ns) in [("nomad", 5_126.0, 5_124.0), ("exclusive", 1e7, 130e3)] {
        let mut hands = Hands::new(migrator, 0.0, 0.1);
        let pages = hands.promote(200);
        assert_eq!(pages.len(), 200, "nothing is written");
        hands.run(Nanos::from_secs(5));
        let copied = hands.world.counters().demoted_bytes;
        for page in pages {
            let (outcome, ns) = hands.move_page(page, TierId::FAST, SLOW);
            assert_eq!(outcome, Outcome::Done);
            assert!((least_ns..most_ns).contains(&ns), "{migrator}: {ns} ns");
        }
        hands.world.check();
        let copied = hands.world.counters().demoted_bytes - copied;
        let counts = hands.world.shadows().counts;
        match migrator {
            "nomad" => assert!(copied == 0.0 && counts.remapped == 200, "{copied} {counts:?}"),
            _ => assert!(copied > 4e8 && counts == ShadowCounts::default(), "{copied} {counts:?}"),
        }
    }
}

/// A copy is discarded with probability 1 − exp(−w·t); w is the page's write rate and t the time of the copy.
#[test]
fn nomad_discards_copies_of_written_pages() {
    for (threads, least, most) in [(0.02, 0.05, 0.6), (15.0, 0.99, 1.01)] {
        let mut hands = Hands::new("nomad", 1.0, threads);
        for page in hands.pages_in(TierId::FAST).into_iter().take(300) {
            hands.move_page(page, TierId::FAST, SLOW);
        }
        let (mut expected, mut variance, mut aborted, mut tries) = (0.0, 0.0, 0.0, 0.0);
        for page in hands.pages_in(SLOW).into_iter().take(300) {
            let writes_per_ns = hands.world.jobs()[0].page_rate(page);
            let (outcome, ns) = hands.move_page(page, SLOW, TierId::FAST);
            let p = 1.0 - (-writes_per_ns * (ns - 5_125.0)).exp();
            (expected, variance, tries) = (expected + p, variance + p * (1.0 - p), tries + 1.0);
            aborted += f64::from(u8::from(outcome == Outcome::Dirtied));
        }
        println!("{threads} threads: {aborted} of {tries} discarded, {expected:.1} expected");
        assert!((least..most).contains(&(aborted / tries)), "{aborted} of {tries}");
        assert!((aborted - expected).abs() <= 4.0 * variance.sqrt() + 0.01, "{aborted} {expected}");
    }
}

/// The time to a page's first write is exponential: after t, exp(−w·t) of the shadows remain. Each written page
/// costs the program a fault.
#[test]
fn a_shadow_ends_at_the_first_write_or_when_its_frame_is_needed() {
    let mut hands = Hands::new("nomad", 0.001, 0.01);
    let pages = hands.promote(400);
    let job = &hands.world.jobs()[0];
    let writes_per_ns: Vec<f64> = pages.iter().map(|&page| job.page_rate(page) * 0.001).collect();
    hands.run(Nanos::from_secs(1));
    let left: f64 = writes_per_ns.iter().map(|w| (-w * 1e9).exp()).sum();
    let counts = hands.world.shadows().counts;
    let number = |n: u64| f64::from(u32::try_from(n).unwrap());
    let kept = number(pages.len() as u64);
    println!("{counts:?}, {left:.1} of {kept} expected to be left");
    assert!((kept - left - number(counts.written)).abs() < 4.0 * kept.sqrt() / 2.0, "{counts:?}");
    assert!(counts.written > 20 && counts.reclaimed == 0, "{counts:?}");
    hands.world.fill(SLOW);
    hands.world.check();
    let counts = hands.world.shadows().counts;
    assert_eq!(counts.written + counts.reclaimed, counts.kept, "no frame is left for any");
}

/// With drifting popularity, promoted pages are demoted again. With few writes most are unchanged, so the mover
/// has less work. If all are written, copies are discarded.
#[test]
fn nomad_saves_copies_of_read_pages_and_wastes_copies_of_written_pages() {
    let run = |migrator: &str, updates: f64| {
        let text = format!(
            r#"
            policy = "hemem"
            migrator = "{migrator}"
            seconds = 40
            fast_capacity = "1GiB"
            [[workload]]
            kind = "kv"
            set = "4GiB"
            threads = 1
            drift = "40MB/s"
            updates = {updates}
            "#
        );
        let (mut demoted, mut counts) = (0.0, ShadowCounts::default());
        let engine = play(&text, &[("period", 1009.0)], |_, world| {
            (demoted, counts) = (world.counters().demoted_bytes, world.shadows().counts);
        });
        println!("{migrator} {updates}: {demoted:.3e} B copied down, {counts:?}");
        (engine.migrator().counts.clone(), demoted, counts)
    };
    let (exclusive, all_copied, _) = run("exclusive", 0.0);
    assert!(exclusive.demoted_pages > 0 && all_copied > 0.0);
    let (_, copied, read) = run("nomad", 0.0);
    assert!(read.remapped > 0 && read.aborted == 0 && copied < all_copied, "{read:?}");
    let (written, _, shadows) = run("nomad", 1.0);
    assert!(shadows.aborted > shadows.kept, "{shadows:?}");
    assert!(written.failed["dirtied"] > 0 && written.given_up > 0, "{written:?}");
}

/// 786,432 base pages are scanned in a second, and those not accessed until the next scan are demoted, although
/// the cost of a move is unknown before the first one.
#[test]
fn a_full_tier_is_scanned_before_the_first_move() {
    for policy in ["tpp", "neomem"] {
        let settings = format!("policy = '{policy}'\nseconds = 4");
        let workload = "kind = 'gups'\nset = '9GiB'\nhot = '1GiB'";
        let demoted = on_neomems_machine(&settings, "3GiB", workload).moves.demoted_pages;
        assert!(demoted > 4_000, "{policy}: {demoted}");
    }
}
