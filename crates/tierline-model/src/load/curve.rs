// SPDX-License-Identifier: Apache-2.0
//! Loaded latency: `L(u) = L0 + a·u + q·u²/(1−u)` at utilisation `u` of the tier's capacity.
//!
//! With `a = q` this is `L0 + q·u/(1−u)`: a service time and a queue. Links have a sharper knee: a small `q`
//! and a larger `a`. The form fits 14 published families of loaded-latency curves with a mean error of 1.0 to
//! 3.4 % per family (Mess, PROFET: DDR4, DDR5, HBM2e, LPDDR5, UPI and CXL).
//!
//! Solvers use the backlog `y = u/(1−u)`, in which the curve is nearly a straight line: `u²/(1−u) = y − u`, so
//! `L = L0 + (a−q)·u + q·y`.

/// The latency of a tier as a function of utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Curve {
    /// `L0`: latency of a read on an idle machine, ns.
    pub unloaded_ns: f64,
    /// `a`: ns added in proportion to utilisation.
    pub linear_ns: f64,
    /// `q`: ns added by queueing.
    pub queue_ns: f64,
}

impl Curve {
    /// A curve with `a = q`: memory behind its own controller.
    pub const fn one_slope(unloaded_ns: f64, queue_ns: f64) -> Self {
        Self { unloaded_ns, linear_ns: queue_ns, queue_ns }
    }

    /// Latency at a utilisation below 1.
    pub fn at(&self, utilisation: f64) -> f64 {
        let queue = utilisation * utilisation / (1.0 - utilisation);
        self.unloaded_ns + self.linear_ns * utilisation + self.queue_ns * queue
    }

    /// Latency at a backlog, and its derivative.
    pub(super) fn at_backlog(&self, backlog: f64) -> (f64, f64) {
        let share = 1.0 / (1.0 + backlog); // 1 − u
        let bend = self.linear_ns - self.queue_ns;
        let latency = self.unloaded_ns + bend * backlog * share + self.queue_ns * backlog;
        (latency, bend * share * share + self.queue_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn backlog_and_utilisation_give_the_same_latency(
            a in 0.0f64..100.0, q in 0.0f64..100.0, u in 0.0f64..0.999,
        ) {
            let curve = Curve { unloaded_ns: 65.0, linear_ns: a, queue_ns: q };
            let (latency, slope) = curve.at_backlog(u / (1.0 - u));
            prop_assert!((latency / curve.at(u) - 1.0).abs() < 1e-9);
            prop_assert!(slope >= 0.0, "latency never falls with the backlog");
        }
    }
}
