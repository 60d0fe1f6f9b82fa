// SPDX-License-Identifier: Apache-2.0
//! Tests of the model's public interface.
#![forbid(unsafe_code)]

mod baselines;
mod bound;
mod colloid;
mod contract;
mod day;
mod load;
mod machines;
mod mercury;
mod qos;
mod replay;
mod reproduce;
mod run;
mod stalls;
mod tenants;
mod trackers;
mod workloads;
