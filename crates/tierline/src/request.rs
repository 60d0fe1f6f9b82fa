// SPDX-License-Identifier: Apache-2.0
//! Requests about applications to a running manager: one line of JSON each way, through its socket.
//!
//! ```text
//! {"version":1,"verb":"submit","app":{"name":"redis","slo":"200ns","priority":3,"cgroup":"a"}}
//! {"version":1,"error":null,"hint":null,"applications":[…],"decisions":[],"profile":[],"measurement":null}
//! ```

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tierline_core::qos::thresholds::Thresholds;
use tierline_core::unit::{BytesPerSec, Nanos};
use tierline_linux::manager::{
    ApplicationStatus, DecisionStatus, Manager, MeasurementStatus, ProfilePoint,
};
use tierline_linux::tenant::reports::Report;

use crate::apps::App;
use crate::report_error::{self, ErrorWithHint};

/// The version of requests and answers.
pub const VERSION: u32 = 1;
/// The longest request.
pub const MOST_BYTES: usize = 16 << 10;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// What is requested.
    #[serde(flatten)]
    pub verb: Verb,
}

/// What is requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    /// How all applications stand.
    List,
    /// How one stands, and what was decided about it.
    Explain {
        /// Its name.
        name: String,
    },
    /// What it can expect of each size of its fast memory.
    Profile {
        /// Its name.
        name: String,
    },
    /// Measure what it needs.
    Measure {
        /// Its name.
        name: String,
    },
    /// Admit an application.
    Submit {
        /// The application.
        app: App,
    },
    /// Change what is given of an application.
    Set {
        /// Its name, and what changes.
        app: App,
    },
    /// Remove an application.
    Remove {
        /// Its name.
        name: String,
    },
    /// What an application reports about itself.
    Report {
        /// Its name.
        name: String,
        /// Its latency.
        latency_ns: Option<u64>,
        /// The number of samples of this latency.
        samples: u64,
        /// Its bandwidth.
        bandwidth_bytes_per_second: Option<u64>,
    },
    /// The machine's thresholds.
    Calibrated {
        /// As measured.
        thresholds: Thresholds,
    },
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// [`VERSION`].
    pub version: u32,
    /// Why it is refused; nothing has changed then.
    pub error: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
    /// The applications, or the one that was asked for.
    #[serde(default)]
    pub applications: Vec<ApplicationStatus>,
    /// Decisions about the application.
    #[serde(default)]
    pub decisions: Vec<DecisionStatus>,
    /// Its profile.
    #[serde(default)]
    pub profile: Vec<ProfilePoint>,
    /// The measurement of its need, if there was one.
    #[serde(default)]
    pub measurement: Option<MeasurementStatus>,
}

impl Verb {
    /// Whether it changes something: then it is for root and the manager's own user.
    pub fn changes(&self) -> bool {
        !matches!(self, Self::List | Self::Explain { .. } | Self::Profile { .. })
    }
}

impl Request {
    /// Reads the text of a request. `trusted`: its sender may change something.
    ///
    /// # Errors
    /// If it is none, of another version, or not allowed.
    pub fn read(text: &str, trusted: bool) -> Result<Self> {
        let request: Self = serde_json::from_str(text).map_err(|error| {
            ErrorWithHint::error(
                format!("this is no request: {error}"),
                "use `tierline qos` of the manager's own version",
            )
        })?;
        if request.version != VERSION {
            return Err(ErrorWithHint::error(
                format!("the request has version {}, expected {VERSION}", request.version),
                "use the manager's own program: /proc/PID/exe qos",
            ));
        }
        if request.verb.changes() && !trusted {
            return Err(ErrorWithHint::error(
                "only root and the manager's own user may change applications",
                "run this with sudo",
            ));
        }
        Ok(request)
    }
}

impl Answer {
    /// The answer to a request that is refused.
    pub fn refused(error: &anyhow::Error) -> Self {
        let (error, hint) = (Some(report_error::text(error)), report_error::hint(error));
        Self { version: VERSION, error, hint, ..Self::default() }
    }

    /// The answer to a change that is made.
    pub fn done() -> Self {
        Self { version: VERSION, ..Self::default() }
    }

    /// The answer of a manager.
    pub fn of(manager: &mut Manager, now: Nanos, verb: &Verb) -> Self {
        let answered = answer(manager, now, verb);
        answered.unwrap_or_else(|error| Self::refused(&error))
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

fn answer(manager: &mut Manager, now: Nanos, verb: &Verb) -> Result<Answer> {
    let mut answer = Answer { version: VERSION, ..Answer::default() };
    match verb {
        Verb::List => answer.applications = manager.applications(),
        Verb::Explain { name } => {
            let (status, decisions) = manager.explain(now, name)?;
            (answer.applications, answer.decisions) = (vec![status], decisions);
        }
        Verb::Profile { name } => {
            answer.profile = manager.profile(name)?;
            answer.measurement = manager.measurement(name)?;
            answer.applications = vec![manager.explain(now, name)?.0];
        }
        Verb::Measure { name } => manager.measure_need(now, name)?,
        Verb::Submit { app } => {
            let submission = app.submission(&manager.applications())?;
            let name = submission.name.clone();
            manager.submit(now, submission)?;
            answer.applications = vec![manager.explain(now, &name)?.0];
        }
        Verb::Set { app } => {
            let name = app.name.clone().unwrap_or_default();
            let mut changed = Ok(());
            manager.set(now, &name, |submission| {
                let mut new = submission.clone();
                changed = app.change(&mut new);
                if changed.is_ok() {
                    *submission = new;
                }
            })?;
            changed?;
            answer.applications = vec![manager.explain(now, &name)?.0];
        }
        Verb::Remove { name } => manager.remove(now, name)?,
        Verb::Report { name, latency_ns, samples, bandwidth_bytes_per_second } => {
            let report = Report {
                latency: latency_ns.map(Nanos),
                samples: *samples,
                bandwidth: bandwidth_bytes_per_second.map(BytesPerSec),
            };
            manager.report(now, name, report)?;
        }
        Verb::Calibrated { thresholds } => manager.calibrate(*thresholds),
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_written_and_others_are_refused() {
        let request = Request { version: VERSION, verb: Verb::Remove { name: "redis".into() } };
        let text = serde_json::to_string(&request).expect("JSON");
        assert_eq!(text, r#"{"version":1,"verb":"remove","name":"redis"}"#);
        assert_eq!(Request::read(&text, true).expect("a request"), request);
        for (text, trusted, part) in [
            (text.as_str(), false, "only root"),
            (r#"{"version":2,"verb":"list"}"#, true, "version 2"),
            (r#"{"version":1,"verb":"destroy"}"#, true, "no request"),
            (r#"{"version":1,"verb":"submit","app":{"prio":1}}"#, true, "no request"),
            ("", true, "no request"),
        ] {
            let error = Request::read(text, trusted).expect_err(text);
            assert!(error.to_string().contains(part), "{text}: {error}");
            assert!(Answer::refused(&error).hint.is_some());
        }
        assert!(Request::read(r#"{"version":1,"verb":"list"}"#, false).is_ok());
    }
}
