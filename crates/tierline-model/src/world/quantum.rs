// SPDX-License-Identifier: Apache-2.0
//! One quantum: solve, let everybody run, see what trackers saw.

use tierline_core::unit::Nanos;

use super::ModelWorld;
use crate::load::solve;
use crate::tracker::Quantum;

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
        let ns = (end - start).as_secs_f64() * 1e9;
        self.settle(ns);
        let programs = self.jobs.len();
        self.books.add(ns, &self.classes, programs, &self.loads);
        self.stall(ns);
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
            let allocated = job.drift(ns, &mut self.frames, &mut self.seen);
            job.stall_ns += f64::from(allocated) * self.machine.costs.fault_ns;
        }
        for job in &mut self.jobs {
            let written = self.shadows.written(job, &mut self.rng);
            job.stall_ns += f64::from(written) * self.machine.costs.hint_fault_ns;
        }
        self.shadows.fit(&self.frames);
        self.now = end;
    }

    /// Books what slower tiers cost the managed programs: of their misses in flight, the time that would be
    /// saved if all were in the fastest.
    fn stall(&mut self, ns: f64) {
        let rates = self.classes.iter().zip(&self.loads.reads_per_ns);
        for (job, (class, rate)) in self.jobs.iter().zip(rates) {
            if !job.program.managed {
                continue;
            }
            let latency_ns = &self.loads.latency_ns;
            let later = class.reads.iter().zip(latency_ns).skip(1);
            let later: f64 = later.map(|(share, ns)| share * (ns - latency_ns[0]).max(0.0)).sum();
            self.books.stall_ns += rate * later * ns;
            self.books.slots_ns += class.in_flight * ns;
        }
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
