// SPDX-License-Identifier: Apache-2.0
//! The report of a run: a time series and a summary. All figures are in base units; keys contain the unit.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tierline_core::counters::Counters;
use tierline_core::port::{PageKind, TenantId};
use tierline_core::qos::controller::ApplicationReport;
use tierline_core::qos::showback::Showback;
use tierline_core::tier::TierId;
use tierline_core::unit::{Bytes, Nanos};

use crate::load::LINE_BYTES;
use crate::world::ModelWorld;
use crate::world::counters::MachineCounters;
use crate::world::job::Job;
use crate::world::traffic::Traffic;

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine.
    pub machine: String,
    /// The policy.
    pub policy: String,
    /// The tracker.
    pub tracker: String,
    /// The seed.
    pub seed: u64,
    /// Simulated time.
    pub seconds: f64,
    /// Hash of all events and of the series, in order: the same seed and code give the same hash.
    pub fingerprint: String,
    /// Means over the last quarter of the run.
    pub steady: Means,
    /// Means over the whole run.
    pub overall: Means,
    /// Outcomes of moves.
    pub moves: Moves,
    /// One entry per interval.
    pub series: Vec<Interval>,
    /// What the QoS controller decided, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qos_decisions: Vec<QosDecision>,
}

/// A decision of the QoS controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QosDecision {
    /// When.
    pub seconds: f64,
    /// The applications that it is about.
    pub applications: Vec<String>,
    /// What was decided, as a sentence.
    pub text: String,
}

/// Pages moved, split and paged out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moves {
    /// Base pages promoted.
    pub promoted_pages: u64,
    /// Base pages demoted.
    pub demoted_pages: u64,
    /// Base pages that came back soon after a move.
    pub ping_pong_pages: u64,
    /// Huge pages that were split.
    pub split_pages: u64,
    /// Counters of tiering, by kind of page and by cause.
    pub tiering: Counters,
    /// Time the reclaimer was busy paging out.
    pub paging_seconds: f64,
    /// Time the mover was busy.
    pub mover_seconds: f64,
    /// CPU time of the tracker.
    pub tracker_seconds: f64,
    /// Samples delivered by trackers, and samples lost.
    pub samples: u64,
    /// See `samples`.
    pub samples_lost: u64,
}

/// One interval of the series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// End of the interval.
    pub seconds: f64,
    /// Means over the interval.
    #[serde(flatten)]
    pub means: Means,
}

/// Means over a time span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Means {
    /// Every program that was running.
    pub programs: Vec<ProgramMeans>,
    /// Every tenant of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantMeans>,
    /// Every tier, fastest first.
    pub tiers: Vec<TierMeans>,
    /// Bytes per second moved to faster tiers.
    pub promoted_bytes_per_second: f64,
    /// Bytes per second moved to slower tiers.
    pub demoted_bytes_per_second: f64,
    /// Share of the managed programs' time lost to page-ins.
    #[serde(rename = "page_in_stall_share")]
    pub page_in_stall: f64,
    /// Throughput of the machine in programs: the sum of the programs' `speedup`, equal to their number if none
    /// slows down (weighted speedup: Snavely and Tullsen, ASPLOS 2000; STP: Eyerman and Eeckhout, IEEE Micro
    /// 2008). The reference of each program is ours: see [`ProgramMeans::speedup`].
    #[serde(default)]
    pub weighted_speedup: f64,
    /// Work of the managed programs: the time that it would take each alone, divided by the time of the span. Equal to the
    /// weighted speed-up if all programs are managed and run all the time. No placement exceeds that of policy `bound`.
    #[serde(default)]
    pub progress: f64,
    /// The largest `1 / speedup` of a program; `None` if no program had work.
    #[serde(default)]
    pub worst_slowdown: Option<f64>,
}

/// One program over a time span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramMeans {
    /// Its name.
    pub name: String,
    /// The tenant to which it belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Operations per second.
    #[serde(rename = "throughput_per_second")]
    pub throughput: f64,
    /// Name of an operation.
    pub unit: Cow<'static, str>,
    /// Bytes per second that it read and wrote.
    pub bytes_per_second: f64,
    /// Share of its accesses in the span that each tier served; without accesses, the share that it would serve.
    pub shares: Vec<f64>,
    /// Mean latency of these accesses with all queueing; `None` if there was none.
    #[serde(default)]
    pub latency_ns: Option<f64>,
    /// Share of its threads' time lost to faults, interrupts and waiting for moved pages.
    #[serde(rename = "stalled_share")]
    pub stalled: f64,
    /// Its progress relative to running alone with all its memory in the fastest tier, whatever that tier's
    /// capacity: `sum(ns · x / a) / sum(ns)` over the quanta in which it had work. `x` is the lines read per
    /// ns, `a` the lines per ns that the load solver gives it without other programs, copying and stalls. This
    /// is the time of the same work alone divided by the time taken. Above 1 if several tiers have more
    /// bandwidth than the fastest one. `None` if it had no work. This reference is ours.
    #[serde(default)]
    pub speedup: Option<f64>,
    /// Its memory by part, if it has several kinds, at the end of the span.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryMeans>,
}

/// A tenant over a time span; its memory is that at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantMeans {
    /// Its name.
    pub name: String,
    /// Its bytes in each tier.
    pub used_bytes: Vec<Bytes>,
    /// Its limit in each tier; `None` without a limit.
    pub limit_bytes: Vec<Option<Bytes>>,
    /// Mean latency of its reads with all queueing; `None` if there was none.
    #[serde(default)]
    pub latency_ns: Option<f64>,
    /// Bytes per second that it read and wrote.
    #[serde(default)]
    pub bytes_per_second: f64,
    /// Bytes that it held times the seconds for which it held them, by tier.
    #[serde(default)]
    pub used_byte_seconds: Vec<f64>,
    /// The estimate of its slowdown by slower tiers and a limit on CPU time; `None` without traffic.
    #[serde(default)]
    pub estimated_slowdown: Option<f64>,
    /// Its share of CPU time at the end.
    #[serde(default = "whole")]
    pub cpu_share: f64,
    /// Its state as an application, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<QosMeans>,
}

fn whole() -> f64 {
    1.0
}

/// An application at the end of a time span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QosMeans {
    /// Its target.
    pub slo: Option<String>,
    /// The relative error of its target, above 0 if it is missed; `None`: no target, no demand.
    pub error_share: Option<f64>,
    /// Fast memory that is reserved for it.
    pub reserved_bytes: Bytes,
    /// Fast memory that is lent to it.
    pub lent_bytes: Bytes,
    /// Memory that its target lacks.
    pub short_bytes: Bytes,
}

impl QosMeans {
    /// From the controller's view.
    pub fn of(standing: &ApplicationReport) -> Self {
        let grant = &standing.grant;
        Self {
            slo: standing.application.slo.map(|slo| slo.to_string()),
            error_share: standing.error,
            reserved_bytes: grant.reserved[0],
            lent_bytes: grant.lent[0],
            short_bytes: grant.short,
        }
    }
}

/// Memory of one kind, at the end of a time span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryMeans {
    /// Its name.
    pub name: String,
    /// What backs it.
    pub kind: PageKind,
    /// Share of the program's accesses to it.
    #[serde(rename = "accesses_share")]
    pub of_accesses: f64,
    /// Share of these accesses served by each tier.
    pub shares: Vec<f64>,
    /// Its bytes in each tier.
    pub bytes: Vec<Bytes>,
    /// Of these, bytes in pages accessed at least every two minutes (TPP's definition of hot).
    pub hot_bytes: Vec<Bytes>,
}

/// TPP's window for hot pages, ns (section 3.2).
const HOT_WITHIN_NS: f64 = 120e9;

impl MemoryMeans {
    fn of(job: &Job, of_accesses: f64, tiers: usize) -> Self {
        let is_hot =
            |&band: &usize| job.reads_per_ns * job.pattern.density(band) * HOT_WITHIN_NS >= 1.0;
        let hot = |tier| {
            let bands = (0..job.pattern.bands().len()).filter(is_hot);
            Bytes::from_base_pages(bands.map(|band| job.census.base_pages(band, tier)).sum())
        };
        let ids = || (0u8..).take(tiers);
        Self {
            name: job.program.name.clone(),
            kind: job.program.kind,
            of_accesses,
            shares: job.census.shares(&job.pattern)[..tiers].to_vec(),
            bytes: ids().map(|tier| job.bytes_in(TierId(tier))).collect(),
            hot_bytes: ids().map(hot).collect(),
        }
    }
}

/// One tier over a time span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierMeans {
    /// Its name.
    pub name: String,
    /// Loaded latency of a demand read; `None` if there was none.
    pub latency_ns: Option<f64>,
    /// Bytes per second, by all programs.
    pub bytes_per_second: f64,
    /// Utilisation of its capacity to carry traffic.
    #[serde(rename = "utilisation_share")]
    pub utilisation: f64,
    /// Bytes free at the end.
    pub free_bytes: Bytes,
    /// Bytes per second of new pages.
    pub allocated_bytes_per_second: f64,
}

/// The counters of a world at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    counters: MachineCounters,
    programs: BTreeMap<u32, Progress>,
    allocated: Vec<f64>,
    tenants: BTreeMap<TenantId, Traffic>,
    showback: Showback,
}

impl Snapshot {
    /// Reads the counters.
    pub fn of(world: &ModelWorld, showback: &Showback) -> Self {
        let programs = world.jobs().iter().map(|job| (job.space.0, Progress::of(job)));
        let allocated = world.tiers().iter().map(|(id, _)| allocated(world, id));
        Self {
            counters: *world.counters(),
            programs: programs.collect(),
            allocated: allocated.collect(),
            tenants: world.all_traffic().clone(),
            showback: showback.clone(),
        }
    }

    /// The traffic and use of a tenant between this snapshot and the present state.
    pub fn tenant(&self, tenant: TenantId, world: &ModelWorld, showback: &Showback) -> TenantMeans {
        let before = self.tenants.get(&tenant).copied().unwrap_or_default();
        let since = world.traffic(tenant).since(&before);
        let ns = world.counters().since(&self.counters).ns.max(1.0);
        let usage = showback.of(tenant).since(&self.showback.of(tenant));
        TenantMeans {
            used_byte_seconds: usage.byte_seconds[..world.tiers().len()].to_vec(),
            estimated_slowdown: usage.slowdown(),
            latency_ns: since.mean_ns(),
            bytes_per_second: since.bytes.iter().sum::<f64>() / ns * 1e9,
            cpu_share: world.cpu_share(tenant),
            ..TenantMeans::default()
        }
    }

    /// Means between this snapshot and the present state of `world`.
    pub fn until(&self, world: &ModelWorld) -> Means {
        let since = world.counters().since(&self.counters);
        let ns = since.ns.max(1.0);
        let tiers = world.tiers().len();
        let counted = |job: &Job| {
            let before = self.programs.get(&job.space.0).copied().unwrap_or_default();
            Progress::of(job).since(&before)
        };
        let rate = |job: &Job| counted(job).reads / ns * 1e9;
        let programs = world.jobs().chunk_by(|a, b| a.leader == b.leader).map(|group| {
            let lead = &group[0];
            let of_lead = counted(lead);
            let reads_per_sec: f64 = group.iter().map(rate).sum();
            let of_accesses = |job: &Job| match reads_per_sec > 0.0 {
                true => rate(job) / reads_per_sec,
                false => 0.0,
            };
            let bytes = |job: &Job| rate(job) * LINE_BYTES * (1.0 + job.program.writes_per_read);
            let memory = group.iter().map(|job| MemoryMeans::of(job, of_accesses(job), tiers));
            ProgramMeans {
                name: lead.program.name.clone(),
                tenant: None,
                throughput: match lead.player {
                    Some(_) => of_lead.recorded_s / ns * 1e9,
                    None => reads_per_sec / lead.program.reads_per_op,
                },
                unit: lead.program.unit.into(),
                bytes_per_second: group.iter().map(bytes).sum(),
                shares: match of_lead.traffic.shares() {
                    Some(shares) => shares[..tiers].to_vec(),
                    None => Job::shares(group)[..tiers].to_vec(),
                },
                latency_ns: of_lead.traffic.mean_ns(),
                stalled: of_lead.stalled_ns / (ns * lead.program.threads.max(1.0)),
                speedup: (of_lead.ran_ns > 0.0).then(|| of_lead.alone_ns / of_lead.ran_ns),
                memory: if group.len() > 1 { memory.collect() } else { Vec::new() },
            }
        });
        let tier = |(id, tier): (TierId, &tierline_core::tier::Tier)| TierMeans {
            name: tier.name.clone(),
            latency_ns: since.latency_ns(id.index()),
            bytes_per_second: since.bytes[id.index()] / ns * 1e9,
            utilisation: since.utilisation_ns[id.index()] / ns,
            free_bytes: world.frames().free_bytes(id),
            allocated_bytes_per_second: (allocated(world, id) - self.allocated[id.index()]) / ns
                * 1e9,
        };
        let programs: Vec<ProgramMeans> = programs.collect();
        let managed = world.leaders().filter(|lead| lead.program.managed);
        let progress = managed.map(|lead| counted(lead).alone_ns).sum::<f64>() / ns;
        let speedups = || programs.iter().filter_map(|program| program.speedup);
        Means {
            weighted_speedup: speedups().sum(),
            progress,
            worst_slowdown: speedups().reduce(f64::min).map(|least| 1.0 / least),
            programs,
            tenants: Vec::new(),
            tiers: world.tiers().iter().map(tier).collect(),
            promoted_bytes_per_second: since.promoted_bytes / ns * 1e9,
            demoted_bytes_per_second: since.demoted_bytes / ns * 1e9,
            page_in_stall: since.page_in_ns / since.slots_ns.max(1.0),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the bytes of one machine")]
fn allocated(world: &ModelWorld, tier: TierId) -> f64 {
    world.frames().allocated(tier).0 as f64
}

/// Cumulative counters of a program.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Lines read.
    reads: f64,
    /// Recorded time replayed, s.
    recorded_s: f64,
    stalled_ns: f64,
    ran_ns: f64,
    alone_ns: f64,
    /// Of all its memory, at its leader.
    traffic: Traffic,
}

impl Progress {
    fn of(job: &Job) -> Self {
        let &Job { reads, stalled_ns, ran_ns, alone_ns, traffic, .. } = job;
        Self { reads, recorded_s: job.progress_s(), stalled_ns, ran_ns, alone_ns, traffic }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            recorded_s: self.recorded_s - before.recorded_s,
            stalled_ns: self.stalled_ns - before.stalled_ns,
            ran_ns: self.ran_ns - before.ran_ns,
            alone_ns: self.alone_ns - before.alone_ns,
            traffic: self.traffic.since(&before.traffic),
        }
    }
}

/// FNV-1a over words: the engine's fingerprint and every figure of the series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) fn new(engine: u64) -> Self {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        hash.word(engine);
        hash
    }

    fn word(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub(crate) fn interval(&mut self, interval: &Interval) {
        self.word(interval.seconds.to_bits());
        for program in &interval.means.programs {
            self.word(program.throughput.to_bits());
            program.shares.iter().for_each(|share| self.word(share.to_bits()));
        }
        for tier in &interval.means.tiers {
            self.word(tier.latency_ns.map_or(0, f64::to_bits));
            self.word(tier.bytes_per_second.to_bits());
        }
    }

    pub(crate) fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Whether the next interval is complete.
pub(crate) fn due(now: Nanos, last: Nanos, every: Nanos) -> bool {
    now.saturating_sub(last) >= every
}
