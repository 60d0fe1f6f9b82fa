// SPDX-License-Identifier: Apache-2.0
//! Lists of pages: first in, first out, with removal from the middle. A page is in at most one list.
//!
//! Doubly linked lists as in a kernel. The links lie in chunks beside the page table; a chunk is allocated when
//! one of its pages is first listed. Every operation takes constant time.

pub mod residents;
pub mod review;

use std::fmt;

use crate::page::PageIdx;

const CHUNK_PAGES: usize = 1 << 12;
/// No page. In `Links`: the end of the list.
const NONE: u32 = u32::MAX;
const IN_NO_LIST: u8 = u8::MAX;

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListId(pub u8);

struct Chunk {
    links: [Links; CHUNK_PAGES],
    list: [u8; CHUNK_PAGES],
}

/// A page's neighbours, stored together as they are read together.
#[derive(Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

const UNLINKED: Links = Links { before: NONE, after: NONE };

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
    pages: usize,
}

/// A fixed number of lists over all pages.
pub struct Lists {
    chunks: Vec<Option<Box<Chunk>>>,
    ends: Vec<Ends>,
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ends.iter().map(|ends| ends.pages)).finish()
    }
}

impl Lists {
    /// `count` empty lists.
    pub fn new(count: usize) -> Self {
        assert!(count < usize::from(IN_NO_LIST), "list ids are bytes");
        Self { chunks: Vec::new(), ends: vec![Ends { first: NONE, last: NONE, pages: 0 }; count] }
    }

    /// Pages in `list`.
    pub fn len(&self, list: ListId) -> usize {
        self.ends[usize::from(list.0)].pages
    }

    /// True where `list` holds no page.
    pub fn is_empty(&self, list: ListId) -> bool {
        self.len(list) == 0
    }

    /// The list that contains `page`.
    pub fn of(&self, page: PageIdx) -> Option<ListId> {
        let (chunk, at) = (page.index() / CHUNK_PAGES, page.index() % CHUNK_PAGES);
        let list = self.chunks.get(chunk)?.as_ref()?.list[at];
        (list != IN_NO_LIST).then_some(ListId(list))
    }

    /// The oldest page of `list`.
    pub fn first(&self, list: ListId) -> Option<PageIdx> {
        page(self.ends[usize::from(list.0)].first)
    }

    /// The page after `page` in its list.
    pub fn after(&self, page_before: PageIdx) -> Option<PageIdx> {
        self.of(page_before)?;
        page(self.links(number(page_before)).after)
    }

    /// Moves `page` to the end of `list`, out of any other list.
    pub fn push_back(&mut self, list: ListId, page: PageIdx) {
        self.remove(page);
        let last = self.ends[usize::from(list.0)].last;
        self.link(list, last, number(page), NONE);
    }

    /// Moves `page` to the front of `list`, out of any other list.
    pub fn push_front(&mut self, list: ListId, page: PageIdx) {
        self.remove(page);
        let first = self.ends[usize::from(list.0)].first;
        self.link(list, NONE, number(page), first);
    }

    /// Removes `page` from its list, if any.
    pub fn remove(&mut self, page: PageIdx) {
        let Some(list) = self.of(page) else { return };
        let Links { before, after } = self.links(number(page));
        self.join(list, before, after);
        self.chunk(number(page)).list[page.index() % CHUNK_PAGES] = IN_NO_LIST;
        self.ends[usize::from(list.0)].pages -= 1;
    }

    fn link(&mut self, list: ListId, before: u32, page: u32, after: u32) {
        self.join(list, before, page);
        self.join(list, page, after);
        self.chunk(page).list[page as usize % CHUNK_PAGES] = list.0;
        self.ends[usize::from(list.0)].pages += 1;
    }

    /// Makes two pages neighbours; `NONE` stands for the end of the list.
    fn join(&mut self, list: ListId, before: u32, after: u32) {
        if before == NONE {
            self.ends[usize::from(list.0)].first = after;
        } else {
            self.chunk(before).links[before as usize % CHUNK_PAGES].after = after;
        }
        if after == NONE {
            self.ends[usize::from(list.0)].last = before;
        } else {
            self.chunk(after).links[after as usize % CHUNK_PAGES].before = before;
        }
    }

    /// Loads these pages' links and their neighbours' into the cache, so that the misses overlap, as in
    /// [`PageTable::prefetch`](crate::page::PageTable::prefetch).
    pub fn prefetch(&self, pages: impl Iterator<Item = PageIdx> + Clone) {
        let links = pages.map(|page| self.links(number(page)));
        let own = links.clone().fold(0, |sum, links| sum ^ links.before);
        let beside = links.fold(own, |sum, Links { before, after }| {
            sum ^ self.links(before).after ^ self.links(after).before
        });
        std::hint::black_box(beside);
    }

    fn links(&self, page: u32) -> Links {
        let (chunk, at) = (page as usize / CHUNK_PAGES, page as usize % CHUNK_PAGES);
        let chunk = self.chunks.get(chunk).and_then(Option::as_ref);
        chunk.map_or(UNLINKED, |chunk| chunk.links[at])
    }

    fn chunk(&mut self, page: u32) -> &mut Chunk {
        let chunk = page as usize / CHUNK_PAGES;
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        self.chunks[chunk].get_or_insert_with(|| {
            Box::new(Chunk { links: [UNLINKED; CHUNK_PAGES], list: [IN_NO_LIST; CHUNK_PAGES] })
        })
    }
}

fn page(number: u32) -> Option<PageIdx> {
    (number != NONE).then(|| PageIdx::from_index(number as usize))
}

#[expect(clippy::cast_possible_truncation, reason = "a page index has 32 bits")]
fn number(page: PageIdx) -> u32 {
    page.index() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn contents(lists: &Lists, list: u8) -> Vec<PageIdx> {
        std::iter::successors(lists.first(ListId(list)), |&page| lists.after(page)).collect()
    }

    proptest! {
        /// Compares with plain queues, page by page.
        #[test]
        fn lists_are_queues_with_removal(
            steps in prop::collection::vec((0u8..3, 0u8..4, 0usize..9_000), 1..200),
        ) {
            let mut lists = Lists::new(3);
            let mut queues = vec![VecDeque::new(); 3];
            for (list, what, index) in steps {
                let page = PageIdx::from_index(index);
                queues.iter_mut().for_each(|queue| queue.retain(|&other| other != page));
                match what {
                    0 => {
                        lists.remove(page);
                        prop_assert_eq!(lists.of(page), None);
                    }
                    1 => {
                        lists.push_front(ListId(list), page);
                        queues[usize::from(list)].push_front(page);
                    }
                    _ => {
                        lists.push_back(ListId(list), page);
                        queues[usize::from(list)].push_back(page);
                    }
                }
                for (id, queue) in (0..).zip(&queues) {
                    prop_assert_eq!(lists.len(ListId(id)), queue.len());
                    prop_assert_eq!(contents(&lists, id), Vec::from(queue.clone()));
                }
            }
        }
    }
}
