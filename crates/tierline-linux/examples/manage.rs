// SPDX-License-Identifier: Apache-2.0
//! temp
use tierline_core::unit::Nanos;
use tierline_linux::manager::{Manager, Options};
use tierline_linux::process::Selection;
use tierline_linux::root::Root;
fn now() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut o = Options::default();
    if a.len() > 2 {
        o.tracker = Some(a[2].clone());
    }
    let mut m = Manager::new(
        &Root::default(),
        Selection { pids: vec![a[1].parse().unwrap()], ..Default::default() },
        o,
    )
    .unwrap();
    for n in m.notes() {
        println!("{n}");
    }
    let t0 = now();
    let mut next = t0;
    loop {
        let t = now();
        m.step(t);
        for p in m.take_problems() {
            println!("problem {p}");
        }
        if t >= next {
            next = t + Nanos::from_secs(1);
            let s = m.status(t);
            println!(
                "{:.1} cpu {:.2} moving {:.2} prom {} dem {} pp {} att {} samples {} fail {:?} rss {} meta {} tiers {:?}",
                (t - t0).as_secs_f64(),
                s.cpu_seconds,
                s.moving_seconds,
                s.promoted_pages,
                s.demoted_pages,
                s.ping_pong_pages,
                s.attention,
                s.samples,
                s.failed_moves,
                s.rss_bytes >> 20,
                s.metadata_bytes >> 20,
                s.tiers
                    .iter()
                    .map(|t| (t.free_bytes >> 20, t.managed_bytes >> 20))
                    .collect::<Vec<_>>()
            );
            if t > t0 + Nanos::from_secs(2) && m.is_alone() {
                break;
            }
        }
        let d = m.next_due().saturating_sub(now());
        std::thread::sleep(std::time::Duration::from_nanos(d.0.min(1_000_000_000)));
    }
}
