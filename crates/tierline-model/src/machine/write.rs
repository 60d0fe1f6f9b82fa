// SPDX-License-Identifier: Apache-2.0
//! Writes a machine file from fitted tiers, with the cores of the default machine.

use super::file::{CoreFile, Figure, FullDuplexFile, HalfDuplexFile, MachineFile, Size, TierFile};
use super::fit::Fit;
use super::list::MACHINES;
use crate::error::Result;
use crate::load::Capacity;

impl MachineFile {
    /// A machine with these tiers, fastest first; `source` is stated for each fitted figure.
    ///
    /// # Errors
    /// Only those of the embedded default machine, which provides the cores.
    pub fn fitted_to(about: &str, source: &str, fits: &[Fit]) -> Result<Self> {
        let cores = MACHINES[0].file()?.core;
        let borrowed = |figure: Figure| Figure {
            source: format!("as {}; measure yours", MACHINES[0].name),
            fitted: Vec::new(),
            ..figure
        };
        let path_ns = Figure { value: 0.0, ..borrowed(cores.path_ns) };
        Ok(Self {
            about: about.into(),
            core: CoreFile {
                count: borrowed(cores.count),
                path_ns,
                in_flight_random: borrowed(cores.in_flight_random),
                in_flight_stream: borrowed(cores.in_flight_stream),
                stream_think_ns: borrowed(cores.stream_think_ns),
                prefetch_gain: borrowed(cores.prefetch_gain),
            },
            shared_queue: None,
            neoprof: None,
            tier: fits.iter().map(|fit| tier(fit, source)).collect(),
            costs: None,
        })
    }
}

fn tier(fit: &Fit, source: &str) -> TierFile {
    let figure = |value: f64| Figure { value, source: source.into(), fitted: Vec::new() };
    let queue = fit.tier.queue;
    let (half_duplex, full_duplex) = match queue.capacity {
        Capacity::HalfDuplex { read, write, .. } => {
            let even_gb_per_s = figure(queue.capacity.gb_per_s(0.5));
            let (read_gb_per_s, write_gb_per_s) = (figure(read), figure(write));
            (Some(HalfDuplexFile { read_gb_per_s, write_gb_per_s, even_gb_per_s }), None)
        }
        Capacity::FullDuplex { direction, total } => {
            let (direction_gb_per_s, total_gb_per_s) = (figure(direction), figure(total));
            (None, Some(FullDuplexFile { direction_gb_per_s, total_gb_per_s }))
        }
    };
    TierFile {
        name: fit.tier.name.clone(),
        capacity: Size {
            value: format!("{}MiB", fit.tier.capacity.0 >> 20),
            source: "given with the table".into(),
        },
        unloaded_ns: figure(queue.curve.unloaded_ns),
        linear_ns: Some(figure(queue.curve.linear_ns)),
        queue_ns: figure(queue.curve.queue_ns),
        half_duplex,
        full_duplex,
    }
}
