// SPDX-License-Identifier: Apache-2.0
//! The deterministic ring: every policy against a small machine, with faults injected.

mod closed_loop;
mod colloid;
mod contract;
mod default_policy;
mod faults;
mod imports;
mod knobs;
mod published;
mod sizes;
mod split;
mod tenants;
mod toy;
mod toy_policy;
mod tpp;
