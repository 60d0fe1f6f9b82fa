// SPDX-License-Identifier: Apache-2.0
//! Limits on callers. What is above them is refused at once, never queued. Those who may change something have limits
//! of their own, so that readers cannot lock them out.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The longest body of a request.
pub const MOST_BODY: usize = 64 << 10;
/// Connections at once, of readers and of those who may change something.
const MOST_CONNECTIONS: usize = 32;
/// Streams of events at once, likewise.
const MOST_STREAMS: usize = 8;
/// Requests a second, and how many at once after a pause.
const RATE: f64 = 100.0;
const BURST: f64 = 50.0;

/// What the API has done since the start.
pub static COUNTS: Counts =
    Counts { answered: AtomicU64::new(0), refused: AtomicU64::new(0), shed: AtomicU64::new(0) };

/// Requests by outcome.
#[derive(Debug)]
pub struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    shed: AtomicU64,
}

impl Counts {
    /// Counts an answer by its status.
    pub fn add(&self, status: u16) {
        let counter = match status {
            ..400 => &self.answered,
            429 | 503 => &self.shed,
            _ => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters with their names.
    pub fn all(&self) -> [(&'static str, u64); 3] {
        [("answered", &self.answered), ("refused", &self.refused), ("shed", &self.shed)]
            .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

/// The limits of one class of callers.
#[derive(Debug)]
pub struct Limits {
    connections: usize,
    streams: usize,
    tokens: f64,
    filled: Option<Instant>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 0, streams: 0, tokens: BURST, filled: None }
    }
}

impl Limits {
    /// One more request; false if there were too many lately.
    pub fn request(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled.unwrap_or(now)).as_secs_f64();
        self.filled = Some(now);
        self.tokens = (self.tokens + passed * RATE).min(BURST);
        let fits = self.tokens >= 1.0;
        if fits {
            self.tokens -= 1.0;
        }
        fits
    }
}

/// A connection or a stream of a class; dropping it makes room for another one, also after a panic.
#[derive(Debug)]
pub struct Slot {
    limits: Rc<RefCell<Limits>>,
    count: fn(&mut Limits) -> &mut usize,
}

impl Slot {
    /// One more connection; `None` if there are too many.
    pub fn connection(limits: &Rc<RefCell<Limits>>) -> Option<Self> {
        Self::new(limits, MOST_CONNECTIONS, |limits| &mut limits.connections)
    }

    /// One more stream of events; `None` if there are too many.
    pub fn stream(limits: &Rc<RefCell<Limits>>) -> Option<Self> {
        Self::new(limits, MOST_STREAMS, |limits| &mut limits.streams)
    }

    fn new(
        limits: &Rc<RefCell<Limits>>,
        most: usize,
        count: fn(&mut Limits) -> &mut usize,
    ) -> Option<Self> {
        let fits = take(count(&mut limits.borrow_mut()), most);
        fits.then(|| Self { limits: limits.clone(), count })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *(self.count)(&mut self.limits.borrow_mut()) -= 1;
    }
}

fn take(count: &mut usize, most: usize) -> bool {
    let fits = *count < most;
    *count += usize::from(fits);
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn of_a_thousand_requests_a_second_a_hundred_and_the_burst_are_answered() {
        let (mut limits, start) = (Limits::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let answered = (0..1_000).filter(|ms| limits.request(at(*ms))).count();
        assert!((148..=151).contains(&answered), "{answered}");
        assert!(limits.request(at(2_000)), "after a pause");
        assert!(limits.request(at(1_000)), "a clock that goes back takes nothing");
    }

    #[test]
    fn connections_and_streams_are_bounded_and_a_panic_makes_room() {
        let limits = Rc::new(RefCell::new(Limits::default()));
        let fill = |one: fn(&Rc<RefCell<Limits>>) -> Option<Slot>| {
            std::iter::from_fn(|| one(&limits)).take(100).collect::<Vec<_>>()
        };
        let (mut connections, mut streams) = (fill(Slot::connection), fill(Slot::stream));
        assert_eq!((connections.len(), streams.len()), (MOST_CONNECTIONS, MOST_STREAMS));
        let (connection, stream) = (connections.pop(), streams.pop());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = (connection, stream);
            panic!("as requested");
        }));
        assert!(panicked.is_err());
        let new = (Slot::connection(&limits), Slot::stream(&limits));
        assert!(new.0.is_some() && new.1.is_some() && Slot::connection(&limits).is_none());
    }
}
