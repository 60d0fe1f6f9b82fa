// SPDX-License-Identifier: Apache-2.0
//! Between the manager and the API: snapshots and events one way, changes the other. All of it is bounded, and the
//! manager's side never blocks.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde::Serialize;
use tierline_core::event::Event;
use tokio::sync::{broadcast, oneshot, watch};

use crate::openmetrics;
use crate::request::{Answer, Verb};
use crate::roster::Standing;
use crate::status::Status;

/// Changes that wait for the manager; more are refused.
const MOST_CHANGES: usize = 16;
/// Batches of events that wait for the slowest reader; it misses older ones.
const MOST_BATCHES: usize = 256;
/// A snapshot is younger than this, or the manager is asked for a new one.
const FRESH: Duration = Duration::from_millis(500);
/// It is not waited for any longer than this: the manager may be in a long step.
const PATIENCE: Duration = Duration::from_millis(5);
/// Unless all there is has become old, as after a time without requests.
const OLD: Duration = Duration::from_secs(5);
const PATIENCE_WITH_OLD: Duration = Duration::from_secs(1);
/// A change waits for the manager's present step.
const PATIENCE_OF_CHANGES: Duration = Duration::from_secs(3);

/// What the API knows of the manager.
#[derive(Default)]
pub struct Snapshot {
    /// When it was made.
    pub made: Option<Instant>,
    /// The manager.
    pub status: Status,
    /// Its tenants.
    pub tenants: Vec<Standing>,
    texts: [OnceLock<Bytes>; 3],
}

impl Snapshot {
    /// A snapshot as of now.
    pub fn new(status: Status, tenants: Vec<Standing>) -> Self {
        Self { made: Some(Instant::now()), status, tenants, texts: Default::default() }
    }

    /// The status as JSON.
    pub fn status_json(&self) -> Bytes {
        self.texts[0].get_or_init(|| self.status.json().into()).clone()
    }

    /// The tenants as JSON.
    pub fn tenants_json(&self) -> Bytes {
        #[derive(Serialize)]
        struct Tenants<'a> {
            tenants: &'a [Standing],
        }
        let json = || serde_json::to_string(&Tenants { tenants: &self.tenants });
        self.texts[1].get_or_init(|| json().unwrap_or_default().into()).clone()
    }

    /// The metrics as OpenMetrics text.
    pub fn metrics(&self) -> Bytes {
        let text = || openmetrics::text(vec![self.status.clone()]).unwrap_or_default();
        self.texts[2].get_or_init(|| text().into()).clone()
    }
}

/// What happened, for the stream of events.
#[derive(Clone, Debug)]
pub enum Batch {
    /// Events of the engine.
    Engine(Arc<[Event]>),
    /// A line of JSON.
    Line(Arc<str>),
}

/// A change that a caller wants.
pub struct Change {
    /// What is wanted.
    pub verb: Verb,
    answer: oneshot::Sender<Answer>,
}

impl Change {
    /// Answers the caller, if it still waits.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// The manager's side.
pub struct Feed {
    snapshots: watch::Sender<Arc<Snapshot>>,
    events: broadcast::Sender<Batch>,
    changes: Receiver<Change>,
    waker: UnixStream,
    wanted: Arc<AtomicBool>,
}

/// The API's side.
#[derive(Clone)]
pub struct Hub {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    events: broadcast::Sender<Batch>,
    changes: SyncSender<Change>,
    waker: Arc<UnixStream>,
    wanted: Arc<AtomicBool>,
}

/// Both sides.
///
/// # Errors
/// If there are too many open files.
pub fn feed(first: Snapshot) -> std::io::Result<(Feed, Hub)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let (snapshots, read) = watch::channel(Arc::new(first));
    let (events, _) = broadcast::channel(MOST_BATCHES);
    let (send, changes) = sync_channel(MOST_CHANGES);
    let wanted = Arc::new(AtomicBool::new(false));
    let hub = Hub {
        snapshots: read,
        events: events.clone(),
        changes: send,
        waker: Arc::new(theirs),
        wanted: wanted.clone(),
    };
    Ok((Feed { snapshots, events, changes, waker: ours, wanted }, hub))
}

impl Feed {
    /// Readable when the API wants something.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn waker(&self) -> std::io::Result<UnixStream> {
        self.waker.try_clone()
    }

    /// Empties the waker. Call it first, so that nothing that arrives meanwhile is missed. False if the API's side is
    /// gone: its thread has ended, by a panic or without one.
    pub fn quiet(&mut self) -> bool {
        let mut rest = [0; 64];
        loop {
            match self.waker.read(&mut rest) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
    }

    /// The next change that waits.
    pub fn next_change(&self) -> Option<Change> {
        self.changes.try_recv().ok()
    }

    /// Hands over a snapshot after a change, so that nobody sees what was before.
    pub fn replace(&self, snapshot: Snapshot) {
        self.snapshots.send_replace(Arc::new(snapshot));
    }

    /// Hands over a snapshot, if one is wanted.
    pub fn publish(&self, snapshot: impl FnOnce() -> Snapshot) {
        if self.wanted.swap(false, Ordering::AcqRel) {
            self.snapshots.send_replace(Arc::new(snapshot()));
        }
    }

    /// Hands over events, if anybody listens.
    pub fn events(&self, events: &[Event]) {
        if !events.is_empty() && self.events.receiver_count() > 0 {
            let _ = self.events.send(Batch::Engine(events.into()));
        }
    }

    /// Hands over a line of JSON, if anybody listens.
    pub fn line(&self, value: &serde_json::Value) {
        let _ = self.events.send(Batch::Line(value.to_string().into()));
    }
}

impl Hub {
    /// A snapshot: a fresh one, if the manager makes it in time.
    pub async fn snapshot(&self) -> Arc<Snapshot> {
        let is_fresh =
            |snapshot: &Arc<Snapshot>| snapshot.made.is_some_and(|made| made.elapsed() < FRESH);
        let mut snapshots = self.snapshots.clone();
        let now = snapshots.borrow().clone();
        if is_fresh(&now) {
            return now;
        }
        if !self.wanted.swap(true, Ordering::AcqRel) {
            self.wake();
        }
        let is_old = now.made.is_some_and(|made| made.elapsed() >= OLD);
        let patience = if is_old { PATIENCE_WITH_OLD } else { PATIENCE };
        let fresh = tokio::time::timeout(patience, snapshots.wait_for(is_fresh)).await;
        match fresh {
            Ok(Ok(fresh)) => fresh.clone(),
            _ => now,
        }
    }

    /// Lets the manager change something. `None`: it does not get to it.
    pub async fn change(&self, verb: Verb) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.changes.try_send(Change { verb, answer }).ok()?;
        self.wake();
        tokio::time::timeout(PATIENCE_OF_CHANGES, answered).await.ok()?.ok()
    }

    /// The events from now on.
    pub fn events(&self) -> broadcast::Receiver<Batch> {
        self.events.subscribe()
    }

    fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&*self.waker).write(&[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tierline_core::port::Attention;
    use tierline_core::unit::Nanos;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(work)
    }

    #[test]
    fn a_manager_that_is_busy_is_not_waited_for() {
        let (mut feed, hub) = feed(Snapshot::default()).expect("both sides");
        assert!(run(hub.snapshot()).made.is_none(), "the old one");
        let mut wakes = [0; 8];
        assert_eq!(feed.waker.read(&mut wakes).ok(), Some(1), "woken once");
        run(hub.snapshot());
        assert!(feed.waker.read(&mut wakes).is_err(), "it is wanted already");
        feed.publish(|| Snapshot::new(Status { pid: 7, ..Status::default() }, Vec::new()));
        assert_eq!(run(hub.snapshot()).status.pid, 7);
        feed.publish(|| panic!("nobody wants one"));
        assert!(feed.quiet());
    }

    #[test]
    fn an_old_answer_is_given_only_if_the_manager_makes_no_new_one_in_a_second() {
        let made = Instant::now().checked_sub(OLD);
        let (feed, hub) = feed(Snapshot { made, ..Snapshot::default() }).expect("both sides");
        assert!(made.is_some(), "this machine has run for longer");
        let busy = std::thread::spawn(move || {
            std::thread::sleep(10 * PATIENCE);
            feed.publish(|| Snapshot::new(Status { pid: 7, ..Status::default() }, Vec::new()));
            feed
        });
        assert_eq!(run(hub.snapshot()).status.pid, 7);
        busy.join().expect("it ends");
    }

    #[test]
    fn a_thread_of_the_api_that_ends_wakes_the_manager_and_is_noticed() {
        let (mut feed, hub) = feed(Snapshot::default()).expect("both sides");
        hub.wake();
        assert!(feed.quiet(), "it runs");
        let api = std::thread::spawn(move || {
            let _hub = hub;
            panic!("as requested");
        });
        assert!(api.join().is_err());
        let waker = feed.waker().expect("a descriptor");
        let mut woken = [PollFd::new(&waker, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut woken, Some(&at_once)), Ok(1), "the manager is woken");
        assert!(!feed.quiet(), "and it notices");
    }

    #[test]
    fn changes_beyond_the_bound_are_refused_at_once() {
        let (feed, hub) = feed(Snapshot::default()).expect("both sides");
        for _ in 0..MOST_CHANGES {
            let (answer, _) = oneshot::channel();
            hub.changes.try_send(Change { verb: Verb::List, answer }).expect("room");
        }
        assert!(run(hub.change(Verb::List)).is_none());
        let waiting = std::iter::from_fn(|| feed.next_change()).count();
        assert_eq!(waiting, MOST_CHANGES);
    }

    #[test]
    fn a_reader_that_is_slow_misses_events_and_the_manager_goes_on() {
        let (feed, hub) = feed(Snapshot::default()).expect("both sides");
        let event = Event::Attend { at: Nanos(1), attention: Attention::Calm };
        feed.events(&[event]);
        let mut slow = hub.events();
        for _ in 0..MOST_BATCHES + 10 {
            feed.events(&[event]);
        }
        let missed = run(slow.recv()).expect_err("it was too slow");
        assert!(matches!(missed, broadcast::error::RecvError::Lagged(10)), "{missed:?}");
        assert!(matches!(run(slow.recv()), Ok(Batch::Engine(events)) if events.len() == 1));
    }
}
