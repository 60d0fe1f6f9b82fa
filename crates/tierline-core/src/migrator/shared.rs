// SPDX-License-Identifier: Apache-2.0
//! Pages that several processes map. Nothing tells when that ends: a forked child may live for a millisecond or for hours.
//! So each is refused for a while, twice as long each time; then policies may order it again, if they still want to. After the
//! end of a child a page waits at most as long as the child lived, and pages that are shared for good are rarely tried.

use std::collections::BTreeMap;

use crate::port::{SpaceId, Vpn};
use crate::unit::Nanos;

/// Time for which a page is refused first. Ours.
const FIRST: Nanos = Nanos::from_millis(100);
/// That time is doubled so often, at most: to 55 minutes. Ours.
const MAX_DOUBLINGS: u32 = 15;
/// A page is forgotten so many times as long after its last refusal ended. Ours: policies order it again long before.
const FORGOTTEN_AFTER: u64 = 64;

type Page = (SpaceId, Vpn);

/// A page that was found shared.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    times: u32,
    is_refused: bool,
}

/// Pages that were found shared.
#[derive(Debug, Default)]
pub struct SharedPages {
    found: BTreeMap<Page, Found>,
    /// When a page is no longer refused, or else forgotten; stale if it was found again since.
    due: BTreeMap<(Nanos, u64), (Page, u32)>,
    next: u64,
}

impl SharedPages {
    /// A page is found shared: it is to be refused until [`Self::take_due`] returns it.
    pub fn refuse(&mut self, now: Nanos, page: Page) {
        let found = self.found.entry(page).or_default();
        found.times = found.times.saturating_add(1);
        found.is_refused = true;
        let times = found.times;
        self.plan(now + refusal(times), page, times);
    }

    /// A page has moved.
    pub fn forget(&mut self, page: Page) {
        self.found.remove(&page);
    }

    /// Pages that are no longer to be refused.
    pub fn take_due(&mut self, now: Nanos) -> Vec<Page> {
        let later = self.due.split_off(&(now + Nanos(1), 0));
        let due = std::mem::replace(&mut self.due, later);
        let mut ended = Vec::new();
        for (page, times) in due.into_values() {
            let Some(found) = self.found.get_mut(&page).filter(|found| found.times == times) else {
                continue;
            };
            if std::mem::take(&mut found.is_refused) {
                ended.push(page);
                self.plan(now + refusal(times) * FORGOTTEN_AFTER, page, times);
            } else {
                self.found.remove(&page);
            }
        }
        ended
    }

    fn plan(&mut self, at: Nanos, page: Page, times: u32) {
        self.next += 1;
        self.due.insert((at, self.next), (page, times));
    }
}

fn refusal(times: u32) -> Nanos {
    FIRST * (1 << times.saturating_sub(1).min(MAX_DOUBLINGS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_refused_twice_as_long_each_time_and_forgotten_long_after() {
        let (mut shared, page) = (SharedPages::default(), (SpaceId(1), Vpn(2)));
        let ms = Nanos::from_millis;
        shared.refuse(ms(0), page);
        assert_eq!(shared.take_due(ms(99)), []);
        assert_eq!(shared.take_due(ms(100)), [page]);
        shared.refuse(ms(110), page);
        assert_eq!(shared.take_due(ms(309)), []);
        assert_eq!(shared.take_due(ms(310)), [page]);
        let forgotten = 310 + 64 * 200;
        assert_eq!(shared.take_due(ms(forgotten - 1)), [], "not after the first refusal's 6.4 s");
        assert_eq!(shared.found.len(), 1);
        assert_eq!(shared.take_due(ms(forgotten)), []);
        assert_eq!((shared.found.len(), shared.due.len()), (0, 0), "forgotten");
        shared.refuse(ms(20_000), page);
        shared.forget(page);
        assert_eq!(shared.take_due(ms(90_000)), [], "it has moved");
        assert_eq!((shared.found.len(), shared.due.len()), (0, 0));
    }
}
