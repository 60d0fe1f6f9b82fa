// SPDX-License-Identifier: Apache-2.0
//! Timing of windows, for all trackers that arm, wait and read.
//!
//! A window in which all pages or no pages were accessed gives no information. So the window follows the share
//! of accessed pages: if more pages are accessed than fit in the fast tier, or more than a quarter, it
//! halves; if fewer than a quarter of that, it becomes longer, but not while what windows find is promoted: short windows
//! find the hottest pages sooner. So it does if few of the pages that one window found are
//! found by the next: hot pages are then accessed less than once in a window. A longer window whose pages are found
//! again less often adds cold pages: the tracker returns to the window that separated best, and begins with it when
//! something changes. A window in which the program did not run finds next to nothing: it is repeated, and if the program runs
//! again later, the window is the one from before. Huge pages are accessed far more often than base pages and
//! have a window of their own, up to that of base pages.
//!
//! Scans cost CPU time in proportion to the memory watched. The pause after a window keeps that cost, and that of what
//! is done with its report, within a budget, whatever the size of the process. While placement is not settled, windows may follow each other on
//! credit: a few close together find a hot set sooner than the same number spread out, and later pauses
//! pay for them. A part of it is kept for the next change, unless windows are for a policy that expects them at a
//! constant rate. So is what is left once pages were promoted and windows show hardly any more of them, unless there
//! are huge pages, which may have to be split. When placement has settled, pauses become twice as long with each
//! window, until the budget of calm pays for them.

use tierline_core::port::Attention;
use tierline_core::unit::{BASE_PER_HUGE, Bytes, Nanos};

use super::access_bits::ReadCounts;
use super::cost::Cost;
use super::last_scan::Repeated;

/// Share of accessed pages above which a window is too long: warm pages then look hot. Ours.
const MOST_TOUCHED: f64 = 0.25;

/// Share of the pages found by one window that the next one should find, too. Ours.
const FOUND_AGAIN: f64 = 0.6;
/// Pages that are found again this many times as often as any page is found are hot ones. Ours.
const STANDS_OUT: f64 = 4.0;
/// A window becomes longer by this factor at most.
const MOST_LONGER: f64 = 8.0;
/// Pages from which that share can be told.
const ENOUGH: u64 = 64;

/// Share of huge pages above which their window is shortened to an eighth: halving it would not change the result. Ours.
const SATURATED: f64 = 0.75;

/// A program with fewer base pages than one in this many is observed as one in huge pages: its few base pages do
/// not make windows longer. So few huge pages do not matter either. Ours.
const FEW_OF: u64 = 16;

/// A program that grows by more than one in this many pages between two windows is still filling its memory. Ours.
const GROWTH_OF: u64 = 16;

/// While a program fills its memory, this part more of it is worth another window. Ours.
const FILLED: f64 = 0.5;

/// Windows after an alarm that may spend all credit. Ours: a page is promoted after two hits.
const FRUITLESS: u32 = 4;

/// Share of the accessed pages that are promoted after a window that is of use. Ours.
const OF_USE: f64 = 1.0 / 32.0;
/// Windows of no use after which longer ones are tried, and none is on credit any more. Ours: a page is promoted after two hits.
const EXHAUSTED: u32 = 3;
/// Share of accessed pages below which a program is idle, and the part of the budget of calm that it is worth. Ours: its
/// few pages gain nothing, and quick scans show when it wakes up.
const IDLE: f64 = 1.0 / 1024.0;
const IDLE_BUDGET: f64 = 0.25;

/// A window that finds less than one in this many of the pages of the last one, which was no longer, shows no more than that
/// the program did not run. Ours.
const PAUSED_OF: u64 = 8;

/// A quick scan's window is this part of that of scans, or this long. Ours: in an eighth of a long one, hot pages stand out
/// from cold ones; in a tenth of a second, a small sample shows a change.
const QUICK_OF: u64 = 8;
const USUAL_QUICK: Nanos = Nanos::from_millis(100);

/// How often to scan and at what cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowSettings {
    /// The first window.
    pub window: Nanos,
    /// The shortest window.
    pub shortest: Nanos,
    /// The longest window.
    pub longest: Nanos,
    /// The first window of huge pages. Too short a window does no harm: it only takes longer to find hot pages.
    pub huge_window: Nanos,
    /// The shortest window of huge pages: about the time in which a thread is woken and a batch of them is armed.
    pub huge_shortest: Nanos,
    /// Share of one CPU that scans may cost while placement is not settled.
    pub budget_alert: f64,
    /// Share of one CPU that scans may cost while placement is settled.
    pub budget_calm: f64,
    /// CPU time that windows may take in advance while placement is not settled.
    pub credit: Nanos,
    /// The part of it that is kept for the next change.
    pub kept: Nanos,
    /// The least time between windows while placement is not settled.
    pub pause_alert: Nanos,
    /// The least time between windows while pages wait to be moved.
    pub pause_moving: Nanos,
    /// The least time between windows while placement is settled.
    pub pause_calm: Nanos,
    /// The longest that page faults of the watched process should wait for an arming; if arming takes longer,
    /// pauses grow in proportion.
    pub max_delay: Nanos,
}

impl Default for WindowSettings {
    fn default() -> Self {
        Self {
            window: Nanos::from_millis(20),
            shortest: Nanos::from_millis(1),
            longest: Nanos::from_secs(1),
            huge_window: Nanos(200_000),
            huge_shortest: Nanos(20_000),
            budget_alert: 0.05,
            budget_calm: 0.01,
            credit: Nanos::from_millis(3_000),
            kept: Nanos::from_millis(1_000),
            pause_alert: Nanos::from_millis(20),
            pause_moving: Nanos::from_secs(2),
            pause_calm: Nanos::from_millis(250),
            max_delay: Nanos::from_millis(50),
        }
    }
}

/// Statistics of the last window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowStats {
    /// Windows read so far.
    pub windows: u64,
    /// Base pages found in memory.
    pub present: u64,
    /// Of them, base pages that were accessed.
    pub accessed: u64,
    /// Time in which an access was observable, on average over the pages.
    pub watched: Nanos,
    /// The same for huge pages, if they have a window of their own.
    pub huge_watched: Option<Nanos>,
    /// Cost of arming, over all processes.
    pub arm: Cost,
    /// Cost of reading, over all processes.
    pub read: Cost,
    /// The longest time that one arming delayed one process: its page faults waited, plain accesses did not.
    pub longest_delay: Nanos,
    /// The length of the next window.
    pub window: Nanos,
    /// The time until the next window starts.
    pub pause: Nanos,
}

/// How well a window separates hot pages from cold ones.
#[derive(Clone, Copy, Debug)]
struct Separation {
    window: Nanos,
    /// The share of the pages found by one such window that the next one finds, too.
    found_again: f64,
}

impl Separation {
    fn is_of(&self, window: Nanos) -> bool {
        are_alike(self.window, window)
    }
}

/// Decides windows and pauses.
#[derive(Clone, Debug)]
pub struct WindowPace {
    /// The settings it follows.
    pub settings: WindowSettings,
    window: Nanos,
    huge_window: Nanos,
    attention: Attention,
    /// CPU time in seconds that may be spent in advance; negative if owed.
    credit: f64,
    refilled: Option<Nanos>,
    /// Windows since an alarm.
    fruitless: u32,
    /// Windows since calm began.
    calm_windows: u32,
    /// Base pages promoted since the last window.
    promoted: u64,
    /// CPU time spent on what windows reported, since the last pause.
    processing: Nanos,
    /// Windows of about this length without much to promote.
    exhausted: u32,
    /// Since the last alarm there was much to promote.
    has_placed: bool,
    /// A part of the memory is in huge pages: windows may show which of them to split.
    has_huge: bool,
    /// The window that separates best.
    best: Option<Separation>,
    /// The last window found hot pages of slow memory, but not each time.
    hides_hot: bool,
    /// Since the last change or promotions, a longer window than the best has separated less.
    longer_is_worse: bool,
    /// The window before this one.
    last_window: Nanos,
    /// Base pages that the last window found, and the one before.
    found: [Option<u64>; 2],
    /// The window and the pages that it found before the program paused.
    before_pause: Option<(Nanos, u64)>,
    /// Whether the program was filling its memory at the last window.
    grows: bool,
    /// Pages in memory at the last window.
    present: u64,
    /// Whether the last window found next to nothing.
    idle: bool,
    /// Base pages of huge pages that were split.
    split: u64,
}

impl WindowPace {
    /// A pace that starts with the settings' first window.
    pub fn new(settings: WindowSettings) -> Self {
        let window = settings.window.clamp(settings.shortest, settings.longest);
        let huge_window = settings.huge_window.min(window);
        let credit = settings.credit.as_secs_f64();
        Self {
            settings,
            window,
            huge_window,
            attention: Attention::default(),
            credit,
            refilled: None,
            fruitless: 0,
            calm_windows: 0,
            promoted: 0,
            processing: Nanos::ZERO,
            exhausted: 0,
            has_placed: false,
            has_huge: false,
            best: None,
            hides_hot: false,
            longer_is_worse: false,
            last_window: Nanos::ZERO,
            found: [None; 2],
            before_pause: None,
            grows: false,
            present: 0,
            idle: false,
            split: 0,
        }
    }

    /// The window to use now.
    pub fn window(&self) -> Nanos {
        self.window
    }

    /// The window of a quick scan: a part of that of scans or [`USUAL_QUICK`], but no longer than the one in which hot pages
    /// stand out from cold ones best.
    pub fn quick_window(&self) -> Nanos {
        let most = self.best.map_or(self.settings.window, |best| best.window.min(USUAL_QUICK));
        Nanos(self.window.0 / QUICK_OF).max(most).min(self.window)
    }

    /// How closely to observe.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// Sets how closely to observe.
    pub fn set_attention(&mut self, attention: Attention) {
        let alarm = self.is_alarm(attention);
        if attention != Attention::Calm {
            self.calm_windows = 0;
        }
        self.attention = attention;
        if alarm {
            self.longer_is_worse = false;
            self.return_to_best();
        }
        // Pages that wait to be moved are no change: what is kept is there when the next one comes.
        if attention == Attention::Alert && alarm {
            (self.fruitless, self.has_placed) = (0, false);
        }
    }

    /// Shortens the window to the one that separates best.
    fn return_to_best(&mut self) {
        let best = self.best.map_or(self.window, |best| best.window);
        self.window = self.window.min(best);
        self.huge_window = self.huge_window.min(self.window);
    }

    /// Records which part of the pages found by the last window this one found, too. The mean for windows of this length.
    fn record_separation(&mut self, seen: ReadCounts) -> Option<f64> {
        let Repeated { before, again } = seen.repeated;
        let last = std::mem::replace(&mut self.last_window, self.window);
        if before < ENOUGH {
            return None;
        }
        let found_again = ratio(again, before);
        // A few pages that are accessed all the time show nothing of those that wait in slow memory.
        if !are_alike(last, self.window) || seen.slow_accessed < ENOUGH {
            return Some(found_again);
        }
        let this = Separation { window: self.window, found_again };
        match &mut self.best {
            Some(best) if best.is_of(self.window) => {
                best.found_again = f64::midpoint(best.found_again, found_again);
                Some(best.found_again)
            }
            Some(best) if best.found_again >= found_again => Some(found_again),
            best => {
                *best = Some(this);
                Some(found_again)
            }
        }
    }

    /// Whether this attention is an alarm: it ends calm, or is told again.
    pub fn is_alarm(&self, attention: Attention) -> bool {
        let was_settled = matches!(self.attention, Attention::Calm | Attention::Suspicious);
        attention != Attention::Calm && (was_settled || attention == self.attention)
            || attention == Attention::Suspicious
    }

    /// Records base pages that were promoted.
    pub fn record_promotions(&mut self, base_pages: u64) {
        self.promoted += base_pages;
    }

    /// Records CPU time that the manager spent on what a window reported. The next pause pays for it, too.
    pub fn record_processing(&mut self, cpu: Nanos) {
        self.processing += cpu;
    }

    /// Records huge pages that were split. Once they are half of the memory, what is known of windows was of huge pages, and
    /// windows may spend all credit again.
    pub fn record_splits(&mut self, huge_pages: u64) {
        self.split += huge_pages * BASE_PER_HUGE;
        if self.split * 2 > self.present {
            (self.split, self.fruitless, self.has_placed) = (0, 0, false);
            self.credit = self.settings.credit.as_secs_f64();
            self.refocus();
        }
    }

    /// Other pages decide the window from now on: what is known of windows was of other programs.
    pub fn refocus(&mut self) {
        (self.best, self.exhausted, self.longer_is_worse) = (None, 0, false);
        self.before_pause = None;
    }

    /// The least time between the end of the last window and the first one of an alarm. That of a change may be on debt, by as
    /// much as is kept for changes. Suspicions are spent on what has been earned: a program may give rise to them all the time.
    pub fn pause_before_alarm(&self) -> Nanos {
        let debt = match self.attention {
            Attention::Suspicious => 0.0,
            _ => self.settings.kept.as_secs_f64(),
        };
        earned_at(self.settings.budget_alert, -self.credit - debt)
    }

    /// Whether there is more credit than is kept for the next change.
    pub fn has_credit(&self) -> bool {
        self.credit > self.settings.kept.as_secs_f64()
    }

    #[cfg(test)]
    pub(super) fn credit(&self) -> f64 {
        self.credit
    }

    #[cfg(test)]
    pub(super) fn set_credit(&mut self, seconds: f64) {
        self.credit = seconds;
    }

    /// Whether the program was filling its memory at the last window.
    pub fn grows(&self) -> bool {
        self.grows
    }

    /// The window to use now for huge pages, if it is shorter.
    pub fn huge_window(&self) -> Option<Nanos> {
        (self.huge_window < self.window).then_some(self.huge_window)
    }

    /// The share of pages that a window should find accessed, at most.
    fn wanted(&self, seen: ReadCounts, fast: Bytes) -> f64 {
        ratio(fast.base_pages(), seen.present.max(1)).min(MOST_TOUCHED)
    }

    /// Whether a sample shows as many accessed base pages as a window should find. `seen` is projected from it;
    /// `present` are all pages.
    pub fn is_full(&self, seen: ReadCounts, present: u64, fast: Bytes) -> bool {
        let hit = ratio(seen.accessed, seen.present.max(1));
        seen.present * FEW_OF >= present && hit > self.wanted(ReadCounts { present, ..seen }, fast)
    }

    /// Makes the present window end after `waited`.
    pub fn end_window(&mut self, waited: Nanos) {
        self.window = waited.clamp(self.settings.shortest, self.window);
        self.huge_window = self.huge_window.min(self.window);
    }

    /// Shortens the window of huge pages if too many were accessed: those seen in it cannot be told apart. `false`
    /// if it is short enough, or the shortest.
    pub fn shorten_huge(&mut self, seen: ReadCounts, fast: Bytes) -> bool {
        let share = ratio(seen.huge_accessed, seen.huge_present.max(1));
        if share <= self.wanted(seen, fast) || self.huge_window <= self.settings.huge_shortest {
            return false;
        }
        let shorter =
            if share > SATURATED { self.huge_window.0 / 8 } else { self.huge_window.0 / 2 };
        self.huge_window = Nanos(shorter).max(self.settings.huge_shortest);
        true
    }

    /// Whether a window shows no more than that the program did not run in it: nothing can be learnt from that. Where the last
    /// window found far more than the one before, as when memory is searched for garbage, this is what is usual.
    pub fn shows_pause(&mut self, seen: ReadCounts) -> bool {
        let (before, found) = (seen.repeated.before, seen.base_accessed());
        let is_pause = before >= ENOUGH
            && found * PAUSED_OF < before.min(self.found[1].unwrap_or(before))
            && self.window * 4 >= self.last_window * 3;
        if is_pause {
            self.before_pause.get_or_insert((self.window, before));
        }
        is_pause
    }

    /// Whether a program that has paused runs again, and its pause has made the window longer: then it is the one from before
    /// the pause.
    fn goes_on(&mut self, seen: ReadCounts) -> bool {
        let found = seen.base_accessed();
        let before = self.before_pause.take_if(|(_, before)| found * PAUSED_OF >= *before);
        let Some((window, _)) = before.filter(|(window, _)| self.window > *window) else {
            return false;
        };
        self.last_window = self.window;
        self.window = window;
        self.huge_window = self.huge_window.min(window);
        true
    }

    /// Adapts the windows to the last result: what was seen in the window of base pages, and what with huge pages in
    /// their own. `fast` is the fast tier's capacity.
    pub fn adapt(&mut self, seen: ReadCounts, own: ReadCounts, fast: Bytes) {
        if seen.present == 0 {
            return;
        }
        self.idle = ratio(seen.accessed, seen.present) < IDLE;
        self.found = [Some(seen.base_accessed()), self.found[0]];
        if self.goes_on(seen) {
            return;
        }
        let WindowSettings { shortest, longest, huge_shortest, .. } = self.settings;
        let (wanted, mut base) = (self.wanted(seen, fast), seen);
        if (seen.present - seen.huge_present) * FEW_OF >= seen.present {
            base.present -= seen.huge_present;
            base.accessed -= seen.huge_accessed;
        }
        let found_again = self.record_separation(seen);
        let hid_hot = std::mem::replace(&mut self.hides_hot, hides_hot_pages(seen));
        let promoted = std::mem::take(&mut self.promoted);
        let of_use = promoted >= ENOUGH && ratio(promoted, seen.accessed.max(1)) > OF_USE;
        self.exhausted = if of_use { 0 } else { self.exhausted + 1 };
        self.has_placed |= of_use;
        self.has_huge = seen.huge_present * FEW_OF > seen.present;
        self.longer_is_worse &= !of_use;
        let few = match found_again {
            Some(share) if share < FOUND_AGAIN => wanted / 2.0,
            Some(_) if hid_hot && self.hides_hot => wanted / 2.0,
            Some(_) if self.exhausted < EXHAUSTED || self.longer_is_worse => 0.0,
            Some(share) if self.separates_less(share) => {
                self.longer_is_worse = true;
                self.return_to_best();
                0.0
            }
            _ => wanted / 4.0,
        };
        // Of a window `n` times as long, at most `n` times as many pages are accessed.
        let longer =
            |hits, pages| wanted / 2.0 / ratio(hits, pages).max(wanted / 2.0 / MOST_LONGER);
        let hit = ratio(base.accessed, base.present);
        let window = if hit > wanted {
            Nanos(self.window.0 / 2)
        } else if hit < few && ratio(own.accessed, own.present) < few {
            let times = longer(base.accessed, base.present).min(longer(own.accessed, own.present));
            Nanos::from_secs_f64(self.window.as_secs_f64() * times)
        } else {
            self.window
        };
        // Each page is accessed when it is filled: in one short window, not in several long ones, as hot pages are.
        let fills = self.present > 0 && self.grew(seen.present);
        if fills {
            self.refocus();
        }
        let most = if fills { self.settings.window } else { longest };
        let before = std::mem::replace(&mut self.window, window.min(most).clamp(shortest, longest));
        if self.window > before {
            self.exhausted = 0;
        }
        if own.huge_present > 0 && ratio(own.huge_accessed, own.huge_present) < wanted / 4.0 {
            self.huge_window = self.huge_window * 2;
        }
        self.huge_window = self.huge_window.max(huge_shortest).min(self.window);
    }

    /// Whether a shorter window than this one separates better than this share.
    fn separates_less(&self, found_again: f64) -> bool {
        let is_better = |best: Separation| {
            best.window < self.window && !best.is_of(self.window) && best.found_again > found_again
        };
        self.best.is_some_and(is_better)
    }

    /// Whether the program has filled much memory since the last window.
    fn grew(&self, present: u64) -> bool {
        present.saturating_sub(self.present) > self.present / GROWTH_OF
    }

    /// The least time between windows, whatever their cost.
    pub fn least_pause(&self) -> Nanos {
        match self.attention {
            Attention::Alert | Attention::Suspicious => self.settings.pause_alert,
            Attention::Moving => self.settings.pause_moving,
            Attention::Calm => self.settings.pause_calm,
        }
    }

    /// Time until the budget permits another window, after one that ended at `now`, cost `cost`, delayed a process for
    /// `hold`, and found `present` pages in memory.
    pub fn pause(&mut self, now: Nanos, cost: Cost, hold: Nanos, present: u64) -> Nanos {
        let processing = std::mem::take(&mut self.processing);
        let (settings, cpu) = (self.settings, (cost.cpu + processing).as_secs_f64());
        let passed = now.saturating_sub(self.refilled.unwrap_or(now)).as_secs_f64();
        self.refilled = Some(now);
        self.grows = self.grew(present);
        let before = std::mem::replace(&mut self.present, present);
        self.fruitless += 1;
        let full = settings.credit.as_secs_f64();
        self.credit = (self.credit + passed * settings.budget_alert).min(full);
        self.credit -= cpu;
        // While what is kept for the next change is earned again, windows go on at half of the budget; what is owed is earned
        // first.
        let spends_all = self.grows || self.fruitless < FRUITLESS || settings.kept == Nanos::ZERO;
        let kept = if spends_all { 0.0 } else { settings.kept.as_secs_f64() };
        let pause = match self.attention {
            // Placement has settled by all signs, and may not have: the first windows of calm come sooner.
            Attention::Calm => {
                let sooner = earned_at(settings.budget_alert, cpu);
                let pause = self.earned(cpu).min(sooner * (1 << self.calm_windows.min(16)));
                self.calm_windows += 1;
                pause
            }
            // What windows of no use spend would be missing at the next change.
            _ if !spends_all && self.has_seen_all() => self.earned(cpu.max(-self.credit)),
            _ => self.earned((kept - self.credit).min(2.0 * cpu).max(-self.credit)),
        };
        // Memory that is being filled is observed when there is much more of it, not each time that there is credit.
        let filled = ratio(present, present.saturating_sub(before).max(1)) * passed * FILLED;
        let filling = Nanos::from_secs_f64(filled).min(self.earned(cpu));
        let pause = if self.grows { pause.max(filling) } else { pause };
        let observed = ratio(hold.0, settings.max_delay.0.max(1)).max(1.0);
        Nanos::from_secs_f64(pause.as_secs_f64() * observed)
    }

    /// Whether the pages that windows show were promoted: more windows would be of no use.
    fn has_seen_all(&self) -> bool {
        self.has_placed && !self.has_huge && self.exhausted >= EXHAUSTED
    }

    /// The time in which the present budget pays for `owed` seconds of CPU time.
    pub fn earned(&self, owed: f64) -> Nanos {
        let budget = match self.attention {
            Attention::Calm if self.idle => self.settings.budget_calm * IDLE_BUDGET,
            Attention::Calm => self.settings.budget_calm,
            _ => self.settings.budget_alert,
        };
        earned_at(budget, owed)
    }
}

/// Whether pages remain in slow memory that are accessed again far more often than others, but not in each window: fast memory
/// has those by now that are.
fn hides_hot_pages(seen: ReadCounts) -> bool {
    let again = ratio(seen.slow_again, seen.slow_accessed.max(1));
    seen.slow_accessed >= ENOUGH
        && again < FOUND_AGAIN
        && again > STANDS_OUT * ratio(seen.accessed, seen.present)
}

/// The time in which a budget, a share of one CPU, pays for `owed` seconds of CPU time.
fn earned_at(budget: f64, owed: f64) -> Nanos {
    Nanos::from_secs_f64(owed.max(0.0) / budget.max(1e-6))
}

/// Whether windows of these lengths find about the same pages: they differ by a third at most. Ours.
pub(super) fn are_alike(a: Nanos, b: Nanos) -> bool {
    a * 4 >= b * 3 && b * 4 >= a * 3
}

/// True if programs stand still while this thread runs.
pub(super) fn has_one_cpu() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
pub(super) mod tests;
