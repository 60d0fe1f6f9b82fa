// SPDX-License-Identifier: Apache-2.0
//! Common part of the hardware samplers: events on every CPU whose records contain an address and its source.

use rustc_hash::FxHashSet;
use tierline_core::port::{Attention, Observations, Sample, SpaceId, Tracking, Vpn};
use tierline_core::tier::TierId;
use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::perf::data_src::{Access, DataSource};
use crate::perf::sample::{Fields, Sample as Recorded};
use crate::perf::{Attr, CpuRings, PerfEvent};
use crate::root::Root;
use crate::tracker::Tracker;

/// The units that count events.
pub(crate) const PMUS: &str = "/sys/bus/event_source/devices";

/// The tier of each kind of memory; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceTiers {
    /// DRAM of the CPU's own node.
    pub local: Option<TierId>,
    /// DRAM of another node. On a machine with several sockets it is not a separate tier.
    pub remote: Option<TierId>,
    /// Memory on CXL.
    pub cxl: Option<TierId>,
    /// Persistent memory.
    pub pmem: Option<TierId>,
}

impl SourceTiers {
    /// The tier of `source`.
    pub const fn of(&self, source: DataSource) -> Option<TierId> {
        match source {
            DataSource::LocalDram => self.local,
            DataSource::RemoteDram => self.remote,
            DataSource::Cxl => self.cxl,
            DataSource::Pmem => self.pmem,
            DataSource::Cache | DataSource::Unknown => None,
        }
    }
}

/// One event to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmuEvent {
    /// The event.
    pub event: PerfEvent,
    /// Events per record.
    pub period: u64,
    /// How exact the instruction address must be.
    pub precise: u8,
    /// Exclude the kernel's accesses; if the unit cannot, they are excluded by address.
    pub user_only: bool,
    /// The source of the data, if the event itself implies it.
    pub source: Option<DataSource>,
    /// True if its period counts accesses, as policies expect, and not something else (IBS: operations).
    pub counts_accesses: bool,
    /// True if every record is a store.
    pub stores: bool,
    /// Keep records with an unknown source: true if the event counts only memory accesses.
    pub keep_unknown: bool,
}

/// Base pages of a CPU's ring: about 3000 records.
const RING_PAGES: usize = 32;
/// Samples are remembered for this time: the long horizon of ARMS (section 4.1).
const MEMORY: Nanos = Nanos::from_secs(10);
/// Addresses from here on belong to the kernel, on all 64-bit machines.
const KERNEL: u64 = 1 << 63;

/// The tracker: events on every CPU. `pebs` and `ibs` define the events.
pub struct Sampler {
    name: &'static str,
    interval: Nanos,
    due: Nanos,
    events: Vec<(PmuEvent, CpuRings)>,
    tiers: SourceTiers,
    spaces: FxHashSet<SpaceId>,
    watching_since: Option<Nanos>,
    lost: u64,
}

impl Sampler {
    /// Opens the events that this CPU has; at least one must open. They are read every `interval`.
    ///
    /// # Errors
    /// `Error::Missing` if none can be opened.
    pub fn open(
        root: &Root,
        name: &'static str,
        events: &[PmuEvent],
        tiers: SourceTiers,
        interval: Nanos,
    ) -> Result<Self> {
        let mut opened = Vec::new();
        let mut refusal = None;
        for event in events {
            match CpuRings::open(root, &attr(event), RING_PAGES) {
                Ok(rings) => opened.push((*event, rings)),
                Err(error) => refusal = Some(error),
            }
        }
        if opened.is_empty() {
            return Err(Error::Missing {
                what: name.to_uppercase(),
                why: refusal.map_or("no event is known".into(), |error| error.to_string()),
                hint:
                    "virtual machines seldom have a PMU with addresses; try --tracker hint_faults"
                        .into(),
            });
        }
        let spaces = FxHashSet::default();
        let (due, watching_since, lost) = (Nanos::ZERO, None, 0);
        Ok(Self { name, interval, due, events: opened, tiers, spaces, watching_since, lost })
    }
}

impl Tracker for Sampler {
    fn name(&self) -> &'static str {
        self.name
    }

    /// The events count only while a process is watched.
    fn watch(&mut self, spaces: &[SpaceId]) -> Result<()> {
        self.spaces = spaces.iter().copied().collect();
        let on = !self.spaces.is_empty();
        if on == self.watching_since.is_some() {
            return Ok(());
        }
        self.events.iter().try_for_each(|(_, rings)| rings.enable(on))?;
        self.watching_since = on.then(crate::perf::monotonic_now);
        Ok(())
    }

    fn poll(&mut self, now: Nanos, out: &mut Observations) -> Result<()> {
        self.due = now + self.interval;
        let Self { events, tiers, spaces, .. } = self;
        let period = events.first().map_or(1, |(event, _)| event.period.max(1));
        for (event, rings) in events.iter_mut() {
            rings.drain(|record| {
                if spaces.contains(&SpaceId(record.pid)) {
                    let sample = to_sample(&record, event, tiers);
                    let hits = ratio(event.period, period);
                    out.samples.extend(sample.map(|sample| Sample { hits, ..sample }));
                }
            });
        }
        if let Some(since) = self.watching_since {
            // One access per period is recorded: the same as recording all accesses for 1/period of the time.
            out.watched += Nanos(now.saturating_sub(since).0 / period);
            out.remembered_time = Some(Nanos(MEMORY.0 / period));
            self.watching_since = Some(now.max(since));
        }
        let lost: u64 = self.events.iter().map(|(_, rings)| rings.losses().lost).sum();
        out.lost += lost - self.lost;
        self.lost = lost;
        Ok(())
    }

    fn next_due(&self) -> Nanos {
        self.due
    }

    fn reconfigure(&mut self, watch: Tracking) -> Result<bool> {
        let Tracking::Samples { loads, stores, .. } = watch else { return Ok(false) };
        for (event, rings) in self.events.iter_mut().filter(|(event, _)| event.counts_accesses) {
            let period = if event.stores { stores.unwrap_or(event.period) } else { loads };
            rings.sample_every(period)?;
            event.period = period;
        }
        Ok(true)
    }

    /// The cost follows the misses by itself: with settled placement there are fewer.
    fn set_attention(&mut self, _attention: Attention) {}
}

fn attr(event: &PmuEvent) -> Attr {
    let fields = Fields::TID | Fields::ADDR | Fields::WEIGHT | Fields::DATA_SRC;
    Attr {
        event: event.event,
        period: event.period,
        fields,
        precise: event.precise,
        user_only: event.user_only,
        registers: 0,
    }
}

/// Converts a record of an access to memory to a sample; accesses served by a cache are dropped.
fn to_sample(record: &Recorded<'_>, event: &PmuEvent, tiers: &SourceTiers) -> Option<Sample> {
    let access = Access::decode(record.data_src);
    let source = event.source.unwrap_or(access.source);
    // Address 0: the unit did not record it.
    let useless = record.addr == 0 || record.addr >= KERNEL || source == DataSource::Cache;
    if useless || source == DataSource::Unknown && !event.keep_unknown {
        return None;
    }
    Some(Sample {
        space: SpaceId(record.pid),
        vpn: Vpn::of(record.addr),
        base_pages: 1,
        hits: 1.0,
        exposure: None,
        tier: tiers.of(source),
        write: if event.stores { Some(true) } else { access.store },
    })
}

/// The weight of a record of one event, in records of another.
#[expect(clippy::cast_precision_loss, reason = "a period is far below 2^24")]
fn ratio(period: u64, of: u64) -> f32 {
    period as f32 / of as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIERS: SourceTiers =
        SourceTiers { local: Some(TierId(0)), remote: None, cxl: Some(TierId(1)), pmem: None };
    const LOADS: PmuEvent = PmuEvent {
        event: PerfEvent::raw(0x20d1),
        period: 10_007,
        precise: 2,
        user_only: true,
        source: None,
        counts_accesses: true,
        stores: false,
        keep_unknown: false,
    };

    fn sample(addr: u64, data_src: u64, event: &PmuEvent) -> Option<Sample> {
        to_sample(&Recorded { pid: 7, addr, data_src, ..Recorded::default() }, event, &TIERS)
    }

    const CXL_LOAD: u64 = 2 | 9 << 33;
    const L2_LOAD: u64 = 2 | 2 << 33;

    #[test]
    fn a_load_from_memory_is_kept_with_its_tier() {
        let seen = sample(0x7000_1234, CXL_LOAD, &LOADS).expect("a sample");
        assert_eq!((seen.space, seen.vpn, seen.tier), (SpaceId(7), Vpn(0x70001), Some(TierId(1))));
        assert_eq!(seen.write, Some(false));
    }

    #[test]
    fn caches_the_kernel_and_missing_addresses_are_left_out() {
        assert_eq!(sample(0x7000_1234, L2_LOAD, &LOADS), None);
        assert_eq!(sample(0, CXL_LOAD, &LOADS), None);
        assert_eq!(sample(0xffff_8880_0000_0000, CXL_LOAD, &LOADS), None);
        assert_eq!(sample(0x7000_1234, 0, &LOADS), None, "an unknown source");
    }

    #[test]
    fn the_source_of_the_event_takes_precedence_over_the_record() {
        let local = PmuEvent { source: Some(DataSource::LocalDram), ..LOADS };
        assert_eq!(sample(0x1000, 0, &local).and_then(|s| s.tier), Some(TierId(0)));
        let stores = PmuEvent { stores: true, keep_unknown: true, ..LOADS };
        let seen = sample(0x1000, 0, &stores).expect("a sample");
        assert_eq!((seen.tier, seen.write), (None, Some(true)));
    }

    #[test]
    fn without_the_event_the_error_says_why_and_names_another_tracker() {
        let none =
            PmuEvent { event: PerfEvent::Pmu { unit: 0x7fff_fff0, config: [0; 3] }, ..LOADS };
        let error = Sampler::open(&Root::default(), "pebs", &[none], TIERS, Nanos::ZERO)
            .err()
            .expect("no such unit");
        assert!(error.to_string().starts_with("PEBS is not available: perf_event_open"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("hint_faults")));
    }
}
