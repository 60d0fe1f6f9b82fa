// SPDX-License-Identifier: Apache-2.0
//! One quantum: solve the load, advance all programs, collect the trackers' observations.

use tierline_core::policy::interface::Ideal;
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use super::ModelWorld;
use super::bound::Problem;
use super::job::Job;
use super::stalls::{self, Running, Threads};
use crate::load::{Class, solve};
use crate::machine::nanos;
use crate::tracker::Quantum;

/// Minimum step, however short a recording's epochs are. Reads beyond the end of an epoch count for the next.
const SHORTEST_NS: f64 = 1_000.0;

impl ModelWorld {
    /// Runs the machine until `now`.
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
        let mut programs = self.settle((end - start).as_secs_f64() * 1e9);
        if let Some(sooner) = self.epoch_ends().filter(|&sooner| sooner < end) {
            end = sooner;
            programs = self.settle((end - start).as_secs_f64() * 1e9);
        }
        let ns = (end - start).as_secs_f64() * 1e9;
        self.counters.add(ns, &self.classes, programs, &self.loads);
        self.stall(ns);
        self.mover.copied(&self.loads.reads_per_ns[programs..], ns);
        self.stalls.clear();
        let groups = self.jobs.chunk_by_mut(|a, b| a.leader == b.leader);
        let asked = self.classes.iter().zip(&self.loads.reads_per_ns);
        for (group, (class, &rate)) in groups.zip(asked) {
            let of_tenant = self.traffic.entry(group[0].tenant).or_default();
            let path_ns = self.network.path_ns;
            of_tenant.add(ns, class, rate, &self.loads, path_ns);
            group[0].traffic.add(ns, class, rate, &self.loads, path_ns);
            group[0].compare(ns, class, rate, &self.machine.cores, &self.network);
            if self.settings.stall_error.is_some() {
                let threads = Threads::of(&group[0].program, &self.machine.cores);
                let running = Running { class, reads_per_ns: rate, loads: &self.loads, path_ns };
                stalls::count(group, threads, &running, &mut self.stalls);
            }
            let all = Job::weights(group);
            for job in group {
                job.ran(ns, rate * job.weight() / all);
            }
        }
        let quantum = Quantum { start, ns };
        self.counters.tracker_ns += self.tracker.watch(
            quantum,
            &mut self.jobs,
            &self.machine.costs,
            &mut self.rng,
            &mut self.seen,
        );
        for job in &mut self.jobs {
            let costs = &self.machine.costs;
            let allocated = job.drift(ns, &mut self.frames, &mut self.seen)
                + job.replay(end, &self.machine, &mut self.frames, &mut self.seen);
            job.stall_ns += f64::from(allocated) * job.pieces(job.size) * costs.fault_ns;
            let back = job.page_in(&mut self.frames, &mut self.seen);
            // All base pages of a huge page are read back, as all were paged out.
            let back = u32::try_from(u64::from(back) * job.unit()).unwrap_or(u32::MAX);
            let back_ns = f64::from(back) * costs.paging(job.program.kind)[1];
            job.stall_ns += back_ns;
            if job.program.managed {
                let (in_flight, _) = job.program.reach.of(&self.machine.cores);
                self.counters.page_in_ns += back_ns * in_flight;
                self.counters.stall_ns += back_ns * in_flight;
            }
            let reclaimed = u32::try_from(job.take_tight() * job.unit()).unwrap_or(u32::MAX);
            job.stall_ns += f64::from(reclaimed) * costs.page_out_ns;
        }
        for job in &mut self.jobs {
            job.freed.iter().for_each(|&page| _ = self.shadows.take(job.space, page));
            let written = self.shadows.written(job, &mut self.rng);
            job.stall_ns += f64::from(written) * self.machine.costs.hint_fault_ns;
        }
        self.shadows.fit(&self.frames);
        self.now = end;
    }

    /// One job per program, in the order of classes.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = &Job> {
        self.jobs.chunk_by(|a, b| a.leader == b.leader).map(|group| &group[0])
    }

    /// End of the next epoch of any recording, by the present solution.
    fn epoch_ends(&self) -> Option<Nanos> {
        // A replaying program has all its memory in one job.
        let rates = self.leaders().zip(&self.loads.reads_per_ns);
        let players = rates.filter_map(|(job, rate)| Some((job.player.as_ref()?, job.reads, rate)));
        let left = players.map(|(player, reads, &rate)| player.left_ns(self.now, reads, rate));
        let soonest = left.fold(f64::INFINITY, f64::min);
        soonest.is_finite().then(|| self.now + nanos(soonest.max(SHORTEST_NS)))
    }

    /// Counts the cost of slower tiers for managed programs: the share of their misses in flight that would be
    /// saved if all memory were in the fastest tier.
    fn stall(&mut self, ns: f64) {
        let rates = self.classes.iter().zip(&self.loads.reads_per_ns);
        let managed = self.leaders().zip(rates).filter(|(job, _)| job.program.managed);
        let (stall_ns, slots_ns) =
            managed.fold((0.0, 0.0), |(stall, slots), (_, (class, rate))| {
                let latency_ns = &self.loads.latency_ns;
                let later = class.reads.iter().zip(latency_ns).skip(1);
                let later: f64 =
                    later.map(|(share, ns)| share * (ns - latency_ns[0]).max(0.0)).sum();
                (stall + rate * later * ns, slots + class.in_flight * ns)
            });
        self.counters.stall_ns += stall_ns;
        self.counters.slots_ns += slots_ns;
    }

    /// Replaces the places of managed programs' accesses by the best ones.
    fn place_accesses(&mut self) {
        let tiers = self.tiers.len();
        let mut problem = Problem {
            as_moved: self.settings.ideal == Some(Ideal::Moved),
            room: (0u8..).take(tiers).map(|t| count(self.frames.free(TierId(t)))).collect(),
            ..Problem::default()
        };
        let groups = self.jobs.chunk_by_mut(|a, b| a.leader == b.leader);
        for (program, (group, class)) in groups.zip(&self.classes).enumerate() {
            let placed = class.in_flight > 0.0 && !group[0].stays();
            let alone = match placed {
                true => group[0].alone_rate(class, &self.machine.cores, &self.network),
                false => 0.0,
            };
            problem.alone.push(alone);
            let all = Job::weights(group);
            for job in group.iter().filter(|_| placed) {
                let parts = job.parts(program, job.weight() / all, tiers);
                for part in parts {
                    let here = part.now.iter().zip(&mut problem.room);
                    here.for_each(|(share, room)| *room += share * part.base_pages);
                    problem.parts.push(part);
                }
            }
            let empty =
                Class { in_flight: class.in_flight, think_ns: class.think_ns, ..Class::default() };
            problem.classes.push(if placed { empty } else { *class });
        }
        self.classes = self.search.best(&self.network, problem);
    }

    /// Solves the load for the present programs and the mover. Returns the number of programs.
    fn settle(&mut self, ns: f64) -> usize {
        self.classes.clear();
        for group in self.jobs.chunk_by_mut(|a, b| a.leader == b.leader) {
            if self.settings.ideal.is_some() {
                group.iter_mut().for_each(|job| job.stall_ns = 0.0);
            }
            Job::gather_stalls(group);
            let mut class = Job::class(group, &self.machine.cores, ns);
            let share = self.cpu_shares.get(&group[0].tenant);
            class.in_flight *= share.copied().unwrap_or(1.0);
            self.classes.push(class);
        }
        let programs = self.classes.len();
        if self.settings.ideal.is_some() {
            self.place_accesses();
        }
        self.mover.classes(&mut self.classes);
        // If no class changed, the solution is still valid.
        if self.classes != self.solved || self.loads.reads_per_ns.len() != self.classes.len() {
            solve(&self.network, &self.classes, &mut self.loads);
            self.solved.clone_from(&self.classes);
        }
        let copies = &self.loads.reads_per_ns[programs..];
        if self.mover.fit(&mut self.classes[programs..], copies, ns) {
            solve(&self.network, &self.classes, &mut self.loads);
            self.solved.clear();
        }
        programs
    }
}

#[expect(clippy::cast_precision_loss, reason = "the base pages of one machine")]
fn count(base_pages: u64) -> f64 {
    base_pages as f64
}
