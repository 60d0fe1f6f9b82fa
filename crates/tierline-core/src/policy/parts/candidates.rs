// SPDX-License-Identifier: Apache-2.0
//! The queue of slow pages that may be worth promoting, hottest first.
//!
//! A page is worth a promotion if a lower bound of its access rate repays the move within a payback horizon, or if its
//! tenant misses its target and may have more fast memory. The queue
//! is ordered by the rates that its pages had when they were last ranked; a page that is not worth a move leaves it and
//! returns with its next hit. So does one that finds no room, or earlier, once there is more of it.
//!
//! Source: benefit against cost follows ARMS (section 4.3), the second access TPP (section 5.3), the floor that doubles
//! for pages that moved back NeoMem (Algorithm 1). The lower bound and the payback horizon are ours.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::page::{PageIdx, PageLocation};
use crate::policy::goal::Goal;
use crate::policy::parts::stall_cost::Weights;
use crate::policy::view::View;
use crate::port::PageSize;
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// Pages in the queue, at most; a page that finds the queue full returns with its next hit.
const MAX_CANDIDATES: usize = 1 << 20;
/// The queue is ranked anew once its length is below this many times the pages hit, so that ranking costs in
/// proportion to hits. Ours.
const HIT_TO_RANK: usize = 64;
/// Pages without room that are remembered, at most, and how many of them are tried again for each base page that becomes
/// free. Ours.
const WITHOUT_ROOM: usize = 1 << 16;
const RETRIED: u64 = 16;
/// They are tried again once this part of the tier has become free: less may be taken again soon, by a program that maps and
/// unmaps. Ours.
const ROOM_OF: u64 = 64;
/// Share of the highest observable rate that counts as hot whatever a move costs: the lower bound of a page
/// accessed in both of two scans, in three of four, or in half of many. Ours.
const SURE: f32 = 0.2;
/// Cache lines of a base page; copying reads and writes each of them.
const LINES_PER_BASE: f64 = 64.0;
/// Tolerance for hits that decayed between two observations: a tenth. Ours.
const DECAYED: f32 = 0.9;

/// A page of the queue.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The lower bound of its access rate when it was last ranked.
    pub rate_per_sec: f32,
    /// The same per base page: what a byte of fast memory gains.
    density: f32,
    /// The page.
    pub page: PageIdx,
}

impl Candidate {
    fn new(view: &View<'_>, page: PageIdx, rate_per_sec: f32) -> Self {
        let density = view.memory.pages.size_of(page).density(rate_per_sec);
        Self { rate_per_sec, density, page }
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.density.total_cmp(&other.density).then_with(|| self.page.cmp(&other.page))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

/// The conditions of a promotion.
#[derive(Clone, Copy, Debug)]
pub struct PromotionTest<'a> {
    /// The goal, which gives the cost of queueing that an access causes.
    pub goal: &'a dyn Goal,
    /// A move must repay its cost within this time.
    pub payback: Nanos,
    /// The weights of programs.
    pub weights: &'a Weights,
    /// Observations needed; one is enough if its time to fault is known, or if most pages that a scan finds are found again.
    pub min_hits: f32,
}

impl PromotionTest<'_> {
    /// The access rate above which moving a page from one tier to a faster one repays itself.
    pub fn floor(&self, view: &View<'_>, size: PageSize, from: TierId, to: TierId) -> f32 {
        // If slow memory is busy, avoiding an access to it is worth more. A move causes accesses too: it reads
        // the page there and writes another one in its place.
        let cost = self.move_secs(view, size, from) + self.queueing_secs(view, size, from);
        let gain = self.gain_secs(view, from, to);
        self.repaying(view, size, cost, gain)
    }

    /// The same for moving it down from a tier that costs more under the present load.
    pub fn floor_down(&self, view: &View<'_>, size: PageSize, from: TierId, to: TierId) -> f32 {
        let cost = self.move_secs(view, size, to);
        self.repaying(view, size, cost, self.gain_secs(view, from, to))
    }

    /// The access rate that repays a cost at this gain an access.
    fn repaying(&self, view: &View<'_>, size: PageSize, cost_secs: f64, gain_secs: f64) -> f32 {
        if gain_secs <= 0.0 {
            return f32::INFINITY;
        }
        #[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
        let floor = (cost_secs / (gain_secs * self.payback.as_secs_f64())) as f32;
        // A page that is accessed in every scan may be far hotter than scans can measure.
        floor.min(view.memory.hotness.ceiling_per_sec(size) * SURE)
    }

    /// The time that one access saves if its page is in `to`, under the present load of both tiers.
    pub fn gain_secs(&self, view: &View<'_>, from: TierId, to: TierId) -> f64 {
        let queueing = |tier| self.goal.queueing_secs(view, tier);
        view.machine.tiers.latency_gain_secs(from, to) + queueing(from) - queueing(to)
    }

    /// The cost of moving a page from or to slow memory.
    pub fn move_secs(&self, view: &View<'_>, size: PageSize, slow: TierId) -> f64 {
        view.move_cost(size).as_secs_f64() + self.queueing_secs(view, size, slow)
    }

    /// The cost of copying a page to other accesses.
    fn queueing_secs(&self, view: &View<'_>, size: PageSize, slow: TierId) -> f64 {
        LINES_PER_BASE * f64::from(size.base_pages_f32()) * self.goal.queueing_secs(view, slow)
    }

    /// The floor of each tier towards the fastest, for the cheaper page size: most pages that were hit fail
    /// this test, and need no lookup of their address.
    pub fn lowest(&self, view: &View<'_>) -> Vec<f32> {
        let floor = |from, size| self.floor(view, size, from, TierId::FAST);
        let both = |from| floor(from, PageSize::Base).min(floor(from, PageSize::Huge));
        view.machine.tiers.iter().map(|(from, _)| both(from)).collect()
    }

    /// Whether a page with this rate is worth a promotion.
    fn is_worth(&self, view: &View<'_>, page: PageIdx, rate_per_sec: f32, floor: f32) -> bool {
        rate_per_sec >= floor || rate_per_sec > 0.0 && is_behind(view, page)
    }

    /// The rate of a page of a slow tier that passes the test, whatever the weight of its program.
    pub fn passing_rate(&self, view: &View<'_>, floors: &[f32], page: PageIdx) -> Option<f32> {
        let tier = view.memory.pages.state(page).tier().filter(|tier| *tier > TierId::FAST)?;
        let rate_per_sec = self.unweighted_rate(view, page);
        (rate_per_sec >= floors[tier.index()]).then_some(rate_per_sec)
    }

    /// The lower bound of a page's weighted rate; 0 if it needs another observation.
    fn rate(&self, view: &View<'_>, page: PageIdx) -> f32 {
        self.unweighted_rate(view, page) * self.weights.of(&view.memory, page)
    }

    fn unweighted_rate(&self, view: &View<'_>, page: PageIdx) -> f32 {
        let believed = view.estimate(page);
        let one_tells = view.memory.hotness.is_timed() || believed.one_hit_tells();
        let seen = one_tells || believed.hits >= self.min_hits * DECAYED;
        if seen || is_behind(view, page) { believed.at_least_per_sec() } else { 0.0 }
    }

    /// The address of a candidate, if its rate justifies a place in `to`.
    pub fn location_if_worth(
        &self,
        view: &View<'_>,
        candidate: Candidate,
        to: TierId,
    ) -> Option<PageLocation> {
        let Candidate { page, rate_per_sec, .. } = candidate;
        let state = view.memory.pages.state(page);
        let from = state.tier()?;
        if from <= to || state.is_refused() {
            return None;
        }
        let at = view.memory.pages.locate(page)?;
        let floor = self.floor(view, at.size, from, to) * state.ping_pong_damping();
        self.is_worth(view, page, rate_per_sec, floor).then_some(at)
    }
}

/// Whether the page's tenant misses its target and may have more fast memory. Then one observation is enough, and no
/// payback is asked for.
fn is_behind(view: &View<'_>, page: PageIdx) -> bool {
    let behind = view.machine.limits.behind();
    let tenant = |at: PageLocation| view.memory.pages.tenant_of(at.space);
    !behind.is_empty()
        && view.memory.pages.locate(page).map(tenant).is_some_and(|it| behind.contains(&it))
}

/// The queue.
#[derive(Debug, Default)]
pub struct Candidates {
    queue: BinaryHeap<Candidate>,
    /// Pages hit since the last ranking.
    hit: usize,
    /// The last pages that were worth a promotion and found neither room nor colder pages; some more than once.
    without_room: VecDeque<PageIdx>,
    /// The room that they were last tried with.
    tried_with: Bytes,
}

impl Candidates {
    /// The length of the queue.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Counts pages that were hit.
    pub fn count_hits(&mut self, pages: usize) {
        self.hit += pages;
    }

    /// Queues a page of a slow tier if its rate reaches the floor of its tier.
    pub fn queue_if_worth(
        &mut self,
        view: &mut View<'_>,
        test: &PromotionTest<'_>,
        floors: &[f32],
        page: PageIdx,
    ) {
        let state = view.memory.pages.state(page);
        let Some(tier) = state.tier() else { return };
        if tier == TierId::FAST || state.is_queued() || state.is_refused() {
            return;
        }
        let rate_per_sec = test.rate(view, page);
        if test.is_worth(view, page, rate_per_sec, floors[tier.index()])
            && self.queue.len() < MAX_CANDIDATES
        {
            view.memory.pages.set_queued(page, true);
            self.queue.push(Candidate::new(view, page, rate_per_sec));
        }
    }

    /// Remembers a page that found no room, and has left the queue.
    pub fn remember(&mut self, page: PageIdx) {
        if self.without_room.len() == WITHOUT_ROOM {
            self.without_room.pop_front();
        }
        self.without_room.push_back(page);
    }

    /// Pages that found no room and may now: those remembered last, as many as are justified by the room that has been added
    /// since the last time. None as long as that is a small part of the tier.
    pub fn take_remembered(&mut self, room: Bytes, capacity: Bytes) -> VecDeque<PageIdx> {
        self.tried_with = self.tried_with.min(room);
        let more = room - self.tried_with;
        if more == Bytes::ZERO || more.0 < capacity.0 / ROOM_OF {
            return VecDeque::new();
        }
        self.tried_with = room;
        let tried = usize::try_from(more.base_pages().saturating_mul(RETRIED));
        let left = self.without_room.len().saturating_sub(tried.unwrap_or(usize::MAX));
        self.without_room.split_off(left)
    }

    /// Ranks the queue again once enough pages were hit, and drops pages that do not justify a move.
    pub fn rank(&mut self, view: &mut View<'_>, test: &PromotionTest<'_>) {
        if self.hit * HIT_TO_RANK < self.queue.len() {
            return;
        }
        self.hit = 0;
        let floors = test.lowest(view);
        let mut queue = std::mem::take(&mut self.queue).into_vec();
        queue.retain_mut(|candidate| {
            let state = view.memory.pages.state(candidate.page);
            if !state.is_queued() {
                return false; // unmapped; its index may be in use for another page
            }
            *candidate = Candidate::new(view, candidate.page, test.rate(view, candidate.page));
            let floor = state.tier().map_or(f32::INFINITY, |tier| floors[tier.index()]);
            let worth = test.is_worth(view, candidate.page, candidate.rate_per_sec, floor);
            view.memory.pages.set_queued(candidate.page, worth);
            worth
        });
        self.queue = queue.into();
    }

    /// Takes the hottest page that is still mapped.
    pub fn pop(&mut self, view: &View<'_>) -> Option<Candidate> {
        loop {
            let candidate = self.queue.pop()?;
            if view.memory.pages.state(candidate.page).is_queued() {
                return Some(candidate);
            }
        }
    }

    /// Puts back candidates that were taken and not promoted.
    pub fn put_back(&mut self, waiting: Vec<Candidate>) {
        self.queue.extend(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::Knob;
    use crate::policy::goal::Aim;
    use crate::policy::goal::pack::Pack;
    use crate::policy::parts::stage::Stage;
    use crate::port::TenantId;
    use crate::telemetry::population::Population;

    const SLOW: TierId = TierId(1);

    fn test(goal: &Pack) -> PromotionTest<'_> {
        const EQUAL: &Weights = &Weights::EQUAL;
        PromotionTest { goal, payback: Nanos::from_secs(20), weights: EQUAL, min_hits: 2.0 }
    }

    /// By hand: a move of 10 µs, 100 ns gained per access, 20 s: five accesses a second.
    #[test]
    fn the_floor_is_the_cost_over_the_gain_within_the_payback_time() {
        let mut stage = Stage::of_base_pages(1, SLOW);
        let floor = test(&Pack).floor(&stage.view(), PageSize::Base, SLOW, TierId::FAST);
        assert!((floor - 5.0).abs() < 1e-6, "{floor}");
    }

    /// Accesses to the fastest tier cost this many nanoseconds more than its unloaded latency.
    #[derive(Debug)]
    struct Loaded(f64);

    impl Goal for Loaded {
        fn update(&mut self, _: &View<'_>) {}

        fn aim(&mut self, _: &View<'_>, _: Nanos) -> Aim {
            Aim::Pack
        }

        fn queueing_secs(&self, _: &View<'_>, tier: TierId) -> f64 {
            if tier == TierId::FAST { self.0 * 1e-9 } else { 0.0 }
        }

        fn can_shift(&self) -> bool {
            true
        }

        fn knobs(&self) -> Vec<Knob> {
            Vec::new()
        }

        fn set(&mut self, _: &str, _: f64) -> bool {
            false
        }
    }

    /// By hand: a move of 10 µs; tiers of 100 and 200 ns, of which the first costs 300 or 150 ns: 100 ns gained per access in
    /// 20 s, or none.
    #[test]
    fn a_move_down_repays_if_the_load_exceeds_the_difference_of_the_tiers() {
        let mut stage = Stage::of_base_pages(1, TierId::FAST);
        let mut floor = |queueing_ns| {
            let (goal, weights) = (Loaded(queueing_ns), &Weights::EQUAL);
            let test = PromotionTest { goal: &goal, weights, ..test(&Pack) };
            test.floor_down(&stage.view(), PageSize::Base, TierId::FAST, SLOW)
        };
        assert!((floor(200.0) - 5.0).abs() < 1e-3);
        assert_eq!(floor(50.0), f32::INFINITY);
    }

    #[test]
    fn pages_leave_the_queue_hottest_first_and_cold_ones_do_not_enter() {
        let mut stage = Stage::of_base_pages(4, SLOW);
        stage.set_rates(&[20.0, 1.0, 80.0, 40.0]);
        let pages = stage.all.clone();
        let mut queue = Candidates::default();
        let mut view = stage.view();
        let floors = test(&Pack).lowest(&view);
        for &page in &pages {
            queue.queue_if_worth(&mut view, &test(&Pack), &floors, page);
        }
        let order: Vec<PageIdx> = std::iter::from_fn(|| queue.pop(&view)).map(|c| c.page).collect();
        assert_eq!(order, [pages[2], pages[3], pages[0]]);
    }

    /// Two pages with 10,000 accesses a second: a base page gains more of them per byte.
    #[test]
    fn a_base_page_leaves_the_queue_before_an_equally_hot_huge_page() {
        let mut stage = Stage::of_both_sizes(SLOW);
        stage.set_rates(&[10_000.0, 10_000.0]);
        let [huge, base] = stage.all[..] else { unreachable!() };
        let mut queue = Candidates::default();
        let mut view = stage.view();
        let floors = test(&Pack).lowest(&view);
        for page in [base, huge] {
            queue.queue_if_worth(&mut view, &test(&Pack), &floors, page);
        }
        assert_eq!(
            [queue.pop(&view), queue.pop(&view)].map(|it| it.map(|c| c.page)),
            [Some(base), Some(huge)]
        );
    }

    #[test]
    fn a_ranking_drops_cooled_pages_which_may_enter_again() {
        let mut stage = Stage::of_base_pages(2, SLOW);
        stage.set_rates(&[20.0, 80.0]);
        let [first, second] = stage.all[..] else { unreachable!() };
        let mut queue = Candidates::default();
        let mut view = stage.view();
        let floors = test(&Pack).lowest(&view);
        queue.queue_if_worth(&mut view, &test(&Pack), &floors, first);
        queue.queue_if_worth(&mut view, &test(&Pack), &floors, second);
        stage.set_rates(&[80.0, 1.0]);
        let mut view = stage.view();
        queue.rank(&mut view, &test(&Pack));
        assert_eq!(queue.len(), 2, "no page was hit since: the ranking waits");
        queue.count_hits(1);
        queue.rank(&mut view, &test(&Pack));
        assert_eq!(queue.len(), 1);
        assert!(!view.memory.pages.state(second).is_queued());
        assert_eq!(queue.pop(&view).map(|c| (c.page, c.rate_per_sec > 40.0)), Some((first, true)));
    }

    #[test]
    fn pages_without_room_are_tried_again_once_there_is_more() {
        const CAPACITY: Bytes = Bytes::from_base_pages(2 * ROOM_OF);
        let mut queue = Candidates::default();
        let pages: Vec<PageIdx> = (0..WITHOUT_ROOM + 1_000).map(PageIdx::from_index).collect();
        pages.iter().for_each(|&page| queue.remember(page));
        let mut tried = |room| queue.take_remembered(Bytes::from_base_pages(room), CAPACITY);
        assert!(tried(1).is_empty(), "hardly any room");
        assert!(tried(2).iter().eq(&pages[pages.len() - 32..]), "the last of them");
        assert!(tried(3).is_empty() && tried(1).is_empty() && tried(2).is_empty(), "hardly more");
        assert!(tried(4).iter().eq(&pages[pages.len() - 80..pages.len() - 32]), "three more");
        let all = tried(1 << 40);
        assert!(all.iter().eq(&pages[1_000..pages.len() - 80]), "the oldest are forgotten");
    }

    /// A page is found by one scan; of those that scans find, so many of a thousand are found by the next, too.
    #[test]
    fn one_hit_is_enough_where_another_is_likely() {
        let is_worth = |again| {
            let mut stage = Stage::of_base_pages(1, SLOW);
            let (page, window) = (stage.all[0], Nanos::from_millis(100));
            stage.hotness.set_windows(window, window, window);
            let new = stage.hotness.new_page();
            stage.hotness.advance(window);
            stage.hotness.set_population(Population::of(10_000, 1_000, again));
            let update = stage.hotness.hit_update(PageSize::Base);
            stage.pages.set_heat(page, update.apply(new, 1.0, None, false));
            let mut queue = Candidates::default();
            let floors = test(&Pack).lowest(&stage.view());
            queue.queue_if_worth(&mut stage.view(), &test(&Pack), &floors, page);
            !queue.is_empty()
        };
        assert_eq!([400, 600].map(is_worth), [false, true]);
    }

    /// One access a second does not repay a move.
    #[test]
    fn pages_of_a_tenant_that_misses_its_target_need_not_repay_their_moves() {
        let mut stage = Stage::of_base_pages(1, SLOW);
        stage.set_rates(&[1.0]);
        let page = stage.all[0];
        let candidate = Candidate::new(&stage.view(), page, 0.5);
        assert!(test(&Pack).location_if_worth(&stage.view(), candidate, TierId::FAST).is_none());
        stage.limits.set_behind([TenantId::default()]);
        assert!(test(&Pack).location_if_worth(&stage.view(), candidate, TierId::FAST).is_some());
        let mut queue = Candidates::default();
        let mut view = stage.view();
        let floors = test(&Pack).lowest(&view);
        queue.queue_if_worth(&mut view, &test(&Pack), &floors, page);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn the_floor_doubles_for_a_page_that_moved_back() {
        let mut stage = Stage::of_base_pages(1, SLOW);
        let page = stage.all[0];
        let candidate = Candidate::new(&stage.view(), page, 9.0);
        let goal = Pack;
        assert!(test(&goal).location_if_worth(&stage.view(), candidate, TierId::FAST).is_some());
        stage.pages.set_ping_pongs(page, 1);
        assert!(test(&goal).location_if_worth(&stage.view(), candidate, TierId::FAST).is_none());
        let hotter = Candidate::new(&stage.view(), page, 11.0);
        assert!(test(&goal).location_if_worth(&stage.view(), hotter, TierId::FAST).is_some());
    }
}
