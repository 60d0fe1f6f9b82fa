// SPDX-License-Identifier: Apache-2.0
//! What was decided, when, and for whom: the source of `tierline qos explain`.

use std::collections::VecDeque;

use serde::Serialize;

use super::allocation::Transfer;
use super::measurement::Finding;
use crate::port::TenantId;
use crate::tier::{TierId, Tiers};
use crate::unit::{Bytes, Nanos};

/// Decisions kept. Ours: about a day of a settled machine.
const KEPT: usize = 4096;

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum Decision {
    /// An application was admitted.
    Admitted {
        /// The application.
        tenant: TenantId,
    },
    /// An application ended or was removed.
    Removed {
        /// The application.
        tenant: TenantId,
    },
    /// Memory of a tier changes hands.
    Memory {
        /// The tier.
        tier: TierId,
        /// Who gives it to whom.
        #[serde(flatten)]
        transfer: Transfer,
    },
    /// An application's CPU time changes.
    Cpu {
        /// The application.
        tenant: TenantId,
        /// Share of its CPU time from now on.
        share: f64,
        /// The application for which it is held back; `None`: it is released, or needs no more.
        by: Option<TenantId>,
    },
    /// A measurement of what an application needs has ended.
    Measured {
        /// The application.
        tenant: TenantId,
        /// What it found.
        finding: Finding,
    },
    /// An application's traffic must leave the fastest tier, or may return.
    FastCap {
        /// The application.
        tenant: TenantId,
        /// Upper limit on its fast memory; `None`: none.
        #[serde(rename = "fast_cap_bytes")]
        cap: Option<Bytes>,
        /// The application for which it is held back.
        by: Option<TenantId>,
    },
}

impl Decision {
    /// It as a sentence, with the names of tenants and tiers.
    pub fn sentence(&self, name: &dyn Fn(TenantId) -> String, tiers: &Tiers) -> String {
        let of = |tenant: Option<TenantId>| tenant.map_or("free memory".into(), name);
        let held_by =
            |by: Option<TenantId>| by.map_or(String::new(), |by| format!(", for {}", name(by)));
        match *self {
            Self::Admitted { tenant } => format!("{} is admitted", name(tenant)),
            Self::Removed { tenant } => format!("{} is removed", name(tenant)),
            Self::Memory { tier, transfer: Transfer { from, to, bytes } } => {
                format!("{bytes} of {} go from {} to {}", tiers[tier].name, of(from), of(to))
            }
            Self::Cpu { tenant, share, by } => {
                let percent = share * 100.0;
                format!("{} gets {percent:.0} % of its CPU time{}", name(tenant), held_by(by))
            }
            Self::Measured { tenant, finding } => {
                format!("measured: {}", finding.sentence(&name(tenant)))
            }
            Self::FastCap { tenant, cap: Some(cap), by } => {
                format!("{} may use {cap} of fast memory at most{}", name(tenant), held_by(by))
            }
            Self::FastCap { tenant, cap: None, .. } => {
                format!("{} may use as much fast memory as it needs", name(tenant))
            }
        }
    }

    /// Whether it is about this application, as the one that gives or gets.
    pub fn concerns(&self, one: TenantId) -> bool {
        match *self {
            Self::Admitted { tenant }
            | Self::Removed { tenant }
            | Self::Measured { tenant, .. } => tenant == one,
            Self::Memory { transfer, .. } => [transfer.from, transfer.to].contains(&Some(one)),
            Self::Cpu { tenant, by, .. } | Self::FastCap { tenant, by, .. } => {
                tenant == one || by == Some(one)
            }
        }
    }
}

/// A decision with its time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimedDecision {
    /// When.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// What.
    #[serde(flatten)]
    pub decision: Decision,
}

/// The last decisions, oldest first.
#[derive(Clone, Debug, Default)]
pub struct DecisionLog(VecDeque<TimedDecision>);

impl DecisionLog {
    /// Records a decision.
    pub fn record(&mut self, at: Nanos, decision: Decision) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(TimedDecision { at, decision });
    }

    /// The last decisions, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &TimedDecision> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_decisions_are_kept_and_found_by_either_side() {
        let mut journal = DecisionLog::default();
        let (giver, getter) = (TenantId(1), TenantId(2));
        for second in 0..5_000 {
            journal.record(Nanos::from_secs(second), Decision::Admitted { tenant: TenantId(3) });
        }
        let transfer = Transfer { from: Some(giver), to: Some(getter), bytes: Bytes(1) };
        journal.record(Nanos::from_secs(9), Decision::Memory { tier: TierId::FAST, transfer });
        assert_eq!(journal.entries().count(), KEPT);
        let about = |tenant| journal.entries().filter(|e| e.decision.concerns(tenant)).count();
        assert_eq!((about(giver), about(getter), about(TenantId(4))), (1, 1, 0));
        let cpu = Decision::Cpu { tenant: giver, share: 0.5, by: Some(getter) };
        assert!(cpu.concerns(giver) && cpu.concerns(getter) && !cpu.concerns(TenantId(3)));
    }
}
