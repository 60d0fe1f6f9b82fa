// SPDX-License-Identifier: Apache-2.0
//! Start and exit of programs.

use tierline_core::port::{PageSize, SpaceEvent, SpaceId, TenantId};
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use super::ModelWorld;
use super::frames::Frames;
use super::job::Job;
use crate::workload::program::{Placement, Program, pages_of};
use crate::workload::replay::{Player, Trace};

/// A program with its start and end.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// The program.
    pub program: Program,
    /// The size of its pages.
    pub size: PageSize,
    /// Its tenant.
    pub tenant: TenantId,
    /// When it starts.
    pub start: Nanos,
    /// When it ends, if it does.
    pub stop: Option<Nanos>,
    /// The recording to replay, if any.
    pub trace: Option<Trace>,
}

/// A program that has not started. Memory to be pinned is reserved from the beginning: a program that binds
/// memory to a node gets it there even if the node is full by then.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    arrival: Arrival,
    kept: Option<(TierId, u64)>,
}

impl Awaited {
    /// Reserves memory to be pinned, if available.
    pub(super) fn new(arrival: Arrival, frames: &mut Frames) -> Self {
        let pages = pages_of(arrival.program.bytes, arrival.size);
        let base_pages = u64::from(pages) * arrival.size.base_pages();
        let kept = match arrival.program.placement {
            Placement::Pinned(tier) if frames.has(tier) && frames.free(tier) >= base_pages => {
                frames.take(tier, base_pages);
                Some((tier, base_pages))
            }
            _ => None,
        };
        Self { arrival, kept }
    }

    /// Base pages reserved for it, and their tier.
    pub(super) fn kept(&self) -> Option<(TierId, u64)> {
        self.kept
    }
}

impl ModelWorld {
    /// Starts and ends programs that are due, and updates patterns. Returns the time of the next such event.
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
            .partition::<Vec<_>, _>(|awaited| awaited.arrival.start <= now);
        self.arrivals = later;
        due.into_iter().for_each(|awaited| self.start(awaited));
        self.jobs.iter_mut().for_each(|job| job.turn(now));
        let starts = self.arrivals.iter().map(|awaited| awaited.arrival.start);
        let stops = self.stops.iter().map(|&(_, at)| at);
        starts.chain(stops).chain(self.jobs.iter().filter_map(Job::next_change)).min()
    }

    fn start(&mut self, Awaited { arrival, kept }: Awaited) {
        if let Some((tier, base_pages)) = kept {
            self.frames.give(tier, base_pages);
        }
        let space = SpaceId(self.next_space);
        self.next_space += 1;
        self.stops.extend(arrival.stop.map(|at| (space, at)));
        let mut program = arrival.program;
        let (threads, further) = (program.threads, std::mem::take(&mut program.memory.further));
        let seed = self.rng.next_u64();
        let (size, reach, tenant) = (arrival.size, program.reach, arrival.tenant);
        let mut job = Job::new(space, program, size, self.now, seed).owned_by(tenant);
        job.player = arrival.trace.map(|trace| Player::new(trace, size, reach));
        self.add(job);
        for part in further {
            let own = SpaceId(self.next_space);
            self.next_space += 1;
            let part = Program { threads, ..part };
            self.add(Job::new(own, part, size, self.now, seed).owned_by(tenant).led_by(space));
        }
    }

    fn add(&mut self, mut job: Job) {
        if job.program.managed && job.tenant != TenantId::NOBODY {
            self.seen.space_events.push(SpaceEvent::Owned(job.space, job.tenant));
        }
        job.place(&mut self.frames, &mut self.seen);
        job.replay(self.now, &self.machine, &mut self.frames, &mut self.seen);
        self.shadows.fit(&self.frames);
        self.jobs.push(job);
    }

    /// Ends a program and frees its memory, whatever operation on its pages is in progress.
    pub fn exit(&mut self, space: SpaceId) {
        let Some(leader) = self.job(space).map(|job| job.leader) else { return };
        self.stops.retain(|(of, _)| *of != leader);
        let (gone, left) =
            std::mem::take(&mut self.jobs).into_iter().partition(|job| job.leader == leader);
        self.jobs = left;
        let gone: Vec<Job> = gone;
        for mut job in gone {
            job.leave(&mut self.frames);
            self.shadows.forget(job.space);
            if job.program.managed {
                self.seen.space_events.push(SpaceEvent::Gone(job.space));
            }
        }
    }
}
