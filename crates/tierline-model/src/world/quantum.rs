// SPDX-License-Identifier: Apache-2.0
//! One quantum: solve, let everybody run, see what trackers saw.

use tierline_core::unit::Nanos;

use super::ModelWorld;
use crate::load::solve;
use crate::machine::nanos;
use crate::tracker::Quantum;

/// No step is shorter, however short the epochs of a recording are; what is read beyond an epoch's end is
/// part of the next.
const SHORTEST_NS: f64 = 1_000.0;

impl ModelWorld {
    /// Lets the machine run until `now`.
    pub fn run_until(&mut self, now: Nanos) {
        loop {
            let next = self.come_and_go();
            if self.now >= now {
                return;
            }
            let due = next.filter(|&at| at > self.now).unwrap_or(now);
            let end = now.min(due).min(self.now + self.settings.quantum);
            self.step(end);
        }
    }

    fn step(&mut self, end: Nanos) {
        let start = self.now;
        let mut end = end;
        self.settle((end - start).as_secs_f64() * 1e9);
        if let Some(sooner) = self.epoch_ends().filter(|&sooner| sooner < end) {
            end = sooner;
            self.settle((end - start).as_secs_f64() * 1e9);
        }
        let ns = (end - start).as_secs_f64() * 1e9;
        let programs = self.jobs.len();
        self.books.add(ns, &self.classes, programs, &self.loads);
        self.mover.copied(&self.loads.reads_per_ns[programs..], ns);
        for (job, rate) in self.jobs.iter_mut().zip(&self.loads.reads_per_ns) {
            job.ran(ns, *rate);
        }
        let quantum = Quantum { start, ns };
        self.books.tracker_ns += self.tracker.watch(
            quantum,
            &mut self.jobs,
            &self.machine.costs,
            &mut self.rng,
            &mut self.seen,
        );
        for job in &mut self.jobs {
            let allocated = job.drift(ns, &mut self.frames, &mut self.seen)
                + job.replay(end, &self.machine, &mut self.frames, &mut self.seen);
            job.stall_ns += f64::from(allocated) * self.machine.costs.fault_ns;
        }
        self.now = end;
    }

    /// When the first epoch of a recording will be over, by what was just solved.
    fn epoch_ends(&self) -> Option<Nanos> {
        let rates = self.jobs.iter().zip(&self.loads.reads_per_ns);
        let players = rates.filter_map(|(job, rate)| Some((job.player.as_ref()?, job.reads, rate)));
        let left = players.map(|(player, reads, &rate)| player.left_ns(self.now, reads, rate));
        let soonest = left.fold(f64::INFINITY, f64::min);
        soonest.is_finite().then(|| self.now + nanos(soonest.max(SHORTEST_NS)))
    }

    /// Brings loads in line with what programs and the mover want of this quantum.
    fn settle(&mut self, ns: f64) {
        let programs = self.jobs.len();
        self.classes.clear();
        self.classes.extend(self.jobs.iter().map(|job| job.class(&self.machine.cores, ns)));
        self.mover.classes(&mut self.classes);
        // Where nothing changed, nothing changes.
        if self.classes != self.solved || self.loads.reads_per_ns.len() != self.classes.len() {
            solve(&self.network, &self.classes, &mut self.loads);
            self.solved.clone_from(&self.classes);
        }
        let copies = &self.loads.reads_per_ns[programs..];
        if self.mover.fit(&mut self.classes[programs..], copies, ns) {
            solve(&self.network, &self.classes, &mut self.loads);
            self.solved.clear();
        }
    }
}
