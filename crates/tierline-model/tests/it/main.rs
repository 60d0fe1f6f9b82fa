// SPDX-License-Identifier: Apache-2.0
//! The model from outside.
#![forbid(unsafe_code)]

mod baselines;
mod colloid;
mod contract;
mod load;
mod machines;
mod mercury;
mod replay;
mod reproduce;
mod run;
mod tenants;
mod trackers;
mod workloads;
