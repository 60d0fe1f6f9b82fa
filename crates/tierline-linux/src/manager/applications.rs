// SPDX-License-Identifier: Apache-2.0
//! Applications of a manager: control groups with targets and priorities, submitted and removed while it runs.

use serde::{Deserialize, Serialize};
use tierline_core::port::{LatencySource, TenantId, World};
use tierline_core::qos::application::{Application, Refusal, Slo, suits};
use tierline_core::qos::controller::ApplicationReport;
use tierline_core::qos::decision::{Decision, TimedDecision};
use tierline_core::qos::heat_curve::{HeatCurve, TierBytes};
use tierline_core::qos::need::{ApplicationProfile, unloaded_ns};
use tierline_core::qos::thresholds::Thresholds;
use tierline_core::unit::{Bytes, Nanos};

use super::Manager;
use crate::error::{Error, Result};
use crate::tenant::reports::Report;
use crate::tenant::{id, index};

/// The most applications of a manager, and decisions of an explanation. Ours: an answer fits into a socket's buffer.
const MOST: usize = 256;
const MOST_DECISIONS: usize = 256;
/// Parts of a need curve in a profile.
const PARTS: u64 = 8;

/// An application as an operator submits it.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// Its name.
    pub name: String,
    /// Its control group.
    pub cgroup: String,
    /// Its target, if it has one.
    pub slo: Option<Slo>,
    /// Larger is more important. No two applications have the same.
    pub priority: u32,
    /// Its part of what is left for applications without a target.
    pub weight: f64,
    /// Memory that it will use; `None`: what it uses at present.
    pub memory: Option<Bytes>,
    /// Cores that it uses; `None`: measured.
    pub cores: Option<f64>,
}

/// How an application stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApplicationStatus {
    /// Its name.
    pub name: String,
    /// Its control group.
    pub cgroup: String,
    /// Its target.
    pub slo: Option<String>,
    /// Larger is more important.
    pub priority: u32,
    /// Its part of what is left.
    pub weight: f64,
    /// `met`, `missed`, `idle`, `not measured`, or `no target`.
    pub state: String,
    /// The relative error of its target, above 0 if it is missed.
    pub error_share: Option<f64>,
    /// Mean latency of its accesses, or what it reports.
    pub latency_ns: Option<f64>,
    /// Where this latency comes from: `application`, `samples`, or `predicted`.
    pub latency_source: Option<String>,
    /// The number of samples of this latency.
    pub latency_samples: u64,
    /// Bytes read and written per second; `None`: not measured.
    pub bandwidth_bytes_per_second: Option<f64>,
    /// Share of its accesses that slower tiers than the fastest serve; `None`: unknown.
    pub slow_share: Option<f64>,
    /// Memory in each tier, fastest first.
    pub used_bytes: Vec<Bytes>,
    /// Memory that its target needs, by tier.
    pub needed_bytes: Vec<Bytes>,
    /// What is reserved for it.
    pub reserved_bytes: Vec<Bytes>,
    /// What is lent to it.
    pub lent_bytes: Vec<Bytes>,
    /// Fast memory that its target lacks.
    pub short_bytes: Bytes,
    /// Its share of CPU time.
    pub cpu_share: f64,
    /// The application for which it is held back.
    pub held_back_by: Option<String>,
}

/// A decision of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecisionStatus {
    /// Time since it was made.
    pub seconds_ago: f64,
    /// What was decided, as a sentence.
    pub text: String,
}

/// One size of an application's fast memory, and what it can expect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfilePoint {
    /// Its fast memory.
    pub fast_bytes: Bytes,
    /// Share of its accesses that slower tiers serve then.
    pub slow_share: f64,
    /// The predicted mean latency then, without load.
    pub latency_ns: f64,
}

impl Manager {
    /// Admits an application; it competes for memory from the next tick on.
    ///
    /// # Errors
    /// `Error::Refused` if its name or priority is taken, or its target impossible; `Error::Input` without such a
    /// control group; `Error::Missing` without a controller that it needs. Nothing has changed then.
    pub fn submit(&mut self, now: Nanos, submission: Submission) -> Result<()> {
        let name = submission.name.clone();
        if self.applications.contains_key(&name) {
            let hint = format!("change it: tierline qos set {name}; or choose another name");
            return Err(refused(&name, "an application has this name".into(), hint));
        }
        if self.applications.len() >= MOST {
            let hint = "remove another one: tierline qos remove NAME".into();
            return Err(refused(&name, format!("a manager has {MOST} applications at most"), hint));
        }
        suits(self.engine.policy()).map_err(|refusal| self.refusal(&name, refusal))?;
        let is_bandwidth = submission.slo.is_some_and(Slo::is_bandwidth);
        // What can be refused comes first, so that a refused group is not managed.
        let memory = self.world.charged_to(&submission.cgroup)?;
        self.check(&submission, submission.memory.unwrap_or(memory))?;
        let tenant = self.world.host_group(&name, &submission.cgroup, is_bandwidth)?;
        let free = self.applications.iter().all(|(_, (other, _))| *other != tenant);
        if !free || self.has_own_limits(tenant) {
            let why = format!("cgroup {:?} belongs to a tenant already", submission.cgroup);
            let hint = "a cgroup is one application, and has no --limit: tierline qos list";
            return Err(refused(&name, why, hint.into()));
        }
        self.admit(now, tenant, &submission)?;
        self.world.host_application(tenant, &name, submission.cores);
        self.applications.insert(name, (tenant, submission));
        self.due = Nanos::ZERO;
        Ok(())
    }

    /// Changes an application. `change` edits what was submitted, except for its name and control group.
    ///
    /// # Errors
    /// As [`Manager::submit`]; the application stays as it was then.
    pub fn set(
        &mut self,
        now: Nanos,
        name: &str,
        change: impl FnOnce(&mut Submission),
    ) -> Result<()> {
        let (tenant, old) = self.find(name)?;
        let mut new = old.clone();
        change(&mut new);
        (new.name, new.cgroup) = (old.name, old.cgroup);
        if new.slo.is_some_and(Slo::is_bandwidth) {
            self.world.host_group(name, &new.cgroup, true)?;
        }
        self.admit(now, tenant, &new)?;
        self.world.host_application(tenant, name, new.cores);
        self.applications.insert(name.into(), (tenant, new));
        self.due = Nanos::ZERO;
        Ok(())
    }

    /// Removes an application: its limits are lifted. Its processes stay managed, without a target.
    ///
    /// # Errors
    /// `Error::Refused` if there is none of this name.
    pub fn remove(&mut self, now: Nanos, name: &str) -> Result<()> {
        let (tenant, _) = self.find(name)?;
        self.engine.qos.remove(now, id(tenant), &mut self.engine.limits);
        self.world.limit_cpu(id(tenant), 1.0);
        self.world.forget_measurements(tenant);
        self.applications.remove(name);
        self.due = Nanos::ZERO;
        Ok(())
    }

    /// Takes in what an application reports about itself.
    ///
    /// # Errors
    /// `Error::Refused` if there is none of this name.
    pub fn report(&mut self, now: Nanos, name: &str, report: Report) -> Result<()> {
        let (tenant, _) = self.find(name)?;
        self.world.report(now, tenant, report);
        Ok(())
    }

    /// The machine's thresholds, as calibrated.
    pub fn calibrate(&mut self, thresholds: Thresholds) {
        self.engine.qos.thresholds = thresholds;
    }

    /// How all applications stand, in descending priority.
    pub fn applications(&self) -> Vec<ApplicationStatus> {
        let standings = self.engine.qos.reports();
        standings.iter().filter_map(|standing| self.application_status(standing)).collect()
    }

    /// How an application stands, and the last decisions about it, oldest first.
    ///
    /// # Errors
    /// `Error::Refused` if there is none of this name.
    pub fn explain(
        &self,
        now: Nanos,
        name: &str,
    ) -> Result<(ApplicationStatus, Vec<DecisionStatus>)> {
        let (tenant, _) = self.find(name)?;
        let standing = self.standing(tenant);
        let status = standing.and_then(|standing| self.application_status(&standing));
        let about = self.engine.qos.decisions().filter(|entry| entry.decision.concerns(id(tenant)));
        let mut last: Vec<&TimedDecision> = about.collect();
        last.drain(..last.len().saturating_sub(MOST_DECISIONS));
        let decisions = last.into_iter().map(|entry| DecisionStatus {
            seconds_ago: now.saturating_sub(entry.at).as_secs_f64(),
            text: self.sentence(&entry.decision),
        });
        Ok((status.unwrap_or_default(), decisions.collect()))
    }

    /// What an application can expect of each size of its fast memory, from the heat of its pages. No page moves.
    ///
    /// # Errors
    /// `Error::Refused` if there is none of this name.
    pub fn profile(&mut self, name: &str) -> Result<Vec<ProfilePoint>> {
        let (tenant, submission) = self.find(name)?;
        let curve = self.curve(tenant, &submission);
        let (memory, ns) = (curve.memory(), unloaded_ns(self.engine.tiers()));
        let slowest = self.engine.tiers().len().saturating_sub(1);
        let point = |part: u64| {
            let mut placement = TierBytes::default();
            placement[0] = Bytes(memory.0 / PARTS * part);
            placement[slowest] = memory.saturating_sub(placement[0]);
            let slow_share = 1.0 - curve.share(placement[0]);
            let latency_ns = curve.mean_ns(&placement, &ns);
            ProfilePoint { fast_bytes: placement[0], slow_share, latency_ns }
        };
        Ok((0..=PARTS).map(point).collect())
    }

    /// Checks a submission against the other applications and this machine.
    fn check(&self, submission: &Submission, memory: Bytes) -> Result<()> {
        let application = application(TenantId::NOBODY, submission, Bytes::ZERO);
        let others: Vec<Application> =
            self.engine.qos.reports().iter().map(|standing| standing.application).collect();
        let tiers = self.engine.tiers();
        let checked = application.check(&others).and_then(|()| {
            ApplicationProfile::unknown(memory).need(submission.slo, tiers).map(drop)
        });
        checked.map_err(|refusal| self.refusal(&submission.name, refusal))
    }

    fn admit(&mut self, now: Nanos, tenant: usize, submission: &Submission) -> Result<()> {
        let curve = self.curve(tenant, submission);
        let application = application(id(tenant), submission, curve.memory());
        let profile = ApplicationProfile { curve, bandwidth: None };
        let tiers = self.engine.tiers().clone();
        let admitted = self.engine.qos.admit(now, application, &profile, &tiers);
        admitted.map_err(|refusal| self.refusal(&submission.name, refusal))
    }

    /// The need curve of a tenant: from the heat of its pages, if they are known.
    fn curve(&mut self, tenant: usize, submission: &Submission) -> HeatCurve {
        let mut curve = self.engine.heat_curve(id(tenant));
        let known = curve.memory();
        let memory = self.world.charged(tenant).filter(|memory| *memory > Bytes::ZERO);
        let memory = submission.memory.or(memory).unwrap_or(known);
        if known == Bytes::ZERO {
            return HeatCurve::uniform(memory);
        }
        curve.resize(memory);
        curve
    }

    pub(super) fn find(&self, name: &str) -> Result<(usize, Submission)> {
        self.applications.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = self.applications.keys().map(String::as_str).collect();
            let hint = match names.is_empty() {
                true => "submit one: tierline qos submit --help".into(),
                false => format!("there are {}", names.join(", ")),
            };
            refused(name, "there is no application of this name".into(), hint)
        })
    }

    fn has_own_limits(&self, tenant: usize) -> bool {
        let own = self.world.tenants().get(tenant);
        own.is_some_and(|tenant| tenant.limits.iter().any(Option::is_some))
    }

    fn standing(&self, tenant: usize) -> Option<ApplicationReport> {
        self.engine.qos.report(id(tenant))
    }

    fn name_of(&self, tenant: TenantId) -> String {
        let own = index(tenant).and_then(|at| self.world.tenants().get(at));
        own.map_or_else(|| "?".into(), |tenant| tenant.name.clone())
    }

    fn sentence(&self, decision: &Decision) -> String {
        decision.sentence(&|tenant| self.name_of(tenant), self.engine.tiers())
    }

    fn application_status(&self, standing: &ApplicationReport) -> Option<ApplicationStatus> {
        let tenant = index(standing.application.tenant)?;
        let (name, (_, submission)) = self.applications.iter().find(|(_, one)| one.0 == tenant)?;
        let measured = &standing.measured;
        let tiers = self.engine.tiers().len();
        let by_tier = |placement: &TierBytes| placement[..tiers].to_vec();
        let source = measured.latency_source.filter(|_| measured.latency_ns.is_some());
        Some(ApplicationStatus {
            name: name.clone(),
            cgroup: submission.cgroup.clone(),
            slo: standing.application.slo.map(|slo| slo.to_string()),
            priority: standing.application.priority,
            weight: standing.application.weight,
            state: state(standing).into(),
            error_share: standing.error,
            latency_ns: measured.latency_ns,
            latency_source: source.map(source_name).map(String::from),
            latency_samples: measured.latency_samples,
            bandwidth_bytes_per_second: measured
                .bandwidth_is_measured
                .then_some(measured.bytes_per_sec),
            slow_share: measured.knows_shares().then(|| measured.slow_share()),
            used_bytes: by_tier(&measured.used),
            needed_bytes: by_tier(&standing.need.placement),
            reserved_bytes: by_tier(&standing.grant.reserved),
            lent_bytes: by_tier(&standing.grant.lent),
            short_bytes: standing.grant.short,
            cpu_share: standing.cpu_share,
            held_back_by: standing.squeeze.by.map(|by| self.name_of(by)),
        })
    }

    pub(super) fn refusal(&self, name: &str, refusal: Refusal) -> Error {
        let (why, hint) = match refusal {
            Refusal::Priority { priority, holder } => (
                format!("priority {priority} belongs to {}", self.name_of(holder)),
                "priorities are unique: choose another one".to_string(),
            ),
            Refusal::Impossible { slo, best } => (
                format!("{slo} cannot be met on this machine: {best} at best"),
                "relax the target".to_string(),
            ),
            Refusal::Number { what, found } => {
                (format!("{what} is {found}"), "give a number above 0".to_string())
            }
            Refusal::NoTarget => (
                "it has no target, so there is no need to measure".to_string(),
                format!("give it one: tierline qos set {name} --slo 5%"),
            ),
            Refusal::Measuring(other) => (
                format!("the need of {} is being measured", self.name_of(other)),
                "wait for its end: a minute or two".to_string(),
            ),
            Refusal::KernelMoves(policy) => (
                format!(
                    "policy {policy} leaves moving to the kernel, which knows no limits of tenants"
                ),
                "start the manager with a policy that moves pages itself, as in --policy tierline"
                    .to_string(),
            ),
        };
        refused(name, why, hint)
    }
}

fn application(tenant: TenantId, submission: &Submission, memory: Bytes) -> Application {
    let Submission { slo, priority, weight, cores, .. } = *submission;
    Application { tenant, slo, priority, weight, cores: cores.unwrap_or(1.0), memory }
}

fn state(standing: &ApplicationReport) -> &'static str {
    match (standing.application.slo, standing.error) {
        (None, _) => "no target",
        (Some(_), Some(error)) if error > 0.01 => "missed",
        (Some(_), Some(_)) => "met",
        (Some(_), None) if !standing.measured.demand => "idle",
        (Some(_), None) => "not measured",
    }
}

fn source_name(source: LatencySource) -> &'static str {
    match source {
        LatencySource::Model => "model",
        LatencySource::Application => "application",
        LatencySource::Samples => "samples",
        LatencySource::Cycles => "cycles",
        LatencySource::Predicted => "predicted",
    }
}

fn refused(name: &str, why: String, hint: String) -> Error {
    Error::Refused { what: format!("application {name:?}"), why, hint }
}
