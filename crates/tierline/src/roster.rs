// SPDX-License-Identifier: Apache-2.0
//! The tenants that a daemon should have: those of its files, and those that were requested. A tenant that cannot be
//! managed yet, as its service does not run, is tried again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tierline_core::unit::Nanos;
use tierline_linux::manager::Manager;
use tierline_linux::root::Root;
use tierline_linux::state_dir::StateDir;

use crate::apps::{self, App};
use crate::print::Messages;
use crate::report_error::{self, ErrorWithHint};

/// Time between two tries of those that wait.
const TRY_EVERY: Nanos = Nanos::from_secs(2);
/// The most tenants.
const MOST: usize = 256;
/// Requested tenants, for the next start; and their draft.
const KEPT: [&str; 2] = ["tenants.json", "tenants.new"];

/// The tenants of a daemon.
pub struct Roster {
    root: Root,
    folder: PathBuf,
    state_dir: PathBuf,
    messages: Messages,
    members: BTreeMap<String, Member>,
    tried: Option<Nanos>,
}

/// A tenant that a daemon should have.
struct Member {
    app: App,
    origin: Origin,
    /// Why it is not managed at present; `None`: it is.
    waits: Option<String>,
}

/// Who wants a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A file of the folder.
    File,
    /// A request.
    Request,
}

/// How a tenant stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// What was written.
    pub app: App,
    /// Who wrote it.
    pub origin: Origin,
    /// Why it is not managed at present.
    pub waits: Option<String>,
}

impl Roster {
    /// The tenants of the files in `folder`, and those requested before the last stop.
    ///
    /// # Errors
    /// The first file that cannot be read. Without the folder there are no files.
    pub fn new(
        root: &Root,
        folder: PathBuf,
        state_dir: PathBuf,
        messages: Messages,
    ) -> Result<Self> {
        let mut roster = Self {
            root: root.clone(),
            folder,
            state_dir,
            messages,
            members: BTreeMap::new(),
            tried: None,
        };
        let new = |app, origin| Member { app, origin, waits: Some("not tried yet".into()) };
        match roster.kept() {
            Ok(apps) => {
                for app in apps {
                    roster.members.insert(name(&app), new(app, Origin::Request));
                }
            }
            Err(error) => report_error::tell(&error, messages),
        }
        for app in roster.files()? {
            roster.members.insert(name(&app), new(app, Origin::File));
        }
        Ok(roster)
    }

    fn files(&self) -> Result<Vec<App>> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let apps = apps::folder(&self.folder)?;
        for (at, app) in apps.iter().enumerate() {
            if apps[..at].iter().any(|other| other.name == app.name) {
                return Err(ErrorWithHint::error(
                    format!("{}: two files name {:?}", self.folder.display(), name(app)),
                    "give one of them another name",
                ));
            }
        }
        Ok(apps)
    }

    /// Tries to manage those that wait, and drops those that have ended, if that is due. True if a tenant came or went.
    pub fn settle(&mut self, manager: &mut Manager, now: Nanos) -> bool {
        if self.tried.is_some_and(|at| now < at + TRY_EVERY) {
            return false;
        }
        self.tried = Some(now);
        let mut is_changed = self.drop_ended(manager, now);
        for member in self.members.values_mut() {
            let Some(before) = member.waits.take() else { continue };
            let Err(error) = member.app.host(manager, &self.root, now) else {
                is_changed = true;
                continue;
            };
            let why = report_error::text(&error);
            if why != before {
                self.messages.print(&format!("waiting: {why}"));
            }
            member.waits = Some(why);
        }
        is_changed
    }

    /// Removes requested tenants whose processes have ended: who requested them may be gone as well. True if there was one.
    fn drop_ended(&mut self, manager: &mut Manager, now: Nanos) -> bool {
        let has_ended = |member: &Member| {
            let matches = member.app.matches.as_ref();
            member.origin == Origin::Request && matches.is_some_and(|one| one.has_ended(&self.root))
        };
        let ended = self.members.iter().filter(|(_, member)| has_ended(member));
        let ended: Vec<String> = ended.map(|(name, _)| name.clone()).collect();
        for name in &ended {
            self.drop_member(manager, now, name);
        }
        if !ended.is_empty() {
            self.keep();
        }
        !ended.is_empty()
    }

    /// Reads the files again. One that cannot be used is reported, and all tenants stay as they are.
    pub fn reload(&mut self, manager: &mut Manager, now: Nanos) {
        let apps = match self.files() {
            Ok(apps) => apps,
            Err(error) => {
                self.messages.print("the files are not used, the old ones stay in force:");
                return report_error::tell(&error, self.messages);
            }
        };
        let mut new: BTreeMap<String, App> =
            apps.into_iter().map(|app| (name(&app), app)).collect();
        let is_old = |name: &String, member: &Member| match new.get(name) {
            Some(app) => *app != member.app || member.origin != Origin::File,
            None => member.origin == Origin::File,
        };
        let old: Vec<String> = self
            .members
            .iter()
            .filter(|(name, member)| is_old(name, member))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &old {
            let app = new.get(name).filter(|app| self.retarget(manager, now, name, app));
            if app.is_none() {
                self.drop_member(manager, now, name);
            }
        }
        new.retain(|name, _| !self.members.contains_key(name));
        let (removed, added) = (old.len(), new.len());
        for (name, app) in new {
            let member = Member { app, origin: Origin::File, waits: Some(String::new()) };
            self.members.insert(name, member);
        }
        self.tried = None;
        self.settle(manager, now);
        self.keep();
        self.messages.print(&format!(
            "read {}: {removed} tenants removed or changed, {added} added, {} in all",
            self.folder.display(),
            self.members.len()
        ));
    }

    /// Adds a requested tenant.
    ///
    /// # Errors
    /// If its name is taken, or it cannot be managed now. Nothing has changed then.
    pub fn add(&mut self, manager: &mut Manager, now: Nanos, app: &App) -> Result<()> {
        let name = name(app);
        if self.members.contains_key(&name) {
            return Err(ErrorWithHint::error(
                format!("there is a tenant {name:?} already"),
                "remove it first, or choose another name",
            ));
        }
        if self.members.len() >= MOST {
            return Err(ErrorWithHint::error(
                format!("a daemon has {MOST} tenants at most"),
                "remove another one",
            ));
        }
        app.host(manager, &self.root, now)?;
        let member = Member { app: app.clone(), origin: Origin::Request, waits: None };
        self.members.insert(name, member);
        self.keep();
        Ok(())
    }

    /// Removes a requested tenant.
    ///
    /// # Errors
    /// If there is none of this name, or a file has it.
    pub fn remove(&mut self, manager: &mut Manager, now: Nanos, name: &str) -> Result<()> {
        let Some(member) = self.members.get(name) else {
            return Err(ErrorWithHint::error(
                format!("there is no tenant {name:?}"),
                "`tierline status` lists them",
            ));
        };
        if member.origin == Origin::File {
            return Err(ErrorWithHint::error(
                format!("tenant {name:?} is in a file of {}", self.folder.display()),
                "remove the file, and reload: systemctl reload tierline",
            ));
        }
        self.drop_member(manager, now, name);
        self.keep();
        Ok(())
    }

    /// Changes the target of a tenant until its file is read again, or for good if it was requested.
    pub fn changed(&mut self, app: &App) {
        let Some(member) = self.members.get_mut(&name(app)) else { return };
        if member.origin == Origin::Request {
            member.app.change_by(app);
            self.keep();
        }
    }

    /// How all tenants stand, by name.
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |member: &Member| Standing {
            app: member.app.clone(),
            origin: member.origin,
            waits: member.waits.clone(),
        };
        self.members.values().map(standing).collect()
    }

    /// Changes the target of an application, if nothing else changes: what is known of its pages stays known.
    fn retarget(&mut self, manager: &mut Manager, now: Nanos, name: &str, app: &App) -> bool {
        let Some(member) = self.members.get_mut(name) else { return false };
        let is_alike = member.waits.is_none() && member.app.has_same_place(app);
        let mut changed = Ok(());
        let is_done = is_alike
            && manager
                .set(now, name, |submission| {
                    changed = app.replace(submission);
                })
                .is_ok()
            && changed.is_ok();
        if is_done {
            (member.app, member.origin) = (app.clone(), Origin::File);
        }
        is_done
    }

    fn drop_member(&mut self, manager: &mut Manager, now: Nanos, name: &str) {
        let is_hosted = self.members.remove(name).is_some_and(|member| member.waits.is_none());
        if is_hosted && let Err(error) = manager.release(now, name) {
            report_error::tell(&error.into(), self.messages);
        }
    }

    fn kept(&self) -> Result<Vec<App>> {
        let dir = StateDir::create(&self.state_dir)?;
        let Some(bytes) = dir.read(KEPT[0])? else { return Ok(Vec::new()) };
        serde_json::from_slice(&bytes).map_err(|error| {
            ErrorWithHint::error(
                format!("cannot read {}: {error}", dir.path(KEPT[0]).display()),
                "requested tenants are lost: request them again",
            )
        })
    }

    /// Keeps the requested tenants for the next start.
    fn keep(&self) {
        let requested = self.members.values().filter(|member| member.origin == Origin::Request);
        let apps: Vec<&App> = requested.map(|member| &member.app).collect();
        let bytes = serde_json::to_vec(&apps).unwrap_or_default();
        let written = StateDir::create(&self.state_dir).and_then(|dir| match apps.is_empty() {
            true => dir.remove(KEPT[0]),
            false => dir.replace(KEPT[0], KEPT[1], &bytes),
        });
        if let Err(error) = written {
            self.messages.print("requested tenants will be lost at the next start:");
            report_error::tell(&error.into(), self.messages);
        }
    }
}

fn name(app: &App) -> String {
    app.name.clone().unwrap_or_default()
}
