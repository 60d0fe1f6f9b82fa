// SPDX-License-Identifier: Apache-2.0
//! Profiles programs on a modelled machine. Pages stay where they are first placed; accessed bits show which
//! pages were accessed in each interval.

use tierline_core::port::{Observations, World};
use tierline_core::telemetry::profile::Profile;
use tierline_core::unit::Nanos;

use crate::error::Result;
use crate::scenario::Scenario;

/// Profiles the programs of a scenario. Accessed bits are read once per interval, unless the scenario names
/// another tracker.
///
/// # Errors
/// If a part of the scenario is invalid.
pub fn profile(scenario: &Scenario, interval: Nanos) -> Result<Profile> {
    let mut scenario = Scenario { policy: "hold".into(), ..scenario.clone() };
    scenario.tracker.get_or_insert_with(|| "accessed".into());
    scenario.tracker_knobs.window = interval;
    scenario.tracker_knobs.window_period = Nanos::ZERO;
    let mut world = scenario.world()?;
    let step = scenario.interval(&scenario.policy_set()?.wants()).min(interval);
    let (mut profile, mut seen) = (Profile::default(), Observations::default());
    let (mut now, mut over) = (Nanos::ZERO, interval);
    let end = Nanos::from_secs_f64(scenario.seconds);
    while now <= end {
        seen.clear();
        world.observe(now, &mut seen);
        profile.observe(&seen);
        if now >= over {
            profile.end_interval();
            over += interval;
        }
        now = (now + step).min(over.max(now + Nanos(1)));
    }
    Ok(profile)
}
