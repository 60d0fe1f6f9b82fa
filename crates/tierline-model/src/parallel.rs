// SPDX-License-Identifier: Apache-2.0
//! Runs many simulations on all cores. Results do not depend on the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Called with the number of finished items and the total.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Applies `of` to all items on `threads` threads. Items are started in order; results are in the same order.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    progress: Progress<'_>,
    of: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    let hold = || results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = of(item);
                    hold().push((at, result));
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
                }
            });
        }
    });
    let mut results = std::mem::take(&mut *hold());
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_items_on_any_number_of_threads() {
        let items: Vec<u32> = (0..100).collect();
        for threads in [0, 1, 2, 200] {
            let finished = AtomicUsize::new(0);
            let count = |_, of| {
                assert_eq!(of, 100);
                finished.fetch_add(1, Ordering::Relaxed);
            };
            let doubled = map(&items, threads, &count, |x| x * 2);
            assert_eq!(doubled, items.iter().map(|x| x * 2).collect::<Vec<_>>());
            assert_eq!(finished.into_inner(), 100);
        }
    }
}
