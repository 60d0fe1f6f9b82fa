// SPDX-License-Identifier: Apache-2.0
//! The share of pages that one scan found accessed and the next finds, too. It falls when other pages become hot,
//! however many cold ones are hit. The constants are ours.

/// Pages from which the share can be told.
const ENOUGH_FOUND: u64 = 256;
/// The part of its mean below which it must fall.
const LEAST_OF_SHARE: f64 = 0.85;
/// The standard deviations by which it must fall.
const FALL_DEVIATIONS: f64 = 4.0;
/// Reports needed before anything is compared with their mean.
const FEW: u32 = 4;
/// Weight of the newest report.
const WEIGHT: f64 = 0.125;

/// Mean and variance of the share.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoundAgain {
    mean: f64,
    variance: f64,
    reports: u32,
}

impl FoundAgain {
    /// The usual share, once it is known.
    pub fn usual(&self) -> Option<f64> {
        (self.reports > FEW).then_some(self.mean)
    }

    /// Adds a report: the pages found before, and those found again. Whether the share has fallen; then it does not count.
    pub fn fell(&mut self, report: Option<[u64; 2]>) -> bool {
        let Some([found, again]) = report.filter(|[found, _]| *found >= ENOUGH_FOUND) else {
            return false;
        };
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let (found, share) = (found as f64, again as f64 / found as f64);
        let by_chance = self.mean * (1.0 - self.mean) / found;
        let deviation = self.variance.max(by_chance).sqrt();
        let least = (self.mean * LEAST_OF_SHARE).min(self.mean - FALL_DEVIATIONS * deviation);
        let fell = self.reports >= FEW && share < least;
        self.reports = self.reports.saturating_add(1);
        if !fell {
            let weight = WEIGHT.max(1.0 / f64::from(self.reports));
            let off = share - self.mean;
            self.mean += weight * off;
            self.variance += weight * (off * off * (1.0 - weight) - self.variance);
        }
        fell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// About 2,600 of 4,000 pages are found again.
    #[test]
    fn noise_is_no_fall_and_few_pages_are_not_counted() {
        let after = |again, found| {
            let mut share = FoundAgain::default();
            assert!((0..30).all(|i| !share.fell(Some([4_000, 2_550 + 50 * (i % 3)]))));
            share.fell(Some([found, again]))
        };
        assert!(after(1_800, 4_000));
        assert!(!after(2_300, 4_000), "a tenth less");
        assert!(!after(90, 200), "too few pages");
        assert!(!FoundAgain::default().fell(None));
    }

    /// The first reports are of placement that is not yet known; a fall leaves the usual share as it is.
    #[test]
    fn the_usual_share_is_known_after_a_few_reports_and_outlives_a_change() {
        let mut share = FoundAgain::default();
        let known = (0..6).map(|_| {
            share.fell(Some([4_000, 3_000]));
            share.usual()
        });
        assert_eq!(
            known.map(|usual| usual.is_some()).collect::<Vec<_>>(),
            [false, false, false, false, true, true]
        );
        assert!(share.fell(Some([4_000, 400])));
        assert!((share.usual().expect("known") - 0.75).abs() < 1e-9);
    }

    /// By hand: shares of 0.4 and 0.8 in turn have a mean of 0.6 and a standard deviation of 0.2.
    #[test]
    fn a_share_that_varies_must_fall_further() {
        let mut share = FoundAgain::default();
        assert!((0..40).all(|i| !share.fell(Some([4_000, 1_600 + 1_600 * (i % 2)]))));
        assert!(!share.fell(Some([4_000, 800])));
    }
}
