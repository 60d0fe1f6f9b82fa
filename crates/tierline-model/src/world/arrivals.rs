// SPDX-License-Identifier: Apache-2.0
//! Programs come and go.

use tierline_core::port::{PageSize, SpaceEvent, SpaceId};
use tierline_core::unit::Nanos;

use super::ModelWorld;
use super::job::Job;
use crate::workload::program::Program;

/// A program and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// What runs.
    pub program: Program,
    /// The size of its pages.
    pub size: PageSize,
    /// When it starts.
    pub start: Nanos,
    /// When it ends, if it does.
    pub stop: Option<Nanos>,
}

impl ModelWorld {
    /// Starts and ends what is due, and lets patterns change. Returns when something is due next.
    pub(super) fn come_and_go(&mut self) -> Option<Nanos> {
        let now = self.now;
        let running: Vec<SpaceId> = self.jobs.iter().map(|job| job.space).collect();
        for space in running {
            let stop = self.stops.iter().find(|(of, _)| *of == space).map(|&(_, at)| at);
            if stop.is_some_and(|at| at <= now) {
                self.exit(space);
            }
        }
        let (due, later) = std::mem::take(&mut self.arrivals)
            .into_iter()
            .partition::<Vec<_>, _>(|arrival| arrival.start <= now);
        self.arrivals = later;
        due.into_iter().for_each(|arrival| self.start(arrival));
        self.jobs.iter_mut().for_each(|job| job.turn(now));
        let starts = self.arrivals.iter().map(|arrival| arrival.start);
        let stops = self.stops.iter().map(|&(_, at)| at);
        starts.chain(stops).chain(self.jobs.iter().filter_map(Job::next_change)).min()
    }

    fn start(&mut self, arrival: Arrival) {
        let space = SpaceId(self.next_space);
        self.next_space += 1;
        self.stops.extend(arrival.stop.map(|at| (space, at)));
        let seed = self.rng.next_u64();
        let mut job = Job::new(space, arrival.program, arrival.size, self.now, seed);
        job.place(&mut self.frames, &mut self.seen);
        self.shadows.fit(&self.frames);
        self.jobs.push(job);
    }

    /// Ends a program, whatever is being done with its pages.
    pub fn exit(&mut self, space: SpaceId) {
        let Some(at) = self.jobs.iter().position(|job| job.space == space) else { return };
        let mut job = self.jobs.remove(at);
        job.leave(&mut self.frames);
        self.shadows.forget(space);
        self.stops.retain(|(of, _)| *of != space);
        if job.program.managed {
            self.seen.spaces.push(SpaceEvent::Gone(space));
        }
    }
}
