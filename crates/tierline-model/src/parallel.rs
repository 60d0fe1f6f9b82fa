// SPDX-License-Identifier: Apache-2.0
//! Many runs on all cores. The result does not depend on which thread ran what.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tierline_core::unit::Nanos;

/// Watches many runs, and may end them early.
pub trait Observer: Sync {
    /// So many runs begin, which take about this CPU time together.
    fn begin(&self, runs: usize, cpu: Nanos);
    /// So many are done, of how many.
    fn done(&self, done: usize, of: usize);
    /// Whether no further run is to begin.
    fn stops(&self) -> bool;
}

/// Watches nothing.
impl Observer for () {
    fn begin(&self, _: usize, _: Nanos) {}
    fn done(&self, _: usize, _: usize) {}
    fn stops(&self) -> bool {
        false
    }
}

/// Applies `of` to all items on so many threads; results in the order of items, which are begun in theirs, and `None`
/// for those that were not begun.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    observer: &dyn Observer,
    of: impl Fn(&T) -> R + Sync,
) -> Vec<Option<R>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(items.iter().map(|_| None).collect::<Vec<_>>());
    let hold = || results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while !observer.stops() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = of(item);
                    hold()[at] = Some(result);
                    observer.done(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
                }
            });
        }
    });
    std::mem::take(&mut *hold())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts, and stops after so many.
    struct Counter {
        done: AtomicUsize,
        most: usize,
    }

    impl Observer for Counter {
        fn begin(&self, _: usize, _: Nanos) {}
        fn done(&self, _: usize, of: usize) {
            assert_eq!(of, 100);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        fn stops(&self) -> bool {
            self.done.load(Ordering::Relaxed) >= self.most
        }
    }

    #[test]
    fn results_are_in_the_order_of_items_on_any_number_of_threads() {
        let items: Vec<u32> = (0..100).collect();
        for threads in [0, 1, 2, 200] {
            let counter = Counter { done: AtomicUsize::new(0), most: 101 };
            let doubled = map(&items, threads, &counter, |x| x * 2);
            assert_eq!(doubled, items.iter().map(|x| Some(x * 2)).collect::<Vec<_>>());
            assert_eq!(counter.done.into_inner(), 100);
        }
    }

    #[test]
    fn what_was_not_begun_has_no_result() {
        let items: Vec<u32> = (0..100).collect();
        let counter = Counter { done: AtomicUsize::new(0), most: 7 };
        let results = map(&items, 1, &counter, |x| *x);
        assert!(results[..7].iter().all(Option::is_some));
        assert!(results[7..].iter().all(Option::is_none));
    }
}
