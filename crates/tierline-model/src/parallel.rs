// SPDX-License-Identifier: Apache-2.0
//! Runs many simulations on all cores. Results do not depend on the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tierline_core::unit::Nanos;

/// Observes many runs, and may end them early.
pub trait Observer: Sync {
    /// `runs` runs start, which take about this CPU time in total.
    fn begin(&self, runs: usize, cpu: Nanos);
    /// `done` of `of` runs are finished.
    fn done(&self, done: usize, of: usize);
    /// Whether no further run should start.
    fn stops(&self) -> bool;
}

/// Ignores everything.
impl Observer for () {
    fn begin(&self, _: usize, _: Nanos) {}
    fn done(&self, _: usize, _: usize) {}
    fn stops(&self) -> bool {
        false
    }
}

/// Applies `of` to all items on `threads` threads. Items are started in order; results are in the same order,
/// `None` for items that were not started.
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

    /// Counts runs, and stops after a number of them.
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
    fn items_not_started_have_no_result() {
        let items: Vec<u32> = (0..100).collect();
        let counter = Counter { done: AtomicUsize::new(0), most: 7 };
        let results = map(&items, 1, &counter, |x| *x);
        assert!(results[..7].iter().all(Option::is_some));
        assert!(results[7..].iter().all(Option::is_none));
    }
}
