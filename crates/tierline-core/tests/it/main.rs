// SPDX-License-Identifier: Apache-2.0
//! Deterministic tests: every policy on a small machine, with injected faults.

mod closed_loop;
mod colloid;
mod contract;
mod default_policy;
mod faults;
mod forked;
mod huge;
mod imports;
mod knobs;
mod mixed_sizes;
mod published;
mod qos;
mod sizes;
mod slow_share;
mod split;
mod tenants;
mod toy;
mod toy_policy;
mod tpp;
