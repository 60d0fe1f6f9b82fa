// SPDX-License-Identifier: Apache-2.0
//! Whether placement is settled. If not, trackers observe closely.
//!
//! Close observation costs the program, so it is limited to four cases: at the start, while pages are being moved, while a
//! tenant misses its target and may have more fast memory, and after a sudden rise of hits on slow tiers against a moving
//! average. In none of them while all memory fits into the fastest tier. The rise is measured by the ratio of slow to fast
//! hits, since a program that waits for slow memory makes fewer of both; if only slow hits are observed, by slow hits per
//! second of watched time. Where many cold pages are hit, too, that ratio hides a
//! change; then the pages that one scan found are found less often by the next. The constants are ours.

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
    /// The last report rose by its rate, though the ratio of slow to fast hits did not: the program may run more than before.
    by_rate_alone: bool,
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
        let rose = slow_hits.is_some_and(|report| self.rose(report));
        if let Some(report) = slow_hits {
            self.accept_or_drop(now, report);
            let [(_, full_reports), _] = self.averages;
            self.suspicion = report.projected && full_reports > 0 && (rose || self.suspicion);
            self.wait_for_growth(now, pages);
        }
        // A sample of pages is no evidence for placement where there are full reports.
        let [(_, full_reports), _] = self.averages;
        let counts = slow_hits.is_some_and(|report| !report.projected || full_reports == 0);
        self.reports_left = self.reports_left.saturating_sub(u32::from(counts));
        if rose || self.alert_until.is_none() {
            let projected = slow_hits.is_some_and(|report| report.projected);
            let (reports, settle) = match self.alert_until {
                None => (REPORTS, SETTLE),
                Some(_) if projected || self.by_rate_alone => {
                    (REPORTS_AFTER_SUSPICION, Nanos::ZERO)
                }
                Some(_) => (REPORTS_AFTER_ALARM, SETTLE),
            };
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
    /// raises one alarm.
    fn rose(&mut self, report: SlowHits) -> bool {
        let rate_rose = self.rate_rose(report);
        // Where there are full reports, a projection is a suspicion: the next one decides on a phase change.
        let [(_, full_reports), _] = self.averages;
        let suspicion = report.projected && full_reports > 0;
        let fell = self.found_again.fell(report.found_again);
        let odds_rose = self.odds_rose(report);
        self.changed = !suspicion && (odds_rose.unwrap_or(rate_rose) || fell);
        self.by_rate_alone = odds_rose.is_some() && !self.changed;
        rate_rose || self.changed
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// A report in which all hits weigh one.
    fn report(slow: f64, fast: f64) -> Option<SlowHits> {
        let counts = [slow, fast];
        Some(SlowHits { per_sec: slow, counts, slow_variance: slow, ..SlowHits::default() })
    }

    fn counted(per_sec: f64) -> Option<SlowHits> {
        report(per_sec, 0.0)
    }

    fn projected(per_sec: f64) -> Option<SlowHits> {
        Some(SlowHits { per_sec, projected: true, ..SlowHits::default() })
    }

    /// Calm at a rate of 100 hits a second, at 2.9 s.
    fn settled() -> AttentionControl {
        let mut calm = AttentionControl::default();
        for ms in 0..=19 {
            assert_eq!(calm.update(at(100 * ms), counted(100.0), 100, 1_000), Attention::Alert);
        }
        assert_eq!(calm.update(at(2_800), counted(100.0), 0, 1_000), Attention::Alert);
        assert_eq!(calm.update(at(2_900), counted(100.0), 0, 1_000), Attention::Calm);
        calm
    }

    #[test]
    fn it_settles_after_a_while_and_enough_reports() {
        settled();
        let mut calm = AttentionControl::default();
        assert_eq!(calm.update(at(0), counted(100.0), 0, 1_000), Attention::Alert);
        assert_eq!(
            calm.update(at(60_000), counted(100.0), 0, 1_000),
            Attention::Alert,
            "one report"
        );
    }

    #[test]
    fn a_jump_of_the_slow_hit_rate_raises_the_alarm_and_noise_does_not() {
        let mut calm = settled();
        assert_eq!(calm.update(at(5_000), counted(120.0), 0, 1_000), Attention::Calm);
        assert_eq!(calm.update(at(6_000), None, 0, 1_000), Attention::Calm);
        assert_eq!(calm.update(at(7_000), counted(400.0), 0, 1_000), Attention::Alert);
    }

    /// By hand: the ratio rises from 1/9 to 1. If it stays, 4 900 slow hits of 13 000 since are no improvement
    /// by 2.5; if it falls back at once, 1 300 are.
    #[test]
    fn after_a_change_without_improvement_further_ones_are_ignored_for_a_while() {
        let report = |slow: f64| report(slow, 1_000.0 - slow);
        let again = |between: f64, seconds: u64| {
            let mut calm = AttentionControl::default();
            let mut changed = |ms, slow| {
                calm.update(at(ms), report(slow), 0, 1_000);
                calm.is_phase_change()
            };
            assert!((0..8).all(|i| !changed(100 * i, 100.0)));
            assert!(changed(800, 500.0));
            assert!((9..18).all(|i| !changed(100 * i, between)));
            assert!((18..22).all(|i| !changed(100 * i, 100.0)));
            changed(800 + 1_000 * seconds, 500.0)
        };
        assert!(again(100.0, 2), "placement improved");
        assert!(!again(500.0, 2), "no improvement");
        assert!(again(500.0, 10), "long ago");
    }

    /// Only a full report can be a phase change, so a false alarm by a sample does not make the next one ignored.
    #[test]
    fn a_false_alarm_of_a_projection_leaves_the_next_change_to_be_followed() {
        let mut calm = AttentionControl::default();
        for ms in 0..=30 {
            calm.update(at(100 * ms), report(100.0, 900.0), 0, 1_000);
        }
        for _ in 0..4 {
            calm.update(at(4_000), projected(100.0), 0, 1_000);
        }
        let suspected = calm.update(at(5_000), projected(300.0), 0, 1_000);
        assert_eq!(suspected, Attention::Suspicious);
        assert!(!calm.is_phase_change(), "a suspicion");
        calm.update(at(5_100), report(100.0, 900.0), 0, 1_000);
        assert!(!calm.is_phase_change(), "dropped");
        calm.update(at(6_000), projected(600.0), 0, 1_000);
        calm.update(at(6_100), report(600.0, 400.0), 0, 1_000);
        assert!(calm.is_phase_change(), "the hot set has moved");
    }

    /// A program that waits for slow memory makes fewer accesses, slow ones too.
    #[test]
    fn a_shift_of_hits_to_slow_memory_raises_the_alarm_at_an_equal_total() {
        let mut calm = AttentionControl::default();
        for ms in 0..=30 {
            calm.update(at(100 * ms), report(300.0, 700.0), 0, 1_000);
        }
        assert_eq!(calm.update(at(4_000), report(400.0, 800.0), 0, 1_000), Attention::Calm);
        assert_eq!(calm.update(at(5_000), report(330.0, 20.0), 0, 1_000), Attention::Alert);
        assert!(calm.is_phase_change());
    }

    /// Slow accesses rise from 200 to 600, with 800 fast ones. Three hits of weight 200 may be one by chance.
    #[test]
    fn few_heavy_hits_are_weaker_evidence_than_many_light_ones() {
        let is_change = |weight: f64| {
            let mut calm = AttentionControl::default();
            let mut report = |ms, slow: f64| {
                let (counts, slow_variance) = ([slow * weight, 800.0], slow * weight * weight);
                let per_sec = slow * weight;
                let report = SlowHits { per_sec, counts, slow_variance, ..SlowHits::default() };
                calm.update(at(ms), Some(report), 0, 1_000);
                calm.is_phase_change()
            };
            assert!((0..8).all(|i| !report(100 * i, 200.0 / weight)));
            report(900, 600.0 / weight)
        };
        assert!(is_change(1.0) && !is_change(200.0));
    }

    /// All hot pages are slow at first, then fast, then slow again.
    #[test]
    fn many_slow_hits_at_the_start_do_not_hide_a_later_rise() {
        let mut calm = AttentionControl::default();
        for ms in 0..8 {
            calm.update(at(100 * ms), report(30_000.0, 1.0), 100, 1_000);
        }
        for ms in 8..30 {
            calm.update(at(100 * ms), report(300.0, 30_000.0), 0, 1_000);
        }
        assert_eq!(calm.update(at(5_000), report(300.0, 30_000.0), 0, 1_000), Attention::Calm);
        assert_eq!(calm.update(at(9_000), report(15_000.0, 3_000.0), 0, 1_000), Attention::Alert);
    }

    /// While memory is filled, it is all slow. Then the hot pages are placed, and three reports later they are others.
    #[test]
    fn a_jump_soon_after_the_first_placement_raises_the_alarm_though_it_is_not_yet_calm() {
        let (mut calm, mut of_pages) = (AttentionControl::default(), 1_000);
        let mut tell = |ms, slow: f64, fast: f64, of_pages| {
            let planned =
                PlannedMoves { moves: 0, of_pages, backlog: false, behind: false, fits: false };
            calm.next_attention(at(ms), report(slow, fast), planned)
        };
        for ms in 0..18 {
            of_pages += of_pages / 10;
            tell(100 * ms, 8_000.0, 2.0, of_pages);
        }
        for (ms, slow) in (18..).zip([31.0, 25.0, 23.0, 11.0, 8.0, 8.0, 8.0]) {
            assert_eq!(tell(100 * ms, slow * 1e3, (33.0 - slow) * 1e3, of_pages), None);
        }
        assert_eq!(tell(9_000, 30_000.0, 3_000.0, of_pages), Some(Attention::Alert), "told again");
        assert!(calm.is_phase_change());
    }

    #[test]
    fn memory_that_fits_needs_no_close_observation() {
        for (fits, expected) in [(false, Attention::Alert), (true, Attention::Calm)] {
            let mut control = AttentionControl::default();
            let planned =
                PlannedMoves { moves: 0, of_pages: 1_000, backlog: false, behind: false, fits };
            control.next_attention(at(0), report(0.0, 1_000.0), planned);
            assert_eq!(control.attention(), expected);
        }
    }

    #[test]
    fn a_projection_raises_the_alarm_once_counts_are_known() {
        let mut calm = settled();
        assert_eq!(calm.update(at(5_000), projected(40.0), 0, 1_000), Attention::Calm);
        assert_eq!(calm.update(at(6_000), counted(110.0), 0, 1_000), Attention::Calm, "as usual");
        assert_eq!(calm.update(at(7_000), projected(300.0), 0, 1_000), Attention::Suspicious);
    }

    /// Samples show 12,000 hits a second before pages are placed, scans 10,000 before and 1,000 after.
    #[test]
    fn samples_from_before_pages_were_placed_do_not_hide_a_rise() {
        let mut calm = AttentionControl::default();
        let mut tell = |ms, report| calm.update(at(ms), report, 0, 1_000);
        (0..8).for_each(|ms| _ = tell(100 * ms, counted(10_000.0)));
        tell(850, projected(12_000.0));
        (9..40).for_each(|ms| _ = tell(100 * ms, counted(1_000.0)));
        assert_eq!(tell(4_500, projected(1_300.0)), Attention::Calm);
        assert_eq!(tell(5_000, projected(8_000.0)), Attention::Suspicious);
    }

    /// By hand: with a usual rate of 100, 40 hits of which 20 are expected are 4.5 standard deviations, and 10 of which 5
    /// are expected 2.2; 4 of which 2 are expected are 1.4, and 140 of which 100 are expected are 4, but a rise by 1.4 only.
    #[test]
    fn a_small_rise_is_a_suspicion_if_many_hits_show_it() {
        let report = |per_sec, hits, dispersion| {
            let mut calm = AttentionControl { dispersion, ..settled() };
            let sampled = Some(SampledHits { hits, variance: hits });
            let report = SlowHits { per_sec, projected: true, sampled, ..SlowHits::default() };
            calm.update(at(5_000), Some(report), 0, 1_000)
        };
        assert_eq!(report(200.0, 40.0, 1.0), Attention::Suspicious);
        assert_eq!(report(200.0, 10.0, 1.0), Attention::Suspicious);
        assert_eq!(report(200.0, 4.0, 1.0), Attention::Calm);
        assert_eq!(report(140.0, 140.0, 1.0), Attention::Calm);
        assert_eq!(report(200.0, 40.0, 16.0), Attention::Calm, "neighbours are accessed together");
    }

    /// Memory grows by a tenth between two reports, for three seconds; then sixteen reports count.
    #[test]
    fn while_a_program_fills_its_memory_no_report_counts() {
        let mut calm = AttentionControl::default();
        let mut pages = 1_000;
        for ms in 0..30 {
            pages += pages / 10;
            assert_eq!(calm.update(at(100 * ms), counted(100.0), 0, pages), Attention::Alert);
        }
        let calm_after = (30..99)
            .find(|ms| calm.update(at(100 * ms), counted(100.0), 0, pages) == Attention::Calm);
        assert_eq!(
            calm_after,
            Some(30 + u64::from(REPORTS) - 2),
            "the last growing one is the first of them"
        );
    }

    #[test]
    fn one_count_confirms_or_drops_the_alarm_of_a_projection() {
        let projected = projected(300.0);
        let mut calm = settled();
        let suspected = Attention::Suspicious;
        assert_eq!(calm.update(at(7_000), projected, 0, 1_000), suspected);
        assert_eq!(calm.update(at(7_100), None, 0, 1_000), suspected, "nothing was watched");
        let mut other = calm.clone();
        assert_eq!(calm.update(at(7_200), counted(110.0), 0, 1_000), Attention::Calm);
        assert_eq!(other.update(at(7_200), counted(400.0), 0, 1_000), Attention::Alert);
        assert_eq!(other.update(at(8_300), counted(400.0), 0, 1_000), Attention::Alert);
    }

    #[test]
    fn a_tail_of_moves_does_not_keep_it_alert() {
        let mut calm = settled();
        assert_eq!(calm.update(at(7_000), counted(400.0), 0, 100_000), Attention::Alert);
        for ms in 71..=91 {
            calm.update(at(100 * ms), counted(400.0), 90, 100_000);
        }
        assert_eq!(calm.update(at(9_200), counted(400.0), 90, 100_000), Attention::Calm);
    }
}
