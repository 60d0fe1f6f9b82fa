// SPDX-License-Identifier: Apache-2.0
//! The model's implementation of the core's port.

use tierline_core::port::{
    Attention, Capabilities, Capability, LatencySource, MeasuredLatency, Move, Observations, Order,
    Outcome, PageAddress, PageSize, Question, SpaceId, SpaceStalls, Telemetry, TenantId,
    TenantTelemetry, TierTelemetry, Tracking, World,
};
use tierline_core::tier::{Tier, TierId};
use tierline_core::unit::{BASE_PER_HUGE, Bytes, BytesPerSec, Nanos};

use super::ModelWorld;
use super::mover::Mover;
use super::transfer::Transfer;
use crate::arithmetic::exponential;
use crate::due::whole;
use crate::machine::nanos;

/// Base pages of a huge page.
#[expect(clippy::cast_precision_loss, reason = "512")]
const BASE_PER_HUGE_F64: f64 = BASE_PER_HUGE as f64;

impl World for ModelWorld {
    fn capabilities(&self) -> Capabilities {
        Self::offers()
    }

    fn observe(&mut self, now: Nanos, out: &mut Observations) {
        self.run_until(now);
        let seen = &mut self.seen;
        out.space_events.append(&mut seen.space_events);
        out.residence.append(&mut seen.residence);
        out.samples.append(&mut seen.samples);
        out.true_rates.append(&mut seen.true_rates);
        std::mem::swap(&mut out.observed_regions, &mut seen.observed_regions);
        seen.observed_regions.clear();
        out.watched += std::mem::take(&mut seen.watched);
        out.lost += std::mem::take(&mut seen.lost);
        out.slow_hits_per_sec = seen.slow_hits_per_sec.take();
        out.slow_hits_sampled = seen.slow_hits_sampled.take();
        out.window = seen.window.or(out.window);
        out.aggregation = seen.aggregation.or(out.aggregation);
        out.remembered_time = seen.remembered_time.or(out.remembered_time);
        out.fast_untracked = !self.tracker.observes_fast_memory();
    }

    fn measure(&mut self, _now: Nanos) -> Telemetry {
        let since = self.counters.since(&self.reported);
        self.reported = self.counters;
        let failed_allocations = self.frames.take_turned_away();
        let measured = |(tier, _): (TierId, &Tier)| {
            let t = tier.index();
            let ran = since.ns > 0.0;
            TierTelemetry {
                free: self.frames.free_bytes(tier),
                lacking: Bytes::ZERO,
                failed_allocations: failed_allocations[t],
                latency: since.latency_ns(t).map(nanos),
                occupancy: ran.then(|| since.occupancy_ns[t] / since.ns),
                reads_per_sec: ran.then(|| since.reads[t] / since.ns * 1e9),
                bandwidth: ran.then(|| bytes_per_sec(since.bytes[t] / since.ns * 1e9)),
            }
        };
        // Page-ins are counted when they start, and may take longer than the measured time.
        let share = |ns: f64| (since.slots_ns > 0.0).then(|| (ns / since.slots_ns).min(1.0));
        Telemetry {
            allocated: None,
            tiers: self.tiers.iter().map(measured).collect(),
            stall: share(since.stall_ns),
            page_in_stall: share(since.page_in_ns),
            tenants: self.measure_tenants(since.ns),
            stalls: self.count_stalls(),
            counted: self.tracker.take_device_counts(),
        }
    }

    fn act(&mut self, now: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        let mut spent_ns = 0.0;
        out.extend(orders.iter().map(|order| match order {
            Order::Move(m) | Order::MoveShared(m) => self.move_page(m, &mut spent_ns),
            Order::PageOut(page) => self.page_out(page, &mut spent_ns),
            Order::Split(page) => self.split(page, &mut spent_ns),
        }));
        self.mover.work(now, spent_ns);
        nanos(spent_ns)
    }

    fn check_accessed(&mut self, _now: Nanos, questions: &[Question], out: &mut Vec<bool>) {
        for question in questions {
            let job = self.jobs.iter().find(|job| job.space == question.space);
            let page = job.and_then(|job| Some((job, job.page_at(question.vpn)?)));
            let rate = page.map_or(0.0, |(job, page)| job.page_rate(page));
            let within_ns = question.within.as_secs_f64() * 1e9;
            out.push(exponential(&mut self.rng) < rate * within_ns);
        }
    }

    fn limit_cpu(&mut self, tenant: TenantId, share: f64) {
        match share < 1.0 {
            true => self.cpu_shares.insert(tenant, share),
            false => self.cpu_shares.remove(&tenant),
        };
    }

    fn configure_tracking(&mut self, watch: Tracking) -> bool {
        self.tracker.reconfigure(watch)
    }

    fn set_attention(&mut self, attention: Attention) {
        self.attention = attention;
        self.tracker.set_attention(attention);
    }
}

impl ModelWorld {
    /// Capabilities of every modelled machine.
    pub fn offers() -> Capabilities {
        use Capability::{Answers, CpuShares, PageOut, Split, TrueRates};
        Capabilities::of([PageOut, Split, Answers, TrueRates, CpuShares])
    }

    /// Bytes of a tenant's programs in each tier, managed or not.
    pub fn used_by(&self, tenant: TenantId) -> Vec<Bytes> {
        let own = || self.jobs.iter().filter(|job| job.tenant == tenant);
        let in_tier = |(tier, _)| own().map(|job| job.bytes_in(tier)).sum();
        self.tiers.iter().map(in_tier).collect()
    }

    /// The counters of stalls, as wrong as the settings say.
    fn count_stalls(&self) -> Vec<SpaceStalls> {
        let wrong = self.settings.stall_error.unwrap_or(1.0);
        let leaders = self.leaders().map(|job| job.space);
        let errors: Vec<(SpaceId, f64)> =
            leaders.zip([wrong, 1.0 / wrong].into_iter().cycle()).collect();
        let leader = |space| self.job(space).map(|job| job.leader);
        let error = |space| errors.iter().find(|(lead, _)| Some(*lead) == leader(space));
        let counted = self.stalls.iter().filter_map(|of| {
            let &(_, error) = error(of.space)?;
            let stalled = (of.stalled * error).min(1.0);
            Some(SpaceStalls { stalled, overlap: (of.overlap / error).max(1.0), ..*of })
        });
        counted.collect()
    }

    fn measure_tenants(&mut self, ns: f64) -> Vec<TenantTelemetry> {
        let mut tenants: Vec<TenantId> = self.jobs.iter().map(|job| job.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        tenants.retain(|&tenant| tenant != TenantId::NOBODY);
        let measured = |tenant| {
            let before = self.reported_traffic.get(&tenant).copied().unwrap_or_default();
            let since = self.traffic(tenant).since(&before);
            let rate = |bytes: &f64| bytes_per_sec(bytes / ns.max(1.0) * 1e9);
            let of_mean = |mean_ns| MeasuredLatency {
                mean_ns,
                source: LatencySource::Model,
                samples: whole(since.reads),
            };
            TenantTelemetry {
                tenant,
                used: self.used_by(tenant).into_iter().map(Some).collect(),
                latency: since.mean_ns().map(of_mean),
                bandwidth: since.bytes.iter().take(self.tiers.len()).map(rate).collect(),
                demand: Some(since.demand_ns > 0.0),
                ..TenantTelemetry::default()
            }
        };
        let tenants = tenants.into_iter().map(measured).collect();
        self.reported_traffic.clone_from(&self.traffic);
        tenants
    }

    fn page_out(&mut self, at: &PageAddress, spent_ns: &mut f64) -> Outcome {
        let Some(job) = self.jobs.iter_mut().find(|job| job.space == at.space) else {
            return Outcome::SpaceGone;
        };
        let whole = |page: &u32| at.size == job.size && !job.places.is_split(*page);
        let Some(page) = job.page_at(at.vpn).filter(whole) else { return Outcome::PageGone };
        if job.stays() {
            return Outcome::Refused;
        }
        self.shadows.take(at.space, page);
        if !job.page_out(page, &mut self.frames, &mut self.rng) {
            return Outcome::Busy;
        }
        let [out_ns, _] = self.machine.costs.paging(job.program.kind);
        #[expect(clippy::cast_precision_loss, reason = "the base pages of a page")]
        let base_pages = at.size.base_pages() as f64;
        *spent_ns += base_pages * out_ns;
        Outcome::Done
    }

    fn split(&mut self, at: &PageAddress, spent_ns: &mut f64) -> Outcome {
        let Some(job) = self.jobs.iter_mut().find(|job| job.space == at.space) else {
            return Outcome::SpaceGone;
        };
        if job.stays() {
            return Outcome::Refused;
        }
        let page = job.page_at(at.vpn).filter(|_| at.size == job.size);
        let Some(page) = page.filter(|&page| job.places.split(page)) else {
            return Outcome::PageGone;
        };
        self.shadows.take(at.space, page);
        let toll = self.mover.split(job);
        job.stall_ns += toll.program_ns;
        self.counters.mover_ns += toll.mover_ns;
        *spent_ns += toll.mover_ns;
        Outcome::Done
    }

    fn move_page(&mut self, m: &Move, spent_ns: &mut f64) -> Outcome {
        let Some(job) = self.jobs.iter_mut().find(|job| job.space == m.space) else {
            return Outcome::SpaceGone;
        };
        let is_split = |page: u32| job.places.is_split(page);
        let size = |page| if is_split(page) { PageSize::Base } else { job.size };
        let page = job.page_at(m.vpn).filter(|&page| m.size == size(page));
        let Some((page, tier)) = page.and_then(|page| Some((page, job.tier_at(page, m.vpn)?)))
        else {
            return Outcome::PageGone;
        };
        if tier != m.from {
            return Outcome::Elsewhere(tier);
        }
        if job.stays() || !self.frames.has(m.to) {
            return Outcome::Refused;
        }
        let base_pages = m.size.base_pages();
        if self.frames.free(m.to) < base_pages {
            return Outcome::NoRoom;
        }
        let is_part = m.size != job.size;
        let rate = match is_part {
            true => job.page_rate(page) / BASE_PER_HUGE_F64,
            false => job.page_rate(page),
        };
        let up = m.to < tier;
        // Shadows are kept only for unsplit pages.
        let aside = up && !is_part && self.settings.transfer == Transfer::Shadow;
        let has_copy = !is_part && self.shadows.take(m.space, page) == Some(m.to);
        let mut toll = match has_copy {
            true => self.mover.remap(job),
            false if self.settings.ideal.is_some() => {
                Mover::at_peak(&self.machine, m.size, tier, m.to)
            }
            false => self.mover.take(job, m.size, tier, m.to, rate, &self.network, &self.loads),
        };
        if aside {
            toll.program_ns -= toll.waits_ns; // it stays mapped
        }
        job.stall_ns += toll.program_ns;
        match self.settings.synchronous && up && !aside {
            true => job.stall_ns += toll.mover_ns,
            false => *spent_ns += toll.mover_ns,
        }
        self.counters.mover_ns += toll.mover_ns;
        let writes_per_ns = rate * job.program.writes_per_read;
        if aside && exponential(&mut self.rng) < writes_per_ns * toll.copy_ns {
            self.shadows.counts.aborted += 1;
            return Outcome::Dirtied;
        }
        self.frames.take(m.to, base_pages);
        self.frames.give(tier, base_pages);
        job.set_tier(page, m.vpn, m.to);
        if aside {
            self.shadows.keep(job, page, tier, &mut self.rng);
        }
        self.shadows.fit(&self.frames);
        if has_copy {
            self.shadows.counts.remapped += 1;
            return Outcome::Done;
        }
        let bytes = bytes_f64(m.size.bytes());
        match up {
            true => self.counters.promoted_bytes += bytes,
            false => self.counters.demoted_bytes += bytes,
        }
        Outcome::Done
    }
}

#[expect(clippy::cast_precision_loss, reason = "the bytes of a page")]
fn bytes_f64(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bandwidth is positive, and the cast saturates"
)]
fn bytes_per_sec(rate: f64) -> BytesPerSec {
    BytesPerSec(rate as u64)
}
