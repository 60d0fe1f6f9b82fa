// SPDX-License-Identifier: Apache-2.0
//! Applications: tenants with a service-level objective (SLO), a priority and a weight.
//!
//! A latency-sensitive (LS) application has a latency target, a bandwidth-intensive (BI) one a bandwidth target
//! (Mercury, 3.2). An application without an SLO takes what is left. Priorities are unique (Mercury, 3.1). The
//! target in slow accesses is ours: every tracker can measure it, also where no counter measures latency.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::policy::interface::Policy;
use crate::port::TenantId;
use crate::unit::{Bytes, BytesPerSec, Nanos};

/// What an application needs of memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Slo {
    /// LS: the mean latency of an access that misses the caches, at most. Not the latency of a request.
    #[serde(rename = "latency_ns")]
    Latency(Nanos),
    /// LS: the share of accesses that slower tiers than the fastest serve, at most.
    SlowShare(f64),
    /// BI: bytes read and written per second, at least.
    #[serde(rename = "bandwidth_bytes_per_second")]
    Bandwidth(BytesPerSec),
}

impl Slo {
    /// Whether it is a bandwidth target: only such applications may be throttled.
    pub fn is_bandwidth(self) -> bool {
        matches!(self, Self::Bandwidth(_))
    }
}

impl fmt::Display for Slo {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(at_most) => write!(f, "{at_most}"),
            Self::SlowShare(at_most) => write!(f, "{:.1} % slow accesses", at_most * 100.0),
            Self::Bandwidth(at_least) => write!(f, "{:.1} GB/s", at_least.0 as f64 * 1e-9),
        }
    }
}

impl FromStr for Slo {
    type Err = String;

    /// A latency (`200ns`), a bandwidth (`70GB/s`) or a share of slow accesses (`5%`, `slow-share=5%`).
    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix("slow-share=");
        let percent = bare.unwrap_or(text).strip_suffix('%');
        let share = percent.and_then(|percent| percent.trim().parse::<f64>().ok());
        let share = share.filter(|percent| (0.0..=100.0).contains(percent));
        let share = share.map(|percent| Self::SlowShare(percent / 100.0));
        let latency = || text.parse().ok().map(Self::Latency);
        let bandwidth = || text.parse().ok().map(Self::Bandwidth);
        share.or_else(latency).or_else(bandwidth).ok_or_else(|| {
            format!(
                "{text:?} is no target: write a latency (200ns), a bandwidth (70GB/s) or a share of slow accesses (5%)"
            )
        })
    }
}

/// A tenant as an operator submits it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Application {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its SLO, if it has one.
    pub slo: Option<Slo>,
    /// Larger is more important. No two applications have the same.
    pub priority: u32,
    /// Its part of what is left for applications without an SLO.
    pub weight: f64,
    /// Cores that it uses.
    pub cores: f64,
    /// Memory that it will use, as submitted; once it runs, the measured size counts.
    pub memory: Bytes,
}

impl Application {
    /// Whether it is bandwidth-intensive.
    pub fn is_bandwidth(&self) -> bool {
        self.slo.is_some_and(Slo::is_bandwidth)
    }
}

/// Why an application is refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Another application has this priority.
    #[error(
        "priority {priority} belongs to {holder} already; priorities are unique, so choose another one"
    )]
    Priority {
        /// The priority.
        priority: u32,
        /// The application that has it.
        holder: TenantId,
    },
    /// The target cannot be met, whatever memory the application gets.
    #[error(
        "{slo} cannot be met on this machine: {best} at best; relax the target or use a faster machine"
    )]
    Impossible {
        /// The target.
        slo: Slo,
        /// The best possible value.
        best: Slo,
    },
    /// A number is not positive, or not finite.
    #[error("{what} is {found}; give a number above 0")]
    Number {
        /// What it is.
        what: &'static str,
        /// The number.
        found: f64,
    },
    /// Without a target there is no need to measure.
    #[error(
        "an application without a target has no need to measure; give it one, as in --slo 200ns"
    )]
    NoTarget,
    /// One need is measured at a time.
    #[error("the need of {0} is being measured; wait for its end")]
    Measuring(TenantId),
    /// The policy moves nothing itself, so limits cannot be enforced.
    #[error(
        "policy {0} leaves moving to the kernel, which knows no limits of tenants; choose a policy that moves pages itself, for example tierline"
    )]
    KernelMoves(&'static str),
}

/// Checks that limits can be enforced under a policy: it must not leave moving to the kernel.
///
/// # Errors
/// [`Refusal::KernelMoves`].
pub fn suits(policy: &dyn Policy) -> Result<(), Refusal> {
    policy.kernel().map_or(Ok(()), |_| Err(Refusal::KernelMoves(policy.name())))
}

impl Application {
    /// Checks its numbers, and its priority against those of `others`.
    ///
    /// # Errors
    /// [`Refusal::Number`] or [`Refusal::Priority`].
    pub fn check<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> Result<(), Refusal> {
        #[expect(clippy::cast_precision_loss, reason = "only compared with zero")]
        let target = match self.slo {
            Some(Slo::Latency(at_most)) => at_most.0 as f64,
            Some(Slo::Bandwidth(at_least)) => at_least.0 as f64,
            Some(Slo::SlowShare(at_most)) => at_most + f64::MIN_POSITIVE, // 0 is a valid share
            None => 1.0,
        };
        for (what, found) in [("the target", target), ("the weight", self.weight)] {
            if !(found > 0.0 && found.is_finite()) {
                return Err(Refusal::Number { what, found });
            }
        }
        let same = |other: &&Self| other.tenant != self.tenant && other.priority == self.priority;
        let holder = others.into_iter().find(same);
        holder.map_or(Ok(()), |holder| {
            Err(Refusal::Priority { priority: self.priority, holder: holder.tenant })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{hold::Hold, kernel::KernelKnobs};

    fn application(tenant: u16, priority: u32) -> Application {
        let slo = Some(Slo::Latency(Nanos(200)));
        let tenant = TenantId(tenant);
        Application { tenant, slo, priority, weight: 1.0, cores: 1.0, memory: Bytes(1 << 30) }
    }

    #[test]
    fn a_priority_belongs_to_one_application() {
        let first = application(1, 7);
        assert_eq!(application(2, 8).check(&[first]), Ok(()));
        assert_eq!(first.check(&[first]), Ok(()), "it may be set again");
        let error = application(2, 7).check(&[first]).unwrap_err();
        assert_eq!(error, Refusal::Priority { priority: 7, holder: TenantId(1) });
        assert!(error.to_string().contains("choose another"), "{error}");
    }

    #[test]
    fn targets_and_weights_are_positive() {
        let slos = [Slo::Latency(Nanos(0)), Slo::Bandwidth(BytesPerSec(0)), Slo::SlowShare(-0.1)];
        for slo in slos {
            let wrong = Application { slo: Some(slo), ..application(1, 1) };
            assert!(matches!(wrong.check(&[]), Err(Refusal::Number { what: "the target", .. })));
        }
        let all_fast = Application { slo: Some(Slo::SlowShare(0.0)), ..application(1, 1) };
        assert_eq!(all_fast.check(&[]), Ok(()));
        for weight in [0.0, f64::NAN, f64::INFINITY] {
            let wrong = Application { weight, ..application(1, 1) };
            assert!(matches!(wrong.check(&[]), Err(Refusal::Number { what: "the weight", .. })));
        }
    }

    #[test]
    fn targets_are_read_as_users_write_them() {
        assert_eq!("200ns".parse(), Ok(Slo::Latency(Nanos(200))));
        assert_eq!("70GB/s".parse(), Ok(Slo::Bandwidth(BytesPerSec(70 << 30))));
        assert_eq!("5%".parse(), Ok(Slo::SlowShare(0.05)));
        assert_eq!("slow-share=5%".parse(), Ok(Slo::SlowShare(0.05)));
        for wrong in ["200", "slow-share=200ns", "101%", "-1%", "NaN%", "", "70GB"] {
            let error = wrong.parse::<Slo>().unwrap_err();
            assert!(error.contains("70GB/s") && error.contains(&format!("{wrong:?}")), "{error}");
        }
    }

    #[test]
    fn a_policy_that_leaves_moving_to_the_kernel_is_refused_with_a_hint() {
        assert_eq!(suits(&Hold), Ok(()));
        let error = suits(&KernelKnobs::default()).unwrap_err().to_string();
        assert!(error.contains("kernel") && error.contains("tierline"), "{error}");
    }
}
