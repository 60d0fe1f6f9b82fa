// SPDX-License-Identifier: Apache-2.0
//! `tierline bench engine`: the engine in a world that only reports samples.

use anyhow::Result;
use serde::Serialize;
use tierline_core::engine::Engine;
use tierline_core::policy::entry::PolicyEntry;
use tierline_core::port::{
    Attention, Capabilities, Observations, Order, Outcome, PageKind, PageSize, Question, Region,
    Sample, SpaceEvent, SpaceId, Telemetry, TenantId, TierTelemetry, Tracking, Vpn, World,
};
use tierline_core::qos::Limits;
use tierline_core::rng::Rng;
use tierline_core::tier::{NodeId, Tier, TierId, Tiers};
use tierline_core::unit::{Bytes, BytesPerSec, Nanos};

use super::{Globals, Speeds, cpu_seconds};
use crate::print::{self, row};

/// 1 TiB in base pages; `HOT` of them are hot and in fast memory.
const PAGES: u64 = 1 << 28;
const HOT: u64 = 1 << 20;
const SPACE: SpaceId = SpaceId(1);
/// Time between ticks.
const TICK: Nanos = Nanos::from_millis(100);
/// Ticks before the measured ones, in which the tables of the hot pages are created.
const WARM_UP: u32 = 60;

#[derive(Serialize)]
struct Speed {
    samples_per_second: f64,
    tick_seconds: f64,
    managed_pages: u64,
    samples_per_tick: u32,
    bytes_per_base_page: f64,
}

/// Reports samples that were drawn before.
struct DrawnSamples {
    samples: Vec<Sample>,
    first: bool,
}

impl World for DrawnSamples {
    fn observe(&mut self, _: Nanos, out: &mut Observations) {
        if std::mem::take(&mut self.first) {
            out.space_events.push(SpaceEvent::Mapped(Region {
                space: SPACE,
                start: Vpn(0),
                base_pages: PAGES,
                size: PageSize::Base,
                kind: PageKind::Anonymous,
            }));
        }
        out.watched = Nanos::from_millis(1);
        out.samples.append(&mut self.samples);
    }

    fn measure(&mut self, _: Nanos) -> Telemetry {
        Telemetry { tiers: vec![TierTelemetry::default(); 2], ..Telemetry::default() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn act(&mut self, _: Nanos, orders: &[Order], out: &mut Vec<Outcome>) -> Nanos {
        out.extend(orders.iter().map(|_| Outcome::NoRoom));
        Nanos::ZERO
    }

    fn set_attention(&mut self, _: Attention) {}

    fn configure_tracking(&mut self, _: Tracking) -> bool {
        false
    }

    fn limit_cpu(&mut self, _: TenantId, _: f64) {
        unreachable!("not offered")
    }

    fn check_accessed(&mut self, _: Nanos, _: &[Question], _: &mut Vec<bool>) {
        unreachable!("not offered")
    }
}

fn draw(rng: &mut Rng, count: u32, samples: &mut Vec<Sample>) {
    samples.extend((0..count).map(|_| {
        let hot = rng.below(10) > 0;
        // Hot pages are spread evenly, one in every 256.
        let vpn = if hot { rng.below(HOT) * (PAGES / HOT) } else { rng.below(PAGES) };
        let fast = vpn % (PAGES / HOT) == 0;
        Sample {
            space: SPACE,
            vpn: Vpn(vpn),
            base_pages: 1,
            hits: 1.0,
            exposure: None,
            tier: Some(TierId(u8::from(!fast))),
            write: None,
        }
    }));
}

fn tiers() -> Tiers {
    let tier = |name: &str, node: u16, capacity: Bytes, ns: u64| Tier {
        name: name.into(),
        nodes: vec![NodeId(node)],
        capacity,
        latency: Some(Nanos(ns)),
        bandwidth: None,
    };
    let all = Bytes::from_base_pages(PAGES);
    Tiers(vec![tier("fast", 0, Bytes::from_base_pages(HOT), 80), tier("slow", 1, all, 200)])
}

/// Measures and prints.
pub fn run(samples: u32, ticks: u32, globals: &Globals) -> Result<u8> {
    let policy = (PolicyEntry::find("tierline").expect("the default policy").make)();
    let limits = Limits::default();
    let mut engine = Engine::new(tiers(), limits, policy, BytesPerSec(u64::MAX));
    let mut world = DrawnSamples { samples: Vec::new(), first: true };
    let (mut rng, mut now, mut spent) = (Rng::new(1), Nanos::ZERO, 0.0);
    for tick in 0..WARM_UP + ticks {
        draw(&mut rng, samples, &mut world.samples);
        now += TICK;
        let before = cpu_seconds();
        engine.tick(now, &mut world);
        if tick >= WARM_UP {
            spent += cpu_seconds() - before;
        }
    }
    let tick_seconds = spent / f64::from(ticks.max(1));
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let speed = Speed {
        samples_per_second: f64::from(samples) / tick_seconds,
        tick_seconds,
        managed_pages: engine.pages().base_pages(),
        samples_per_tick: samples,
        bytes_per_base_page: engine.pages().metadata_bytes() as f64 / PAGES as f64,
    };
    match globals.json {
        true => print::json(&Speeds { runs: vec![speed] })?,
        false => print::out(&describe(&speed))?,
    }
    Ok(0)
}

fn describe(speed: &Speed) -> String {
    print::table(&[
        row(["samples per CPU s", "tick ms", "pages", "samples per tick", "metadata per page"]),
        row([
            &format!("{:.2e}", speed.samples_per_second),
            &format!("{:.2}", speed.tick_seconds * 1e3),
            &speed.managed_pages.to_string(),
            &speed.samples_per_tick.to_string(),
            &format!("{:.2} B", speed.bytes_per_base_page),
        ]),
    ])
}
