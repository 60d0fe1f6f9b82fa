// SPDX-License-Identifier: Apache-2.0
//! The loop around the manager: calls it when it is due, sleeps until then, and wakes up for signals and for
//! status requests. A wake-up without work allocates nothing.
//!
//! A manager that fails must not end the user's program: every call to it is caught, and after a panic its
//! settings are restored and the loop continues without it.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tierline_core::event::Event;
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::manager::Manager;

use crate::clock;
use crate::print::{Voice, to_stderr};
use crate::serve::StatusSocket;
use crate::signals::{SignalEvent, Signals};
use crate::status::Status;

/// The shortest time between two wake-ups for the manager.
const SHORTEST_SLEEP: Nanos = Nanos::from_millis(1);
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
    fn shutdown(self) -> Vec<Error> {
        Manager::shutdown(self)
    }
}

/// Decides when the loop ends.
pub trait EndCondition {
    /// Handles a signal; true ends the loop.
    fn on_signal(&mut self, signal: SignalEvent) -> bool;
    /// Called after every wake-up; true ends the loop.
    fn is_over(&mut self, standing: ManagerState, now: Nanos) -> bool;
    /// The latest time at which the loop ends.
    fn deadline(&self) -> Option<Nanos>;
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
    pub voice: Voice,
    /// Every event, one line of JSON each.
    pub events: Option<BufWriter<File>>,
    /// Time between lines of status on stderr.
    pub status_interval: Option<Nanos>,
    /// Print that line as JSON.
    pub json: bool,
}

/// A manager, or none after a failure, and its reports.
pub struct Driver<M: Managed> {
    manager: Option<M>,
    socket: Option<StatusSocket>,
    reports: Reports,
    /// When the manager's next step is due, and the next line of status.
    due: Nanos,
    status_due: Nanos,
    printed: BTreeSet<String>,
    /// Why it failed.
    failure: Option<String>,
}

impl<M: Managed> Driver<M> {
    /// Drives `manager`; without one, it only waits.
    pub fn new(manager: Option<M>, socket: Option<StatusSocket>, reports: Reports) -> Self {
        let (due, status_due) = (Nanos::ZERO, Nanos::ZERO);
        Self { manager, socket, reports, due, status_due, printed: BTreeSet::new(), failure: None }
    }

    /// Manages one more process.
    pub fn add(&mut self, pid: u32) {
        self.guarded(|manager, _| manager.add(pid));
        self.due = Nanos::ZERO;
    }

    /// Why the manager failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Loops until the scene is over.
    pub fn run(&mut self, signals: &mut Signals, scene: &mut impl EndCondition) {
        loop {
            let now = clock::now();
            let standing = self.step_when_due(now);
            self.report_when_due(now);
            if scene.is_over(standing, now) {
                return;
            }
            let woken = self.sleep(signals, scene.deadline(), now);
            if woken && signals.take().any(|signal| scene.on_signal(signal)) {
                return;
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
        if self.manager.is_some() && now < self.due {
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
            self.reports.voice.say(&text);
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
        let own = self.manager.is_some().then_some(self.due);
        let report =
            self.reports.status_interval.filter(|_| own.is_some()).map(|_| self.status_due);
        let until = [own, report, deadline].into_iter().flatten().min();
        let timeout = until.map(|until| timespec(until.saturating_sub(now)));
        let signalled = PollFd::new(signals.fd(), PollFlags::IN);
        let asked = self.socket.as_ref().map(|socket| PollFd::new(socket.fd(), PollFlags::IN));
        let mut fds = [signalled.clone(), asked.unwrap_or(signalled)];
        let watched = 1 + usize::from(self.socket.is_some());
        // A signal that interrupts the wait is read from the pipe in the next round.
        let count = poll(&mut fds[..watched], timeout.as_ref()).unwrap_or(0);
        let [signalled, asked] = [0, 1].map(|at| count > 0 && !fds[at].revents().is_empty());
        if asked && watched > 1 {
            self.answer();
        }
        signalled
    }

    fn answer(&mut self) {
        let status = self.guarded(|manager, _| manager.status(clock::now()));
        if let (Some(socket), Some(status)) = (&self.socket, status) {
            socket.answer((status.json() + "\n").as_bytes());
        }
    }

    /// Calls the manager, if there is one. After a panic there is none.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut M, &mut Reports) -> T) -> Option<T> {
        let (manager, reports) = (self.manager.as_mut()?, &mut self.reports);
        match catch_unwind(AssertUnwindSafe(|| work(manager, reports))) {
            Ok(value) => Some(value),
            Err(panic) => {
                let why = message(panic.as_ref());
                self.reports
                    .voice
                    .say(&format!("the manager failed ({why}); restoring its settings"));
                self.failure = Some(why);
                self.shut_down();
                None
            }
        }
    }

    fn shut_down(&mut self) {
        self.socket = None;
        let Some(manager) = self.manager.take() else { return };
        // If this panics too, the journal restores the settings when it is dropped.
        let errors = catch_unwind(AssertUnwindSafe(|| manager.shutdown())).unwrap_or_default();
        errors.iter().for_each(|error| self.reports.voice.say(&error.to_string()));
    }
}

impl Reports {
    /// Writes events. After a failure (a full disk), reports it once and stops writing.
    fn log(&mut self, events: &[Event]) {
        let Some(file) = &mut self.events else { return };
        let written = events.iter().try_for_each(|event| {
            serde_json::to_writer(&mut *file, event)?;
            file.write_all(b"\n")
        });
        if let Err(error) = written {
            self.events = None;
            self.voice.say(&format!("events are no longer written: {error}"));
        }
    }

    fn flush(&mut self) {
        let flushed = self.events.as_mut().map_or(Ok(()), Write::flush);
        if let Err(error) = flushed {
            self.events = None;
            self.voice.say(&format!("events are no longer written: {error}"));
        }
    }
}

/// The message of a panic.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
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

    /// Counts its steps, and panics on request.
    struct Fake {
        log: Rc<RefCell<Vec<&'static str>>>,
        panic_in_step: bool,
        panic_in_shutdown: bool,
        due: Nanos,
    }

    impl Fake {
        fn new(log: &Rc<RefCell<Vec<&'static str>>>) -> Self {
            let log = log.clone();
            Self { log, panic_in_step: false, panic_in_shutdown: false, due: Nanos::ZERO }
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
        fn shutdown(self) -> Vec<Error> {
            self.log.borrow_mut().push("shutdown");
            assert!(!self.panic_in_shutdown, "as requested");
            Vec::new()
        }
    }

    /// Ends at a given time.
    struct Until(Nanos, u32);

    impl EndCondition for Until {
        fn on_signal(&mut self, _signal: SignalEvent) -> bool {
            true
        }
        fn is_over(&mut self, _standing: ManagerState, now: Nanos) -> bool {
            self.1 += 1;
            now >= self.0
        }
        fn deadline(&self) -> Option<Nanos> {
            Some(self.0)
        }
    }

    fn reports() -> Reports {
        let voice = Voice { quiet: true };
        Reports { voice, events: None, status_interval: None, json: false }
    }

    fn drive(fake: Fake) -> (Driver<Fake>, u32) {
        let mut driver = Driver::new(Some(fake), None, reports());
        let mut scene = Until(clock::now() + Nanos::from_millis(40), 0);
        driver.run(&mut Signals::listen().expect("signals"), &mut scene);
        (driver, scene.1)
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
    fn after_a_panic_settings_are_restored_and_the_loop_continues() {
        for panic_in_shutdown in [false, true] {
            let log = Rc::default();
            let fake = Fake { panic_in_step: true, panic_in_shutdown, ..Fake::new(&log) };
            let (driver, _) = drive(fake);
            assert_eq!(*log.borrow(), ["step", "shutdown"]);
            assert_eq!(driver.failure(), Some("as requested"));
            assert!(driver.manager.is_none());
        }
    }
}
