// SPDX-License-Identifier: Apache-2.0
//! Whether placement is settled. If not, trackers observe closely.
//!
//! Close observation costs the program, so it is limited to four cases: at the start, while pages are being moved, while a
//! tenant misses its target and may have more fast memory, and after a sudden rise of hits on slow tiers against a moving
//! average. In none of them while all memory fits into the fastest tier. The rise is measured by the ratio of slow to fast
//! hits, since a program that waits for slow memory makes fewer of both; if only slow hits are observed, by slow hits per
//! second of watched time. Where many cold pages are hit, too, that ratio hides a
//! change; then the pages that one scan found are found less often by the next. The constants are ours.

#[cfg(test)]
mod tests;

use crate::port::{Attention, SampledHits};
use crate::telemetry::found_again::FoundAgain;
use crate::telemetry::phase_change::PhaseChange;
use crate::telemetry::slow_hits::{RISE, SlowHits};
use crate::unit::Nanos;

/// Time without a sign of change before attention becomes calm.
const SETTLE: Nanos = Nanos::from_secs(1);
/// Reports of hits before the first calm: as many as trackers remember, so that the evidence is complete.
const REPORTS: u32 = 16;
/// Reports after an alarm: enough to detect pages that became hot.
const REPORTS_AFTER_ALARM: u32 = 8;
/// An alarm by a projection from a sample of pages, or by a rate that varies as the program runs, is confirmed or dropped by one
/// full report.
const REPORTS_AFTER_SUSPICION: u32 = 1;
/// Moves per tick above which pages count as being rearranged; and the part of all moves since the alarm, as
/// there is always a tail of moves.
const TRICKLE: u64 = 32;
const TAIL: u64 = 192;
/// Moves of less than one in this many pages do not count as rearranging either.
const FEW_OF: u64 = 256;
/// A program that grows by more than one in this many pages between two reports is still filling its memory: what it
/// accesses then says little about what it accesses later.
const GROWTH_OF: u64 = 16;
/// Weight of the newest report in the average.
const WEIGHT: f64 = 0.125;
/// The same for what falls while pages are placed: the ratio of slow to fast hits, and until calm the rate.
const FALL_WEIGHT: f64 = 0.5;
/// Time for which further changes are ignored after one that did not improve placement.
const CHANGES_IGNORED: Nanos = Nanos::from_secs(10);
/// Reports needed in an average before anything is compared with it.
const FEW: u32 = 4;

/// Monitors the slow tiers' hit rate.
#[derive(Clone, Debug, Default)]
pub struct AttentionControl {
    /// Average slow hits per second of watched time, and number of reports: counted, and projected.
    averages: [(f64, u32); 2],
    /// Average variance of sampled hits over their number: 1 if pages are accessed independently.
    dispersion: f64,
    /// Average logarithm of the ratio of slow to fast hits, which falls by orders of magnitude while pages are placed
    /// for the first time, and number of reports.
    log_odds: (f64, u32),
    /// The share of pages that scans find again.
    pub(crate) found_again: FoundAgain,
    alert_until: Option<Nanos>,
    /// Reports still needed before calm.
    reports_left: u32,
    /// An alarm by a projection awaits a full report.
    suspicion: bool,
    /// Moves since the alarm.
    moved: u64,
    /// Pages at the last report.
    pages: u64,
    /// Whether the last report was a phase change, and the last phase change.
    changed: bool,
    last_change: Option<PhaseChange>,
    attention: Attention,
}

/// What the engine planned in a tick.
#[derive(Clone, Copy, Debug)]
pub struct PlannedMoves {
    /// Moves, or the base pages by which they fill the fastest tier, if these are more.
    pub moves: u64,
    /// Base pages managed.
    pub of_pages: u64,
    /// Most of the budget was planned: more moves may wait.
    pub backlog: bool,
    /// A tenant misses its target and may have more fast memory.
    pub behind: bool,
    /// See [`crate::intake::ManagedMemory::fits`].
    pub fits: bool,
}

impl AttentionControl {
    /// The new attention, if it changes, or if there is an alarm: alert, calm, or, while a backlog of pages is being moved,
    /// moving.
    pub fn next_attention(
        &mut self,
        now: Nanos,
        slow_hits: Option<SlowHits>,
        PlannedMoves { moves, of_pages, backlog, behind, fits }: PlannedMoves,
    ) -> Option<Attention> {
        let attention = match self.update(now, slow_hits, moves, of_pages) {
            _ if fits => Attention::Calm,
            Attention::Alert | Attention::Suspicious if backlog => Attention::Moving,
            _ if behind => Attention::Alert,
            other => other,
        };
        let before = std::mem::replace(&mut self.attention, attention);
        (before != attention || self.changed).then_some(attention)
    }

    /// How closely trackers observe now.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// Takes in one tick: the report of slow hits, if anything was watched, and the number of planned moves and
    /// of pages.
    pub fn update(
        &mut self,
        now: Nanos,
        slow_hits: Option<SlowHits>,
        moves: u64,
        pages: u64,
    ) -> Attention {
        self.changed = false;
        let rise = slow_hits.and_then(|report| self.rise(report));
        if let Some(report) = slow_hits {
            self.accept_or_drop(now, report);
            let [(_, full_reports), _] = self.averages;
            self.suspicion =
                report.projected && full_reports > 0 && (rise.is_some() || self.suspicion);
            self.wait_for_growth(now, pages);
        }
        // A sample of pages is no evidence for placement where there are full reports.
        let [(_, full_reports), _] = self.averages;
        let counts = slow_hits.is_some_and(|report| !report.projected || full_reports == 0);
        self.reports_left = self.reports_left.saturating_sub(u32::from(counts));
        let needed = match self.alert_until {
            None => Some((REPORTS, SETTLE)),
            Some(_) => rise,
        };
        if let Some((reports, settle)) = needed {
            (self.reports_left, self.moved) = (reports.max(self.reports_left), 0);
            self.alert_until = self.alert_until.max(Some(now + settle));
        }
        self.moved += moves;
        if moves > TRICKLE.max(self.moved / TAIL).max(pages / FEW_OF) {
            self.reports_left = self.reports_left.min(REPORTS_AFTER_ALARM); // enough after moves
            self.alert_until = Some(now + SETTLE);
        }
        match self.reports_left == 0 && self.alert_until.is_some_and(|until| now >= until) {
            true => Attention::Calm,
            false if self.suspicion => Attention::Suspicious,
            false => Attention::Alert,
        }
    }

    /// While a program fills its memory, no report counts.
    fn wait_for_growth(&mut self, now: Nanos, pages: u64) {
        let before = std::mem::replace(&mut self.pages, pages);
        if pages - pages.min(before) > before / GROWTH_OF {
            (self.reports_left, self.alert_until) = (REPORTS, Some(now + SETTLE));
            (self.averages, self.log_odds, self.found_again) = Default::default();
            (self.changed, self.last_change) = (false, None);
        }
    }

    /// Whether the last report was a phase change.
    pub fn is_phase_change(&self) -> bool {
        self.changed
    }

    /// Compares a report with the averages and adds it. The average jumps to a risen rate, so that each rise
    /// raises one alarm: so many reports and so much time are needed before calm.
    fn rise(&mut self, report: SlowHits) -> Option<(u32, Nanos)> {
        let rate_rose = self.rate_rose(report);
        // Where there are full reports, a projection is a suspicion: the next one decides on a phase change.
        let [(_, full_reports), _] = self.averages;
        let suspicion = report.projected && full_reports > 0;
        let fell = self.found_again.fell(report.found_again);
        let odds_rose = self.odds_rose(report);
        self.changed = !suspicion && (odds_rose.unwrap_or(rate_rose) || fell);
        // If the ratio did not rise, the program may only run more than before.
        let by_rate_alone = odds_rose.is_some() && !self.changed;
        let needed = match report.projected || by_rate_alone {
            true => (REPORTS_AFTER_SUSPICION, Nanos::ZERO),
            false => (REPORTS_AFTER_ALARM, SETTLE),
        };
        (rate_rose || self.changed).then_some(needed)
    }

    /// Accepts a phase change only if the one before led to a better placement, or was long ago. Otherwise
    /// placement that follows briefly hot pages would trigger changes itself, without end.
    fn accept_or_drop(&mut self, now: Nanos, SlowHits { counts: [slow, fast], .. }: SlowHits) {
        self.changed &= self
            .last_change
            .is_none_or(|last| last.improved_by(RISE) || now >= last.at + CHANGES_IGNORED);
        if self.changed {
            self.last_change = Some(PhaseChange { at: now, odds: slow / fast, since: [0.0; 2] });
        } else if let Some(PhaseChange { since, .. }) = &mut self.last_change {
            *since = [since[0] + slow, since[1] + fast];
        }
    }

    fn rate_rose(&mut self, report: SlowHits) -> bool {
        let SlowHits { per_sec, projected, .. } = report;
        let [counted, _] = self.averages;
        let (average, reports) = &mut self.averages[usize::from(projected)];
        // A sample sees less than a full count; it is compared with the greater of both averages.
        let (usual, known) = if projected {
            (average.max(counted.0), *reports + counted.1)
        } else {
            (*average, *reports)
        };
        let rose = known >= FEW && report.exceeds(usual, self.dispersion.max(1.0));
        let falls = per_sec < *average && self.attention != Attention::Calm;
        let usual_weight = if falls { FALL_WEIGHT } else { WEIGHT };
        let weight = if rose { 1.0 } else { usual_weight.max(1.0 / f64::from(*reports + 1)) };
        *average += weight * (per_sec - *average);
        if let Some(SampledHits { hits, variance }) = report.sampled.filter(|it| it.hits > 0.0) {
            self.dispersion += weight * (variance / hits - self.dispersion);
        }
        *reports = reports.saturating_add(1);
        // Where fewer hits are counted, a sample would show fewer, too.
        let [now, in_samples] = &mut self.averages;
        if !projected && counted.0 > 0.0 {
            in_samples.0 *= now.0 / counted.0;
        }
        rose
    }

    /// `None` if only the slow tiers were observed.
    fn odds_rose(
        &mut self,
        SlowHits { counts: [slow, fast], slow_variance, .. }: SlowHits,
    ) -> Option<bool> {
        if fast <= 0.0 {
            return None;
        }
        let (average, reports) = &mut self.log_odds;
        // By chance, one count in forty exceeds its mean by two deviations.
        let at_least = (slow - 2.0 * slow_variance.sqrt()) / fast;
        let rose = *reports >= FEW && at_least > RISE * average.exp();
        // At least half a hit: its logarithm must exist.
        let log_odds = (slow.max(0.5) / fast).ln();
        let usual_weight = if log_odds < *average { FALL_WEIGHT } else { WEIGHT };
        let weight = if rose { 1.0 } else { usual_weight.max(1.0 / f64::from(*reports + 1)) };
        *average += weight * (log_odds - *average);
        *reports = reports.saturating_add(1);
        Some(rose)
    }
}
