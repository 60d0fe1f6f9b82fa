// SPDX-License-Identifier: Apache-2.0
//! Accesses a second on one core: `cargo run --release -p neoprof --example bench`.

use neoprof::{Config, NeoProf};

/// CPU time of this process in ns. Unlike wall-clock time it does not depend on other load.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

fn main() {
    const ACCESSES: u32 = 100_000_000;
    let pages = 1 << 22;
    for (name, theta, span_log2) in [
        ("uniform over 16 GiB", 1000, 22),
        ("9 of 10 to 32 MiB of 16 GiB, these hot", 5000, 13),
        ("9 of 10 to 256 MiB of 16 GiB, these hot", 500, 16),
    ] {
        let mut neoprof = NeoProf::new(Config::default());
        neoprof.set_threshold(theta);
        let (mut x, mut hot) = (1u64, 0u64);
        let begun = cpu_ns();
        for _ in 0..ACCESSES {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let often = (x >> 20) % 1024 < 922;
            let span = if often { 1 << span_log2 } else { pages };
            neoprof.access((x >> 40) as u32 & (span - 1), x & 1 << 19 != 0);
            if neoprof.hot_len() > 1000 {
                hot += std::iter::from_fn(|| neoprof.pop_hot()).count() as u64;
            }
        }
        hot += neoprof.hot_len() as u64;
        let rate = f64::from(ACCESSES) * 1e3 / (cpu_ns() - begun) as f64;
        println!(
            "{name}: {rate:.1} M accesses/s, {hot} hot pages, error bound {}",
            neoprof.error_bound()
        );
    }
}
