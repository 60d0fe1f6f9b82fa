// SPDX-License-Identifier: Apache-2.0
//! Timing of windows, for all trackers that arm, wait and read.
//!
//! A window in which all pages or no pages were accessed gives no information. So the window follows the share
//! of accessed pages: if more pages are accessed than fit in the fast tier, or more than a quarter, it
//! halves; if fewer than a quarter of that, it doubles.
//!
//! Scans cost CPU time in proportion to the memory watched. The pause after a window keeps that cost within a
//! budget, whatever the size of the process. While placement is not settled, windows may follow each other on
//! credit: a few close together find a hot set sooner than the same number spread out, and later pauses
//! pay for them.

use std::time::Instant;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::time::{ClockId, clock_gettime};
use tierline_core::port::Attention;
use tierline_core::unit::{Bytes, Nanos};

/// Share of accessed pages above which a window is too long: warm pages then look hot. Ours.
const MOST_TOUCHED: f64 = 0.25;

/// The highest of the ordinary priorities.
const HIGHEST: i32 = -20;

/// How often to scan and at what cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The first window.
    pub window: Nanos,
    /// The shortest window.
    pub shortest: Nanos,
    /// The longest window.
    pub longest: Nanos,
    /// Share of accessed pages above which a window is too long.
    pub most_accessed: f64,
    /// Share of one CPU that scans may cost while placement is not settled.
    pub budget_alert: f64,
    /// Share of one CPU that scans may cost while placement is settled.
    pub budget_calm: f64,
    /// CPU time that windows may take in advance while placement is not settled.
    pub credit: Nanos,
    /// The least time between windows while placement is not settled.
    pub pause_alert: Nanos,
    /// The least time between windows while pages wait to be moved.
    pub pause_moving: Nanos,
    /// The least time between windows while placement is settled.
    pub pause_calm: Nanos,
    /// The longest that page faults of the watched process should wait for an arming; if arming takes longer,
    /// pauses grow in proportion.
    pub max_hold: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Nanos::from_millis(20),
            shortest: Nanos::from_millis(1),
            longest: Nanos::from_secs(1),
            most_accessed: MOST_TOUCHED,
            budget_alert: 0.05,
            budget_calm: 0.01,
            credit: Nanos::from_millis(1_000),
            pause_alert: Nanos::from_millis(20),
            pause_moving: Nanos::from_secs(2),
            pause_calm: Nanos::from_secs(1),
            max_hold: Nanos::from_millis(50),
        }
    }
}

/// The cost of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of this thread, in user and kernel mode.
    pub cpu: Nanos,
    /// Wall-clock time.
    pub wall: Nanos,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.wall += other.wall;
    }
}

/// Statistics of the last window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Windows read so far.
    pub windows: u64,
    /// Base pages found in memory.
    pub present: u64,
    /// Of them, base pages that were accessed.
    pub accessed: u64,
    /// Time in which an access was observable, on average over the pages.
    pub watched: Nanos,
    /// Cost of arming, over all processes.
    pub arm: Cost,
    /// Cost of reading, over all processes.
    pub read: Cost,
    /// The longest time that one arming delayed one process: its page faults waited, plain accesses did not.
    pub hold: Nanos,
    /// The length of the next window.
    pub window: Nanos,
    /// The time until the next window starts.
    pub pause: Nanos,
}

/// Decides windows and pauses.
#[derive(Clone, Debug)]
pub struct Pace {
    /// The settings it follows.
    pub settings: Settings,
    window: Nanos,
    attention: Attention,
    /// CPU time in seconds that may be spent in advance; negative if owed.
    credit: f64,
    refilled: Option<Nanos>,
}

impl Pace {
    /// A pace that starts with the settings' first window.
    pub fn new(settings: Settings) -> Self {
        let window = settings.window.clamp(settings.shortest, settings.longest);
        let credit = settings.credit.as_secs_f64();
        Self { settings, window, attention: Attention::default(), credit, refilled: None }
    }

    /// The window to use now.
    pub fn window(&self) -> Nanos {
        self.window
    }

    /// How closely to observe.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// Sets how closely to observe.
    pub fn set_attention(&mut self, attention: Attention) {
        self.attention = attention;
    }

    /// Adapts the window to the last result. `fast` is the fast tier's capacity.
    pub fn adapt(&mut self, present: u64, accessed: u64, fast: Bytes) {
        if present == 0 {
            return;
        }
        let (hit, wanted) = (
            ratio(accessed, present),
            ratio(fast.base_pages(), present).min(self.settings.most_accessed),
        );
        let window = match hit {
            h if h > wanted => self.window.0 / 2,
            h if h < wanted / 4.0 => self.window.0 * 2,
            _ => self.window.0,
        };
        self.window = Nanos(window).clamp(self.settings.shortest, self.settings.longest);
    }

    /// The least time between windows, whatever their cost.
    pub fn least_pause(&self) -> Nanos {
        match self.attention {
            Attention::Alert => self.settings.pause_alert,
            Attention::Moving => self.settings.pause_moving,
            Attention::Calm => self.settings.pause_calm,
        }
    }

    /// Time until the budget permits another window, after one that ended at `now`, cost `cost` and delayed a
    /// process for `hold`.
    pub fn pause(&mut self, now: Nanos, cost: Cost, hold: Nanos) -> Nanos {
        let (settings, cpu) = (self.settings, cost.cpu.as_secs_f64());
        let passed = now.saturating_sub(self.refilled.unwrap_or(now)).as_secs_f64();
        self.refilled = Some(now);
        let full = settings.credit.as_secs_f64();
        self.credit = (self.credit + passed * settings.budget_alert).min(full) - cpu;
        let pause = match self.attention {
            Attention::Alert | Attention::Moving => earned(-self.credit, settings.budget_alert),
            Attention::Calm => self.calm_pause(cost),
        };
        let observed = ratio(hold.0, settings.max_hold.0.max(1)).max(1.0);
        Nanos::from_secs_f64(pause.as_secs_f64() * observed)
    }

    /// Time in which the budget for settled placement pays for `cost`.
    pub fn calm_pause(&self, cost: Cost) -> Nanos {
        earned(cost.cpu.as_secs_f64(), self.settings.budget_calm)
    }
}

/// The time in which a share `budget` of one CPU pays for `owed` seconds of CPU time.
fn earned(owed: f64, budget: f64) -> Nanos {
    Nanos::from_secs_f64(owed.max(0.0) / budget.max(1e-6))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Measures the cost of a step for this thread.
pub struct Meter {
    cpu: Nanos,
    wall: Instant,
}

impl Meter {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { cpu: thread_cpu(), wall: Instant::now() }
    }

    /// The cost since the start.
    pub fn cost(&self) -> Cost {
        let cpu = thread_cpu().saturating_sub(self.cpu);
        Cost { cpu, wall: Nanos(u64::try_from(self.wall.elapsed().as_nanos()).unwrap_or(u64::MAX)) }
    }
}

/// While this lives, the calling thread runs before others: whatever runs between the arming and the reading
/// of a page makes its window longer, and with a long window warm pages look hot. On a machine whose CPUs
/// are all busy that is the program itself. Without the right to raise priority nothing changes.
#[derive(Debug)]
pub struct Urgent {
    nice: Option<i32>,
}

impl Urgent {
    /// Raises the priority.
    pub fn begin() -> Self {
        let nice = getpriority_process(None).ok();
        Self { nice: nice.filter(|_| setpriority_process(None, HIGHEST).is_ok()) }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(nice) = self.nice {
            // Lowering one's own priority is never refused.
            let _ = setpriority_process(None, nice);
        }
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Nanos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(u64::try_from(t.tv_sec * 1_000_000_000 + t.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Settings with windows too long for waiting in place: arming and reading are two steps.
    pub fn apart() -> Settings {
        let window = Nanos::from_millis(60);
        Settings { window, shortest: window, ..Settings::default() }
    }

    #[test]
    fn the_window_follows_the_share_accessed_and_keeps_its_bounds() {
        let mut pace = Pace::new(Settings::default());
        let fast = Bytes::from_base_pages(200);
        pace.adapt(1000, 300, fast);
        assert_eq!(
            pace.window(),
            Nanos::from_millis(10),
            "more than fits in the fast tier: shorter"
        );
        pace.adapt(1000, 100, fast);
        assert_eq!(
            pace.window(),
            Nanos::from_millis(10),
            "between a quarter and all of the limit: unchanged"
        );
        pace.adapt(1000, 20, fast);
        assert_eq!(pace.window(), Nanos::from_millis(20));
        (0..20).for_each(|_| pace.adapt(1000, 0, fast));
        assert_eq!(pace.window(), Nanos::from_secs(1));
        (0..20).for_each(|_| pace.adapt(1000, 900, fast));
        assert_eq!(pace.window(), Nanos::from_millis(1));
        pace.adapt(0, 0, fast);
        assert_eq!(pace.window(), Nanos::from_millis(1), "no pages give no information");
    }

    #[test]
    fn the_pause_pays_for_the_scan() {
        let mut pace = Pace::new(Settings::default());
        let cost = |ms| Cost { cpu: Nanos::from_millis(ms), wall: Nanos::ZERO };
        let (now, hold) = (Nanos::from_secs(1), Nanos::from_millis(10));
        let ms = |pause: Nanos| (pause.as_secs_f64() * 1e3).round();
        assert_eq!(ms(pace.pause(now, cost(900), hold)), 0.0, "on credit");
        assert_eq!(ms(pace.pause(now, cost(200), hold)), 2_000.0, "100 ms are owed");
        assert_eq!(ms(pace.pause(now, cost(0), Nanos::from_millis(100))), 4_000.0);
        let later = Nanos::from_secs(100);
        assert_eq!(ms(pace.pause(later, cost(1), hold)), 0.0, "the elapsed time has paid");
        pace.set_attention(Attention::Calm);
        assert_eq!(ms(pace.pause(later, cost(100), hold)), 10_000.0);
        assert_eq!(
            (ms(pace.pause(later, cost(1), hold)), ms(pace.least_pause())),
            (100.0, 1_000.0)
        );
    }

    #[test]
    fn cpu_time_is_measured() {
        let meter = Meter::start();
        let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
        std::hint::black_box(sum);
        assert!(meter.cost().cpu > Nanos::ZERO && meter.cost().wall > Nanos::ZERO);
    }
}
