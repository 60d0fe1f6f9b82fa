// SPDX-License-Identifier: Apache-2.0
//! Pages that several processes map: those of a forked child, or of servers with shared memory.
//!
//! Such a page moves for all of them, if all that are known agree ([`Mappers`]). Otherwise nothing tells when sharing ends: a
//! child may live for a millisecond or for hours. So each page is refused for a while, twice as long each time; then policies
//! may order it again, if they still want to. After the end of a child a page waits at most as long as the child lived, and
//! pages that are shared for good are rarely tried.

use std::collections::BTreeMap;

use crate::intake::ManagedMemory;
use crate::migrator::due::Due;
use crate::migrator::history::History;
use crate::page::{PageIdx, PageTable};
use crate::policy::interface::Policy;
use crate::port::{Move, PageKind, PageSize, SpaceId, Vpn};
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
    due: Due<(Page, u32)>,
}

impl SharedPages {
    /// A page is found shared: it is to be refused until [`Self::take_due`] returns it.
    pub fn refuse(&mut self, now: Nanos, page: Page) {
        let found = self.found.entry(page).or_default();
        found.times = found.times.saturating_add(1);
        found.is_refused = true;
        let times = found.times;
        self.due.add(now + refusal(times), (page, times));
    }

    /// A page has moved.
    pub fn forget(&mut self, page: Page) {
        self.found.remove(&page);
    }

    /// Pages that are no longer to be refused.
    pub fn take_due(&mut self, now: Nanos) -> Vec<Page> {
        let mut ended = Vec::new();
        for (page, times) in self.due.take(now) {
            let Some(found) = self.found.get_mut(&page).filter(|found| found.times == times) else {
                continue;
            };
            if std::mem::take(&mut found.is_refused) {
                ended.push(page);
                self.due.add(now + refusal(times) * FORGOTTEN_AFTER, (page, times));
            } else {
                self.found.remove(&page);
            }
        }
        ended
    }
}

/// Looks into other processes for one batch, at most. Ours.
const MAX_LOOKS: usize = 100_000;

/// Asks the processes that map a page whether it may move for all of them.
///
/// Processes share pages at one address, as a fork leaves them: heap of before the fork, and shared memory of before it. Pages of
/// files are left out: a library is mapped by programs that are not managed.
#[derive(Debug)]
pub struct Mappers {
    spaces: usize,
    looks: usize,
}

impl Mappers {
    /// Of `spaces` managed processes, for one batch of moves.
    pub fn new(spaces: usize) -> Self {
        Self { spaces, looks: MAX_LOOKS }
    }

    /// Whether the page may move for all processes that map it. At least one other is known. Up it moves if one wants it; down
    /// if none of the others had it promoted soon before and none is known to access it more often.
    pub fn agree(
        &mut self,
        m: &Move,
        now: Nanos,
        history: &History,
        memory: &mut ManagedMemory,
        policy: &dyn Policy,
    ) -> bool {
        let Some(left) = self.looks.checked_sub(self.spaces) else { return false };
        self.looks = left;
        let pages = &memory.pages;
        let Some(own) = pages.find(m.space, m.vpn) else { return false };
        let others: Vec<(SpaceId, PageIdx)> = others(m, pages).collect();
        if kind(m, pages) == Some(PageKind::File) || others.is_empty() {
            return false;
        }
        let memory = memory.for_policy();
        let heat = policy.heat(&memory, own).likely;
        let agrees = |&(space, page): &(SpaceId, PageIdx)| {
            let is_colder = policy.heat(&memory, page).at_least <= heat;
            is_colder && !history.is_promoted(now, space, m.vpn)
        };
        m.to < m.from || others.iter().all(agrees)
    }
}

/// Whether a page moves for all processes that may map it, without being found shared first.
pub fn is_represented(m: &Move, pages: &PageTable) -> bool {
    pages.represents(m.space) && m.size == PageSize::Base && kind(m, pages) != Some(PageKind::File)
}

/// A shared page moved: for all processes that map it.
pub fn follow(m: &Move, pages: &mut PageTable) {
    let others: Vec<PageIdx> = others(m, pages).map(|(_, page)| page).collect();
    others.into_iter().for_each(|page| pages.set_tier(page, m.to));
}

fn kind(m: &Move, pages: &PageTable) -> Option<PageKind> {
    let page = pages.find(m.space, m.vpn)?;
    pages.locate(page).map(|at| at.kind)
}

/// The page in the other processes that have one in its place and tier.
fn others<'a>(m: &'a Move, pages: &'a PageTable) -> impl Iterator<Item = (SpaceId, PageIdx)> + 'a {
    let spaces = pages.spaces().filter(|&space| space != m.space);
    let found = spaces.filter_map(|space| Some((space, pages.find(space, m.vpn)?)));
    found.filter(|&(_, page)| {
        pages.state(page).tier() == Some(m.from) && pages.size_of(page) == m.size
    })
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
