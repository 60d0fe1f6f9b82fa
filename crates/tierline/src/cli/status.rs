// SPDX-License-Identifier: Apache-2.0
//! `tierline status`: queries the running managers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Globals;
use crate::api::client;
use crate::config::Layer;
use crate::config::file::ConfigSources;
use crate::openmetrics;
use crate::print::{self, SCHEMA_VERSION};
use crate::report_error::ErrorWithHint;
use crate::serve;
use crate::status::Status;

/// Show the state of running managers
///
/// Queries the daemon, and every other manager, through their sockets in the state folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
  \x20 tierline status --json\n\
  \x20 tierline status --metrics >/var/lib/node_exporter/tierline.prom")]
pub struct StatusArgs {
    /// Folder of the sockets [default: /run/tierline]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print the metrics in the OpenMetrics text format, for Prometheus
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
    #[command(flatten)]
    sources: ConfigSources,
}

#[derive(Serialize)]
struct Answer {
    managers: Vec<Value>,
}

impl StatusArgs {
    /// Runs the verb.
    pub fn run(&self, globals: &Globals) -> Result<u8> {
        let flags = Layer { state_dir: self.state_dir.clone(), ..Layer::default() };
        let layer = self.sources.stack(&globals.root(), flags)?.flatten();
        let dir = layer.options(false)?.0.state_dir;
        let mut answers = Vec::new();
        let daemon = match client::socket(&dir)? {
            Some(socket) => self.daemon(&socket)?,
            None => None,
        };
        let asked = daemon.as_ref().map(|(pid, _)| *pid);
        answers.extend(daemon);
        for (pid, file) in serve::sockets(&dir)?.into_iter().filter(|one| Some(one.0) != asked) {
            let answer = serve::ask(&file).map_err(|error| unheard(pid, &error))?;
            answers.extend(answer.map(|text| (pid, text)));
        }
        if globals.json {
            let managers = answers.iter().map(|(_, text)| serde_json::from_str(text));
            print::json(&Answer { managers: managers.collect::<Result<_, _>>()? })?;
            return Ok(0);
        }
        let managers = answers.iter().map(|(pid, text)| read(*pid, text));
        let managers = managers.collect::<Result<Vec<Status>>>()?;
        if self.metrics {
            print::out(&openmetrics::text(managers)?)?;
        } else if managers.is_empty() {
            print::out("no manager is running\n")?;
        } else {
            let texts: Vec<String> = managers.iter().map(Status::text).collect();
            print::out(&print::plain(&texts.join("\n")))?;
        }
        Ok(0)
    }
}

impl StatusArgs {
    /// The answer of a daemon; `None` if none listens.
    fn daemon(&self, socket: &Path) -> Result<Option<(u32, String)>> {
        #[derive(Deserialize)]
        struct Pid {
            pid: u32,
        }
        let answer = client::get(socket, "/v1/status").map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "run this as root, or as a member of its group"
                }
                _ => "it may be busy: try again",
            };
            ErrorWithHint::error(
                format!("cannot query the daemon through {}: {error}", socket.display()),
                hint,
            )
        })?;
        let read = |text: String| Ok((serde_json::from_str::<Pid>(&text)?.pid, text));
        answer.map(read).transpose()
    }
}

fn unheard(pid: u32, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "run this as the manager's user or group, or as root"
        }
        _ => "it may be busy: try again",
    };
    ErrorWithHint::error(format!("cannot query the manager, process {pid}: {error}"), hint)
}

/// Parses a manager's answer.
fn read(pid: u32, text: &str) -> Result<Status> {
    let odd = |error: serde_json::Error| {
        ErrorWithHint::error(
            format!(
                "the manager, process {pid}, sent an answer that this tierline cannot read: {error}"
            ),
            own(pid),
        )
    };
    let answer: Value = serde_json::from_str(text).map_err(odd)?;
    match answer["schema_version"].as_u64() {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {
            Status::deserialize(answer).map_err(odd)
        }
        version => {
            let found = version.map_or("none".into(), |version| version.to_string());
            let text = format!(
                "the manager, process {pid}, has another version: found schema_version {found}, expected \
                 {SCHEMA_VERSION}"
            );
            Err(ErrorWithHint::error(text, own(pid)))
        }
    }
}

/// The next step if versions differ.
fn own(pid: u32) -> String {
    format!(
        "use the manager's own program: /proc/{pid}/exe status, or print the raw answer: --json"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_error;

    #[test]
    fn an_answer_of_another_version_is_refused_with_a_next_step() {
        let status = Status { schema_version: SCHEMA_VERSION, pid: 7, ..Status::default() };
        assert_eq!(read(7, &status.json()).expect("ours").pid, 7);
        for (odd, found) in [
            (r#"{"schema_version": 1}"#, "found schema_version 1"),
            ("{}", "found schema_version none"),
            ("{", "cannot read"),
        ] {
            let error = read(7, odd).expect_err(odd);
            assert!(error.to_string().contains(found), "{error}");
            assert!(report_error::hint(&error).is_some_and(|hint| hint.contains("/proc/7/exe")));
        }
    }
}
