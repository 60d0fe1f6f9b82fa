// SPDX-License-Identifier: Apache-2.0
//! A manager whose tenants come and go: by its files, and by requests. It is driven like any other.

use serde_json::json;
use tierline_core::event::Event;
use tierline_core::unit::Nanos;
use tierline_linux::error::Error;
use tierline_linux::manager::Manager;

use crate::api::{Feed, Snapshot};
use crate::drive::Managed;
use crate::notify::Notifier;
use crate::request::{Answer, Verb};
use crate::roster::Roster;
use crate::status::Status;

/// A manager, its tenants, and who is told of them.
pub struct Daemon {
    manager: Manager,
    roster: Roster,
    feed: Feed,
    notifier: Notifier,
    is_ready: bool,
}

impl Daemon {
    /// A daemon; its tenants are managed from the first step on.
    pub fn new(manager: Manager, roster: Roster, feed: Feed, notifier: Notifier) -> Self {
        Self { manager, roster, feed, notifier, is_ready: false }
    }

    fn snapshot(&self, now: Nanos) -> Snapshot {
        Snapshot::new(Status::of(&self.manager, now), self.roster.standings())
    }
}

impl Managed for Daemon {
    fn step(&mut self, now: Nanos) -> &[Event] {
        self.notifier.alive(now);
        // Nobody may see a tenant that is gone: the API takes it for one that must not be removed.
        if self.roster.settle(&mut self.manager, now) {
            self.feed.replace(self.snapshot(now));
        }
        let events = self.manager.step(now);
        self.feed.events(events);
        // Not before: whoever waits for the service finds the programs that it manages.
        if !std::mem::replace(&mut self.is_ready, true) {
            self.notifier.send("READY=1");
        }
        events
    }

    fn next_due(&self) -> Nanos {
        self.manager.next_due()
    }

    fn add(&mut self, pid: u32) {
        self.manager.add(pid);
    }

    fn has_no_targets(&self) -> bool {
        self.manager.has_no_targets()
    }

    fn take_errors(&mut self) -> Vec<Error> {
        self.manager.take_errors()
    }

    fn status(&self, now: Nanos) -> Status {
        Status::of(&self.manager, now)
    }

    fn request(&mut self, now: Nanos, verb: &Verb) -> Answer {
        let changed = match verb {
            Verb::Submit { app } => self.roster.add(&mut self.manager, now, app),
            Verb::Remove { name } => self.roster.remove(&mut self.manager, now, name),
            _ => {
                let answer = Answer::of(&mut self.manager, now, verb);
                if let (Verb::Set { app }, None) = (verb, &answer.error) {
                    self.roster.changed(app);
                    self.feed.replace(self.snapshot(now));
                }
                return answer;
            }
        };
        if let Err(error) = changed {
            return Answer::refused(&error);
        }
        self.feed.replace(self.snapshot(now));
        self.feed.line(&json!({ "tenant": verb }));
        match verb {
            // One without a target is no application, and has nothing to explain.
            Verb::Submit { app } if app.is_application() => {
                let name = app.name.clone().unwrap_or_default();
                Answer::of(&mut self.manager, now, &Verb::Explain { name })
            }
            _ => Answer::done(),
        }
    }

    fn reload(&mut self, now: Nanos) {
        self.notifier.send("RELOADING=1");
        self.roster.reload(&mut self.manager, now);
        self.notifier.send("READY=1");
        self.feed.replace(self.snapshot(now));
        self.feed.line(&json!({ "reloaded": true }));
    }

    fn woken(&mut self, now: Nanos) -> Result<(), String> {
        // Without its API nobody can reach it. A service manager starts it again, with its tenants.
        if !self.feed.quiet() {
            return Err("the thread of the API has ended".into());
        }
        while let Some(change) = self.feed.next_change() {
            let answer = self.request(now, &change.verb);
            change.answer(answer);
        }
        self.feed.publish(|| self.snapshot(now));
        Ok(())
    }

    fn shutdown(self) -> Vec<Error> {
        self.notifier.send("STOPPING=1");
        self.manager.shutdown()
    }
}
