// SPDX-License-Identifier: Apache-2.0
//! The loop around the manager: calls it when it is due, sleeps until then, and wakes up for signals and for
//! status requests. A wake-up without work allocates nothing.
//!
//! A manager that fails must not end the user's program: every call to it is caught, and after a panic its
//! settings are restored and the loop continues without it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tierline_core::event::Event;
use tierline_core::guard::Guarded;
use tierline_core::unit::{Bytes, Nanos};
use tierline_linux::error::Error;
use tierline_linux::manager::Manager;

use crate::clock;
use crate::output::empty;
use crate::print::{Messages, to_stderr};
use crate::report_error::ErrorWithHint;
use crate::request::{Answer, MOST_BYTES, Request, Verb};
use crate::serve::{CALLERS, Call, StatusSocket};
use crate::signals::{SignalEvent, Signals};
use crate::status::Status;

/// The shortest time between two wake-ups for the manager.
const SHORTEST_SLEEP: Nanos = Nanos::from_millis(1);
/// The time after which signals and clients are looked for, if the kernel does not wait for them.
const AFTER_FAILED_WAIT: Duration = Duration::from_millis(10);
/// The most different problems that are printed; more would flood the terminal of the program.
const MOST_PROBLEMS: usize = 20;

/// What the loop requires of a manager.
pub trait Managed {
    /// Does what is due.
    fn step(&mut self, now: Nanos) -> &[Event];
    /// When to step next.
    fn next_due(&self) -> Nanos;
    /// Manages one more process.
    fn add(&mut self, pid: u32);
    /// True if no managed process is left.
    fn has_no_targets(&self) -> bool;
    /// Errors since the last call that did not stop it.
    fn take_errors(&mut self) -> Vec<Error>;
    /// The present status.
    fn status(&self, now: Nanos) -> Status;
    /// Answers a request about applications.
    fn request(&mut self, now: Nanos, verb: &Verb) -> Answer;
    /// Reads the configuration again.
    fn reload(&mut self, now: Nanos);
    /// Handles what is waiting behind its waker, without blocking. An error ends the manager as a panic does.
    fn woken(&mut self, now: Nanos) -> Result<(), String>;
    /// Restores every setting.
    fn shutdown(self) -> Vec<Error>;
}

impl Managed for Manager {
    fn step(&mut self, now: Nanos) -> &[Event] {
        Manager::step(self, now)
    }
    fn next_due(&self) -> Nanos {
        Manager::next_due(self)
    }
    fn add(&mut self, pid: u32) {
        Manager::add(self, pid);
    }
    fn has_no_targets(&self) -> bool {
        Manager::has_no_targets(self)
    }
    fn take_errors(&mut self) -> Vec<Error> {
        Manager::take_errors(self)
    }
    fn status(&self, now: Nanos) -> Status {
        Status::of(self, now)
    }
    fn request(&mut self, now: Nanos, verb: &Verb) -> Answer {
        Answer::of(self, now, verb)
    }
    // Its configuration is the command line, and nobody else wakes it.
    fn reload(&mut self, _now: Nanos) {}
    fn woken(&mut self, _now: Nanos) -> Result<(), String> {
        Ok(())
    }
    fn shutdown(self) -> Vec<Error> {
        Manager::shutdown(self)
    }
}

/// Decides when the loop ends.
pub trait EndCondition {
    /// Handles a signal.
    fn on_signal(&mut self, signal: SignalEvent) -> OnSignal;
    /// Called after every wake-up; true ends the loop.
    fn is_over(&mut self, state: ManagerState, now: Nanos) -> bool;
    /// The latest time at which the loop ends.
    fn deadline(&self) -> Option<Nanos>;
}

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSignal {
    /// Nothing for the loop.
    GoOn,
    /// The configuration is to be read again.
    Reload,
    /// The end.
    End,
}

/// The state of the manager after a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagerState {
    /// It was not due.
    NotDue,
    /// It manages processes.
    Managing,
    /// It has no processes left.
    NoTargets,
    /// There is no manager, or no longer one.
    Absent,
}

/// Destinations of reports.
pub struct Reports {
    /// Prints messages to the user.
    pub messages: Messages,
    /// Every event, one line of JSON each.
    pub events: Option<EventLog>,
    /// Time between lines of status on stderr.
    pub status_interval: Option<Nanos>,
    /// Print that line as JSON.
    pub json: bool,
}

/// A file of events, up to a size.
pub struct EventLog {
    file: BufWriter<File>,
    /// False before the first event, when what was in the file is still there.
    begun: bool,
    left: u64,
}

impl EventLog {
    /// A log in `file`, of at most `limit`.
    pub fn new(file: File, limit: Bytes) -> Self {
        Self { file: BufWriter::new(file), begun: false, left: limit.0 }
    }

    fn add(&mut self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        let left = self.left.checked_sub(line.len() as u64);
        self.left = left.ok_or_else(|| io::Error::other("--events-limit is reached"))?;
        self.file.write_all(&line)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        empty(self.file.get_ref())
    }
}

/// A manager, or none after a failure, and its reports.
pub struct Driver<M: Managed> {
    manager: Guarded<M>,
    socket: Option<StatusSocket>,
    /// Readable when the manager is to be called although it is not due.
    waker: Option<UnixStream>,
    reports: Reports,
    /// When the manager's next step is due, and the next line of status.
    due: Nanos,
    status_due: Nanos,
    printed: BTreeSet<String>,
}

impl<M: Managed> Driver<M> {
    /// Drives `manager`; without one, it only waits.
    pub fn new(manager: Option<M>, socket: Option<StatusSocket>, reports: Reports) -> Self {
        let (due, status_due) = (Nanos::ZERO, Nanos::ZERO);
        let manager = Guarded::new(manager);
        let (waker, printed) = (None, BTreeSet::new());
        Self { manager, socket, waker, reports, due, status_due, printed }
    }

    /// Calls the manager also when `waker` is readable.
    pub fn wake_by(&mut self, waker: UnixStream) {
        self.waker = Some(waker);
    }

    /// Manages one more process.
    pub fn add(&mut self, pid: u32) {
        self.guarded(|manager, _| manager.add(pid));
        self.due = Nanos::ZERO;
    }

    /// Why the manager failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.manager.failure()
    }

    /// Loops until the end is over.
    pub fn run(&mut self, signals: &mut Signals, end: &mut impl EndCondition) {
        loop {
            let now = clock::now();
            let state = self.step_when_due(now);
            self.report_when_due(now);
            if end.is_over(state, now) {
                return;
            }
            let woken = self.sleep(signals, end.deadline(), now);
            let signals: Vec<OnSignal> = match woken {
                true => signals.take().map(|signal| end.on_signal(signal)).collect(),
                false => Vec::new(),
            };
            if signals.contains(&OnSignal::End) {
                return;
            }
            if signals.contains(&OnSignal::Reload) {
                self.guarded(|manager, _| manager.reload(clock::now()));
                self.due = Nanos::ZERO;
            }
        }
    }

    /// Stops the manager and restores every setting. Returns its last status.
    pub fn finish(&mut self) -> Option<Status> {
        let status = self.guarded(|manager, _| manager.status(clock::now()));
        self.shut_down();
        self.reports.flush();
        status
    }

    fn step_when_due(&mut self, now: Nanos) -> ManagerState {
        if self.manager.is_running() && now < self.due {
            return ManagerState::NotDue;
        }
        let stepped = self.guarded(|manager, reports| {
            reports.log(manager.step(now));
            (manager.next_due(), manager.has_no_targets(), manager.take_errors())
        });
        let Some((due, alone, problems)) = stepped else { return ManagerState::Absent };
        self.due = due.max(now + SHORTEST_SLEEP);
        problems.iter().for_each(|problem| self.warn(problem));
        if alone { ManagerState::NoTargets } else { ManagerState::Managing }
    }

    /// Prints a problem once.
    fn warn(&mut self, problem: &Error) {
        let text = problem.to_string();
        if self.printed.len() < MOST_PROBLEMS && !self.printed.contains(&text) {
            self.reports.messages.print(&text);
            self.printed.insert(text);
        }
    }

    fn report_when_due(&mut self, now: Nanos) {
        let Some(interval) = self.reports.status_interval else { return };
        if now < self.status_due {
            return;
        }
        self.status_due = now + interval;
        let json = self.reports.json;
        let status = self.guarded(|manager, _| manager.status(now));
        match status {
            Some(status) if json => to_stderr(&status.json()),
            Some(status) => to_stderr(&format!("tierline: {}", status.line())),
            None => {}
        }
        self.reports.flush();
    }

    /// Sleeps until something is due. True if a signal has arrived.
    fn sleep(&mut self, signals: &Signals, deadline: Option<Nanos>, now: Nanos) -> bool {
        let own = self.manager.is_running().then_some(self.due);
        let report =
            self.reports.status_interval.filter(|_| own.is_some()).map(|_| self.status_due);
        let silent = self.socket.as_ref().and_then(StatusSocket::due);
        let until = [own, report, deadline, silent].into_iter().flatten().min();
        let timeout = until.map(|until| timespec(until.saturating_sub(now)));
        let signalled = PollFd::new(signals.fd(), PollFlags::IN);
        let mut fds: [PollFd<'_>; 3 + CALLERS] = std::array::from_fn(|_| signalled.clone());
        if let Some(waker) = &self.waker {
            fds[1] = PollFd::new(waker, PollFlags::IN);
        }
        let mut watched = 2;
        if let Some(socket) = &self.socket {
            fds[2] = PollFd::new(socket.fd(), PollFlags::IN);
            watched = 3;
            for (slot, caller) in fds[3..].iter_mut().zip(socket.callers()) {
                *slot = PollFd::new(caller, PollFlags::IN);
                watched += 1;
            }
        }
        let waited = poll(&mut fds[..watched], timeout.as_ref());
        // If the wait fails, nothing tells who has called: all are asked. They do not block.
        let failed = waited.is_err();
        if waited.is_err_and(|why| why != Errno::INTR) {
            std::thread::sleep(AFTER_FAILED_WAIT);
        }
        let has_called = |fd: &PollFd<'_>| failed || !fd.revents().is_empty();
        let signalled = has_called(&fds[0]);
        let called = self.waker.is_some() && has_called(&fds[1]);
        let asked = fds[2..watched].iter().any(has_called);
        if asked || silent.is_some() {
            self.answer();
        }
        if called {
            let woken = self.guarded(|manager, _| {
                let woken = manager.woken(clock::now());
                (woken, manager.next_due())
            });
            match woken {
                Some((Ok(()), due)) => self.due = due,
                Some((Err(why), _)) => self.fail(why),
                None => {}
            }
        }
        signalled
    }

    /// Answers the clients whose requests are complete.
    fn answer(&mut self) {
        let now = clock::now();
        let calls = self.socket.as_mut().map(|socket| socket.calls(now)).unwrap_or_default();
        for call in calls {
            let text = match call.request {
                None => self.guarded(|manager, _| manager.status(now).json() + "\n"),
                Some(_) => self.request(now, &call),
            };
            if let Some(text) = text {
                call.answer(text.as_bytes());
            }
        }
    }

    /// The answer to a request; `None` without a manager.
    fn request(&mut self, now: Nanos, call: &Call) -> Option<String> {
        let text = call.request.as_deref().unwrap_or_default();
        let request = match text.is_empty() {
            false => Request::read(text, call.trusted),
            true => Err(ErrorWithHint::error(
                format!("the request is empty, or longer than {MOST_BYTES} bytes"),
                "use `tierline qos`",
            )),
        };
        match request {
            Ok(request) => {
                self.due = if request.verb.changes() { Nanos::ZERO } else { self.due };
                let answer = self.guarded(|manager, _| manager.request(now, &request.verb))?;
                Some(answer.json())
            }
            Err(error) => Some(Answer::refused(&error).json()),
        }
    }

    /// Calls the manager, if there is one. After a panic its settings are restored, and there is none.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut M, &mut Reports) -> T) -> Option<T> {
        let (was_running, reports) = (self.manager.is_running(), &mut self.reports);
        let value = self.manager.call(|manager| work(manager, reports));
        if was_running {
            self.give_up();
        }
        value
    }

    fn fail(&mut self, why: String) {
        self.manager.fail(why);
        self.give_up();
    }

    /// After a failure: says why, and restores the settings.
    fn give_up(&mut self) {
        if let Some(why) = self.manager.failure() {
            let text = format!("the manager failed ({why}); restoring its settings");
            self.reports.messages.print(&text);
            self.shut_down();
        }
    }

    fn shut_down(&mut self) {
        self.socket = None;
        // If this panics too, the journal restores the settings when it is dropped.
        let errors = self.manager.finish(M::shutdown).unwrap_or_default();
        errors.iter().for_each(|error| self.reports.messages.print(&error.to_string()));
    }
}

impl Reports {
    /// Writes events. After a failure (a full disk), reports it once and stops writing.
    fn log(&mut self, events: &[Event]) {
        let Some(log) = &mut self.events else { return };
        let written = log.begin().and_then(|()| events.iter().try_for_each(|event| log.add(event)));
        self.stop_after(written);
    }

    fn flush(&mut self) {
        let flushed = self.events.as_mut().map_or(Ok(()), |log| log.file.flush());
        self.stop_after(flushed);
    }

    fn stop_after(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.events = None;
            self.messages.print(&format!("events are no longer written: {error}"));
        }
    }
}

fn timespec(time: Nanos) -> Timespec {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Timespec { tv_sec: part(time.0 / 1_000_000_000), tv_nsec: part(time.0 % 1_000_000_000) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use tierline_core::port::{Outcome, PageAddress, PageSize, SpaceId, Vpn};

    /// Counts its steps, and panics on request.
    struct Fake {
        log: Rc<RefCell<Vec<&'static str>>>,
        panic_in_step: bool,
        panic_in_shutdown: bool,
        woken: Result<(), String>,
        due: Nanos,
    }

    impl Fake {
        fn new(log: &Rc<RefCell<Vec<&'static str>>>) -> Self {
            let log = log.clone();
            let (panic_in_step, panic_in_shutdown, woken) = (false, false, Ok(()));
            Self { log, panic_in_step, panic_in_shutdown, woken, due: Nanos::ZERO }
        }
    }

    impl Managed for Fake {
        fn step(&mut self, now: Nanos) -> &[Event] {
            self.log.borrow_mut().push("step");
            assert!(!self.panic_in_step, "as requested");
            self.due = now + Nanos::from_millis(5);
            &[]
        }
        fn next_due(&self) -> Nanos {
            self.due
        }
        fn add(&mut self, _pid: u32) {}
        fn has_no_targets(&self) -> bool {
            true
        }
        fn take_errors(&mut self) -> Vec<Error> {
            Vec::new()
        }
        fn status(&self, _now: Nanos) -> Status {
            Status::default()
        }
        fn request(&mut self, _now: Nanos, _verb: &Verb) -> Answer {
            Answer::default()
        }
        fn reload(&mut self, _now: Nanos) {}
        fn woken(&mut self, _now: Nanos) -> Result<(), String> {
            self.woken.clone()
        }
        fn shutdown(self) -> Vec<Error> {
            self.log.borrow_mut().push("shutdown");
            assert!(!self.panic_in_shutdown, "as requested");
            Vec::new()
        }
    }

    #[test]
    fn events_end_at_their_limit_and_replace_what_was_there() {
        let page = PageAddress { space: SpaceId(1), vpn: Vpn(2), size: PageSize::Base };
        let event = Event::PageOut { at: Nanos(3), page, outcome: Outcome::Done };
        let line = serde_json::to_string(&event).expect("JSON").len() as u64 + 1;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "old").expect("written");
        let log = EventLog::new(file.reopen().expect("it"), Bytes(line * 2));
        let mut reports = Reports { events: Some(log), ..reports() };
        assert_eq!(std::fs::read_to_string(file.path()).expect("it"), "old");
        reports.log(&[event, event]);
        reports.flush();
        let written = || std::fs::read_to_string(file.path()).expect("it").lines().count();
        assert_eq!((written(), reports.events.is_some()), (2, true));
        reports.log(&[event]);
        assert_eq!((written(), reports.events.is_some()), (2, false));
    }

    /// Ends at a given time.
    struct Until(Nanos, u32);

    impl EndCondition for Until {
        fn on_signal(&mut self, _signal: SignalEvent) -> OnSignal {
            OnSignal::End
        }
        fn is_over(&mut self, _state: ManagerState, now: Nanos) -> bool {
            self.1 += 1;
            now >= self.0
        }
        fn deadline(&self) -> Option<Nanos> {
            Some(self.0)
        }
    }

    /// Ends without a manager, or at a given time, which fails.
    struct UntilAbsent<'a>(&'a mut Until);

    impl EndCondition for UntilAbsent<'_> {
        fn on_signal(&mut self, _signal: SignalEvent) -> OnSignal {
            OnSignal::GoOn
        }
        fn is_over(&mut self, state: ManagerState, now: Nanos) -> bool {
            assert!(!self.0.is_over(state, now), "it goes on");
            state == ManagerState::Absent
        }
        fn deadline(&self) -> Option<Nanos> {
            self.0.deadline()
        }
    }

    fn reports() -> Reports {
        let messages = Messages { quiet: true };
        Reports { messages, events: None, status_interval: None, json: false }
    }

    fn drive(fake: Fake) -> (Driver<Fake>, u32) {
        let mut driver = Driver::new(Some(fake), None, reports());
        let mut end = Until(clock::now() + Nanos::from_millis(40), 0);
        driver.run(&mut Signals::listen().expect("signals"), &mut end);
        (driver, end.1)
    }

    #[test]
    fn the_loop_sleeps_between_steps() {
        let log = Rc::default();
        let (mut driver, rounds) = drive(Fake::new(&log));
        driver.finish();
        let steps = log.borrow().iter().filter(|what| **what == "step").count();
        assert!((1..=9).contains(&steps), "{steps} steps in 40 ms at 5 ms each");
        assert!(rounds <= 12, "{rounds} rounds: it spins");
        assert_eq!(log.borrow().last(), Some(&"shutdown"));
    }

    #[test]
    fn a_manager_that_is_woken_to_an_error_ends_and_its_settings_are_restored() {
        let log = Rc::default();
        let fake = Fake { woken: Err("its API has ended".into()), ..Fake::new(&log) };
        let mut driver = Driver::new(Some(fake), None, reports());
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        driver.wake_by(ours);
        // The other end closes when its thread ends.
        std::thread::spawn(move || drop(theirs)).join().expect("ended");
        let mut end = Until(clock::now() + Nanos::from_secs(60), 0);
        driver.run(&mut Signals::listen().expect("signals"), &mut UntilAbsent(&mut end));
        assert_eq!(driver.failure(), Some("its API has ended"));
        assert_eq!(log.borrow().last(), Some(&"shutdown"));
    }

    #[test]
    fn after_a_panic_settings_are_restored_and_the_loop_continues() {
        for panic_in_shutdown in [false, true] {
            let log = Rc::default();
            let fake = Fake { panic_in_step: true, panic_in_shutdown, ..Fake::new(&log) };
            let (driver, _) = drive(fake);
            assert_eq!(*log.borrow(), ["step", "shutdown"]);
            assert_eq!(driver.failure(), Some("as requested"));
            assert!(!driver.manager.is_running());
        }
    }
}
