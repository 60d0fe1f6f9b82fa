// SPDX-License-Identifier: Apache-2.0
//! Tenants of a manager that come and go while it runs.

use tierline_core::qos::application::suits;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use super::Manager;
use crate::error::{Error, Result};
use crate::tenant::{Tenant, id};

impl Manager {
    /// Manages one more tenant: a control group, or the processes that match a rule.
    ///
    /// # Errors
    /// `Error::Refused` if its name is taken, or it has limits that the policy cannot keep; `Error::Input` without such
    /// a control group, or if that is a tenant already. Nothing has changed then.
    pub fn host(&mut self, tenant: Tenant) -> Result<()> {
        if self.tenant_named(&tenant.name).is_some() {
            let hint = "choose another name".into();
            return Err(refused(&tenant.name, "a tenant has this name".into(), hint));
        }
        self.check_limits(&tenant.name, &tenant.limits)?;
        let limits = tenant.limits.clone();
        let at = self.world.host(tenant)?;
        self.set_limits(at, &limits);
        self.due = Nanos::ZERO;
        Ok(())
    }

    /// Removes a tenant, and its application if it is one. Its processes are no longer managed; their pages stay where
    /// they are.
    ///
    /// # Errors
    /// `Error::Refused` if there is none of this name, or if it was chosen at the start by number or as a command.
    pub fn release(&mut self, now: Nanos, name: &str) -> Result<()> {
        let Some(at) = self.tenant_named(name) else {
            let hint = "`tierline status` lists the tenants".into();
            return Err(refused(name, "there is no tenant of this name".into(), hint));
        };
        if self.applications.contains_key(name) {
            self.remove(now, name)?;
        }
        if !self.world.release(at) {
            let hint = "it ends with its processes".into();
            return Err(refused(name, "it was chosen by process number".into(), hint));
        }
        self.engine.forget_tenant(now, id(at));
        self.orders.forget(at);
        self.due = Nanos::ZERO;
        Ok(())
    }

    fn tenant_named(&self, name: &str) -> Option<usize> {
        let named = self.world.tenants().iter().find(|(_, tenant)| tenant.name == name);
        named.map(|(at, _)| at)
    }

    fn check_limits(&self, name: &str, limits: &[Option<Bytes>]) -> Result<()> {
        if limits.iter().all(Option::is_none) || suits(self.engine.policy()).is_ok() {
            return Ok(());
        }
        let why =
            "the kernel moves pages for all programs in the same way, so it cannot have limits";
        Err(refused(name, why.into(), "choose another policy: tierline policies".into()))
    }

    fn set_limits(&mut self, at: usize, limits: &[Option<Bytes>]) {
        for (tier, limit) in (0..).map(TierId).zip(limits) {
            self.engine.limits.set(id(at), tier, *limit);
        }
    }
}

fn refused(name: &str, why: String, hint: String) -> Error {
    Error::Refused { what: format!("tenant {name:?}"), why, hint }
}
