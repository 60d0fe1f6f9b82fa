//! scratch
use tierline_model::{run::run, scenario::Scenario};
fn main() {
    for f in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&f).unwrap();
        let mut s = Scenario::parse(&f, &text).unwrap();
        if let Some(m) = text.lines().find_map(|l| l.strip_prefix("# machine_file ")) {
            s.machine_text = Some(std::fs::read_to_string(m).unwrap());
        }
        let t = std::time::Instant::now();
        let r = run(&s).unwrap();
        println!("== {f} {} {:.1}s", r.policy, t.elapsed().as_secs_f64());
        let p = &r.steady.programs[0];
        println!(
            "thr {:.4e} shares {:.3?} stalled {:.5} lat {:?} prom {:.2}MB/s dem {:.2}MB/s free {:?}",
            p.throughput,
            p.shares,
            p.stalled,
            r.steady.tiers.iter().map(|t| t.latency_ns).collect::<Vec<_>>(),
            r.steady.promoted_bytes_per_second * 1e-6,
            r.steady.demoted_bytes_per_second * 1e-6,
            r.steady.tiers.iter().map(|t| t.free_bytes.0 >> 20).collect::<Vec<_>>()
        );
        for m in &p.memory {
            println!(
                "  {:9} acc {:.3} shares {:.3?} MiB {:?} hot {:?}",
                m.name,
                m.of_accesses,
                m.shares,
                m.bytes.iter().map(|b| b.0 >> 20).collect::<Vec<_>>(),
                m.hot_bytes.iter().map(|b| b.0 >> 20).collect::<Vec<_>>()
            );
        }
        println!("  {:?}", r.moves);
    }
}
