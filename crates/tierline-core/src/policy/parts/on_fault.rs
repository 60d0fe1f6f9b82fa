// SPDX-License-Identifier: Apache-2.0
//! Tiering in the kernel: a hint fault promotes the page, and a reclaimer demotes inactive pages.
//!
//! The common part of TPP and upstream Linux. A hint fault on a page below the fastest tier promotes it at once
//! if the system's rules find it hot and there is room. A reclaimer keeps room by demoting inactive pages
//! between two watermarks, private and file pages alike, to the nearest tier below with room. Pages without
//! room below, and inactive pages of the slowest tier, are paged out if they have a file: no swap is assumed.
//! With a goal that shifts, a hot page is promoted only while the goal requests a shift up and the page's
//! probability fits the remaining shift; a hot page that faults in the upper tier is demoted while the goal
//! requests a shift down.
//!
//! Source: TPP sections 5.1 to 5.3, Colloid section 4.3. There each fault is compared with Δp by itself; here
//! the faults of one tick share Δp, as they all see the same measurement.

use std::fmt;

use super::ledger::{self, Ledger, Shortage};
use super::watermarks::Watermarks;
use crate::knob::Knob;
use crate::knobs;
use crate::page::{PREFETCH_BATCH, PageIdx, PageTable};
use crate::policy::goal::{Aim, Goal, Shift, ShiftQuota};
use crate::policy::interface::{HeatEstimate, Policy, Wants};
use crate::policy::plan::Plan;
use crate::policy::view::{Memory, View};
use crate::port::{Capability, PageKind, PageSize, Reason, Tracking};
use crate::telemetry::Hit;
use crate::telemetry::fault_latency::{latency, share};
use crate::telemetry::lru::{Eligible, Lru, LruScan, LruWord};
use crate::tier::TierId;
use crate::unit::{Bytes, Nanos};

/// A page that was accessed while it was armed.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// When it was observed.
    pub now: Nanos,
    /// The page.
    pub page: crate::page::PageIdx,
    /// Its size.
    pub size: PageSize,
    /// The tier it is in.
    pub tier: TierId,
    /// How long it was armed, if known.
    pub latency: Option<Nanos>,
    /// Accesses seen.
    pub hits: f32,
    /// Free bytes of the fastest tier.
    pub free: Bytes,
    /// Capacity of the fastest tier.
    pub capacity: Bytes,
}

/// Watermarks of a tier.
#[derive(Clone, Copy, Debug)]
pub struct TierWatermarks {
    /// The reclaimer wakes below this.
    pub wake: Bytes,
    /// The reclaimer stops here.
    pub stop: Bytes,
    /// Promotions leave this much free.
    pub floor: Bytes,
}

/// What differs between systems of this kind.
pub trait Rules: fmt::Debug + Send {
    /// Takes in measurements, before the faults of the same tick are judged.
    fn update(&mut self, _view: &View<'_>) {}

    /// Whether the page that faulted should be in the fastest tier.
    fn judge_fault(&mut self, fault: &Fault, lru: &mut Lru, pages: &mut PageTable) -> bool;

    /// Fast memory has no room for the page that faulted; returns whether this wakes the reclaimer.
    fn no_room(&mut self) -> bool {
        true
    }

    /// The watermarks of a tier of that capacity.
    fn watermarks(&self, capacity: Bytes) -> TierWatermarks;

    /// What it requests of the world; `fast_too` if faults in the fastest tier are needed.
    fn wants(&self, fast_too: bool) -> Wants;

    /// What it cannot work without.
    fn needs(&self) -> &'static [Capability] {
        &[]
    }

    /// Whether inactive pages are demoted; otherwise they are paged out from every tier.
    fn demotes(&self) -> bool {
        true
    }

    /// Whether the thread that accesses a page promotes it and waits for it.
    fn in_fault(&self) -> bool {
        true
    }

    /// Its knobs.
    fn knobs(&self) -> Vec<Knob>;

    /// Sets the knob of that name; false if there is none.
    fn set(&mut self, knob: &str, value: f64) -> bool;
}

knobs! {
    /// The knobs that all rules share.
    pub struct OnFaultKnobs {
        /// While shifting, a page must also pass the rules' test for heat, as in Colloid's code.
        heat_test: bool = false, false, true;
    }
}

/// The reclaimer's first scan covers a 4096th of a list; the part doubles each time it finds nothing or covers
/// fewer pages than are missing (`balance_pgdat`).
const FIRST_PRIORITY: u8 = 12;
/// Time in which that part doubles, at least once a tick: the kernel's reclaimer does not wait between scans, and a tick with
/// many moves may take a second. Ours.
const PRIORITY_EVERY: Nanos = Nanos::from_millis(50);
/// Pages per scan, at least.
const BATCH: usize = 32;
/// Pages scanned per page that is missing and can be moved, at most.
const SCANS_PER_PAGE: usize = 4;

/// A system of this kind with its rules.
#[derive(Debug)]
pub struct OnFault<R> {
    name: &'static str,
    rules: R,
    knobs: OnFaultKnobs,
    goal: Box<dyn Goal>,
    lru: Lru,
    last: Option<Nanos>,
    reclaim: [Reclaim; TierId::MAX],
}

#[derive(Clone, Copy, Debug)]
struct Reclaim {
    awake: bool,
    /// Time since it woke.
    since: Nanos,
    priority: u8,
}

const ASLEEP: Reclaim = Reclaim { awake: false, since: Nanos::ZERO, priority: FIRST_PRIORITY };

impl<R: Rules> OnFault<R> {
    /// The system under a name, with a goal.
    pub fn new(name: &'static str, rules: R, goal: Box<dyn Goal>) -> Self {
        Self {
            name,
            rules,
            knobs: OnFaultKnobs::default(),
            goal,
            lru: Lru::default(),
            last: None,
            reclaim: [ASLEEP; TierId::MAX],
        }
    }

    /// Demotes or pages out until enough is free, slower tiers first so that they have room.
    fn reclaim(
        &mut self,
        view: &mut View<'_>,
        passed: Nanos,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) {
        let slowest = view.machine.tiers.slowest();
        for tier in (0..=slowest.0).rev().map(TierId) {
            let capacity = view.machine.tiers[tier].capacity;
            let marks = match tier == slowest {
                true => TierWatermarks::of(Watermarks::of(capacity)),
                false => self.rules.watermarks(capacity),
            };
            let free = ledger::free(view, tier);
            let Reclaim { awake, since, priority } = self.reclaim[tier.index()];
            let was_awake = awake;
            let woken =
                free < marks.wake || view.machine.telemetry.tiers[tier.index()].failed_allocations;
            let awake = (awake || woken) && free < marks.stop;
            if !awake {
                self.reclaim[tier.index()] = ASLEEP;
                continue;
            }
            let since = if was_awake { since + passed } else { Nanos::ZERO };
            self.reclaim[tier.index()] = Reclaim { awake, since, ..ASLEEP };
            let demotes = self.rules.demotes() && tier < slowest;
            let candidates = if demotes { Eligible::All } else { Eligible::Files };
            let missing = marks.stop.saturating_sub(free);
            let left = match demotes {
                true => self.demote(view, tier, missing, ledger, plan),
                false => self.page_out(view, tier, missing),
            };
            if left == Bytes::ZERO {
                continue;
            }
            let most = left.min(view.machine.budget).base_pages();
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let all = self.lru.len(tier, candidates);
            let narrow = all >> priority < most;
            let grows = narrow || left == missing;
            let priority = priority.saturating_sub(if grows { priorities(passed) } else { 0 });
            self.reclaim[tier.index()].priority = priority;
            // Cold pages that do not fit into a tick would have to be scanned again. The number that fits is
            // known once pages were moved.
            let counters = &view.orders.counters;
            let moved = counters.demote_anon + counters.demote_file > 0;
            let most_scans = if moved { most.saturating_mul(SCANS_PER_PAGE) } else { usize::MAX };
            let count = (all >> priority).min(most_scans).max(BATCH);
            let (now, awake) = (view.now, since);
            let scan = LruScan { now, passed, awake, tier, eligible: candidates, priority, count };
            self.lru.scan(view.memory.pages, view.orders.questions, scan);
        }
    }

    /// Demotes cold pages; returns the bytes still missing.
    fn demote(
        &mut self,
        view: &mut View<'_>,
        tier: TierId,
        mut missing: Bytes,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Bytes {
        while missing > Bytes::ZERO
            && let Some(page) = self.lru.take_cold(view.memory.pages, tier, Eligible::All)
        {
            let Some(at) = view.memory.pages.locate(page) else { continue };
            let Some(to) = ledger.demotion_target(view.memory.pages, page) else {
                if at.kind == PageKind::File {
                    view.orders.page_out.push(page);
                    self.lru.start_move(view.memory.pages, page);
                    missing = missing.saturating_sub(at.size.bytes());
                }
                continue;
            };
            let reason = Reason::Headroom { rate_per_sec: 0.0 }; // not accessed
            let Ok(bytes) = ledger.plan(view.memory.pages, page, to, reason, plan) else { break };
            self.lru.set_demoted(view.memory.pages, page, true);
            self.lru.start_move(view.memory.pages, page);
            missing = missing.saturating_sub(bytes);
        }
        missing
    }

    /// Pages out cold pages; returns the bytes still missing.
    fn page_out(&mut self, view: &mut View<'_>, tier: TierId, mut missing: Bytes) -> Bytes {
        while missing > Bytes::ZERO
            && let Some(page) = self.lru.take_cold(view.memory.pages, tier, Eligible::Files)
        {
            let Some(at) = view.memory.pages.locate(page) else { continue };
            view.orders.page_out.push(page);
            self.lru.start_move(view.memory.pages, page);
            missing = missing.saturating_sub(at.size.bytes());
        }
        missing
    }

    /// Handles one fault.
    fn fault(
        &mut self,
        view: &mut View<'_>,
        hit: &Hit,
        shifts: &mut Option<Vec<(Shift, ShiftQuota)>>,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) {
        let Some(tier) = view.memory.pages.state(hit.page).tier() else { return };
        let (latency, word) = latency(view.memory.pages.heat::<LruWord>(hit.page).0, hit, view.now);
        view.memory.pages.set_heat(hit.page, LruWord(word));
        if !self.lru.holds(view.memory.pages, hit.page) {
            return;
        }
        let Some(at) = view.memory.pages.locate(hit.page) else { return };
        let fault = Fault {
            now: view.now,
            page: hit.page,
            size: at.size,
            tier,
            latency,
            hits: hit.hits,
            free: ledger::free(view, TierId::FAST),
            capacity: view.machine.tiers[TierId::FAST].capacity,
        };
        let hot = self.rules.judge_fault(&fault, &mut self.lru, view.memory.pages);
        self.count_fault(view, &fault, hot);
        if !hot && (shifts.is_none() || self.knobs.heat_test) {
            return;
        }
        let planned = self.plan_fault(view, &fault, shifts, ledger, plan);
        self.settle_fault(view, &fault, planned, ledger);
    }

    /// Counts a fault below the fastest tier.
    fn count_fault(&self, view: &mut View<'_>, fault: &Fault, hot: bool) {
        if fault.tier == TierId::FAST {
            return;
        }
        let (pages, counters) = (fault.size.base_pages(), &mut view.orders.counters);
        counters.promote_sampled += pages;
        if hot {
            counters.promote_candidate += pages;
            if self.lru.is_demoted(view.memory.pages, fault.page) {
                counters.promote_candidate_demoted += pages;
            }
        }
    }

    /// Plans the move of a page that faulted: a promotion, or what a shift requests.
    fn plan_fault(
        &self,
        view: &View<'_>,
        fault: &Fault,
        shifts: &mut Option<Vec<(Shift, ShiftQuota)>>,
        ledger: &mut Ledger,
        plan: &mut Plan,
    ) -> Result<Bytes, Shortage> {
        let rate_per_sec = fault.latency.map_or(0.0, per_sec);
        match shifts {
            None if fault.tier == TierId::FAST => Err(Shortage::Page),
            None => {
                let reason = Reason::Hot { rate_per_sec };
                ledger.plan(view.memory.pages, fault.page, TierId::FAST, reason, plan)
            }
            Some(shifts) => {
                let reason = Reason::Balance { rate_per_sec };
                let (to, quota) = wanted(view, fault, shifts, ledger).ok_or(Shortage::Page)?;
                let share = probability(view, fault);
                let planned = ledger.plan(view.memory.pages, fault.page, to, reason, plan);
                planned.inspect(|&bytes| quota.charge(share, bytes))
            }
        }
    }

    /// Records whether the move was planned, and wakes the reclaimer if room was missing.
    fn settle_fault(
        &mut self,
        view: &mut View<'_>,
        fault: &Fault,
        planned: Result<Bytes, Shortage>,
        ledger: &Ledger,
    ) {
        let below = fault.tier > TierId::FAST;
        if below && matches!(planned, Ok(_) | Err(Shortage::Room)) {
            view.orders.counters.promote_tried += fault.size.base_pages();
        }
        match planned {
            Ok(_) => {
                self.lru.set_demoted(view.memory.pages, fault.page, !below);
                self.lru.start_move(view.memory.pages, fault.page);
            }
            Err(Shortage::Room) => {
                let nowhere = !ledger.has_room_below(TierId::FAST, fault.size);
                let counters = &mut view.orders.counters;
                let cause = match nowhere {
                    true => &mut counters.promote_fail_system_low,
                    false => &mut counters.promote_fail_low_memory,
                };
                *cause += fault.size.base_pages();
                self.reclaim[TierId::FAST.index()].awake |= self.rules.no_room();
            }
            Err(_) => {}
        }
    }
}

impl TierWatermarks {
    /// An allocation that would cross the low watermark goes to another tier and wakes the reclaimer; an
    /// allocation is at most a huge page.
    pub fn woken(kernel: Watermarks) -> Bytes {
        kernel.low + PageSize::Huge.bytes()
    }

    /// The watermarks of a kernel that tiers memory (`numa_balancing=2`) with a tier of this capacity.
    pub fn of_tiering(capacity: Bytes) -> Self {
        let kernel = Watermarks::of(capacity);
        Self { wake: Self::woken(kernel), stop: kernel.promo, floor: kernel.high }
    }

    /// The watermarks of a kernel without tiering.
    pub fn of(kernel: Watermarks) -> Self {
        Self { wake: Self::woken(kernel), stop: kernel.high, floor: kernel.high }
    }
}

/// Hint faults as the kernel's scanner arms them: all memory once per scan period, at most ten rounds a second
/// (`task_scan_min`: 2560 MB/s in rounds of 256 MB).
pub fn hint_faults(pass: Nanos, bytes: Bytes, fast_too: bool) -> Tracking {
    Tracking::HintFaults { pass, bytes, floor: Nanos::from_millis(100), fast_too }
}

/// By how many priorities a scan grows in the time that passed.
fn priorities(passed: Nanos) -> u8 {
    u8::try_from(passed.0 / PRIORITY_EVERY.0).unwrap_or(u8::MAX).max(1)
}

/// The target of a page that faulted under the goal's shifts, and the quota of that shift.
fn wanted<'a>(
    view: &View<'_>,
    fault: &Fault,
    shifts: &'a mut [(Shift, ShiftQuota)],
    ledger: &Ledger,
) -> Option<(TierId, &'a mut ShiftQuota)> {
    let bytes = fault.size.bytes();
    let share = probability(view, fault);
    let fits = shifts.iter_mut().filter(|(_, quota)| quota.admits(share, bytes));
    for (shift, quota) in fits {
        if shift.up && shift.below.contains(&fault.tier) {
            return Some((shift.tier, quota));
        }
        if !shift.up && shift.tier == fault.tier {
            let to = shift.below.iter().copied().find(|&to| ledger.room(to) >= bytes)?;
            return Some((to, quota));
        }
    }
    None
}

/// 1/(Δt·r), with r the reads per second of the page's tier.
fn probability(view: &View<'_>, fault: &Fault) -> f64 {
    let reads =
        view.machine.telemetry.tiers.get(fault.tier.index()).and_then(|tier| tier.reads_per_sec);
    fault.latency.zip(reads).map_or(1.0, |(latency, reads)| share(latency, reads))
}

/// The rate at which the mean time between accesses is `latency`.
#[expect(clippy::cast_possible_truncation, reason = "rates are f32")]
fn per_sec(latency: Nanos) -> f32 {
    (1.0 / latency.max(Nanos(1)).as_secs_f64()) as f32
}

impl<R: Rules> Policy for OnFault<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(&mut self, view: &mut View<'_>, plan: &mut Plan) {
        self.goal.update(view);
        self.rules.update(view);
        self.lru.learn(
            view.memory.pages,
            view.now,
            view.evidence.touched,
            view.evidence.hits,
            view.evidence.answers,
        );
        let passed = view.now.saturating_sub(self.last.unwrap_or(view.now));
        self.last = Some(view.now);
        let mut shifts = match self.goal.aim(view, passed) {
            Aim::Pack => None,
            Aim::Shift(shifts) => {
                let with_quota = |shift: Shift| {
                    let quota = ShiftQuota::of(&shift);
                    (shift, quota)
                };
                Some(shifts.into_iter().map(with_quota).collect())
            }
        };
        let slowest = view.machine.tiers.slowest();
        let floor = |tier| match tier == slowest {
            true => Bytes::ZERO,
            false => self.rules.watermarks(view.machine.tiers[tier].capacity).floor,
        };
        let mut ledger = Ledger::new(view, view.machine.budget, floor);
        self.reclaim(view, passed, &mut ledger, plan);
        for hits in view.evidence.hits.chunks(PREFETCH_BATCH) {
            self.lru.prefetch(view.memory.pages, hits.iter().map(|hit| hit.page));
            for hit in hits {
                self.fault(view, hit, &mut shifts, &mut ledger, plan);
            }
        }
    }

    fn needs(&self) -> &'static [Capability] {
        self.rules.needs()
    }

    fn heat(&self, memory: &Memory<'_>, page: PageIdx) -> HeatEstimate {
        HeatEstimate::exactly(f32::from(u8::from(self.lru.is_active(memory.pages, page))))
    }

    fn wants(&self) -> Wants {
        let wants = self.rules.wants(self.goal.can_shift());
        let promotes_in_fault = self.rules.in_fault();
        Wants { pages_out: true, own_heat: true, promotes_in_fault, ..wants }
    }

    fn knobs(&self) -> Vec<Knob> {
        let own = if self.goal.can_shift() { OnFaultKnobs::table() } else { Vec::new() };
        [self.rules.knobs(), own, self.goal.knobs()].concat()
    }

    fn set(&mut self, knob: &str, value: f64) -> bool {
        self.rules.set(knob, value)
            || self.goal.can_shift() && self.knobs.set(knob, value)
            || self.goal.set(knob, value)
    }
}
