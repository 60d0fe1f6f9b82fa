// SPDX-License-Identifier: Apache-2.0
//! `/proc/zoneinfo`: the free memory of a node that the kernel reserves for itself.

use serde::Serialize;
use tierline_core::tier::NodeId;
use tierline_core::unit::Bytes;

use crate::error::Result;
use crate::root::Root;

/// One memory zone of a node. All figures are base pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// The node it belongs to.
    pub node: NodeId,
    /// `DMA`, `DMA32`, `Normal`, `Movable`, `Device`.
    pub name: String,
    /// Free pages.
    pub free: u64,
    /// Below this the kernel serves only emergency allocations.
    pub min: u64,
    /// Below this kswapd wakes up.
    pub low: u64,
    /// kswapd frees up to this.
    pub high: u64,
    /// kswapd frees up to this if `kernel.numa_balancing` has bit 2 set; zero on old kernels.
    pub promo: u64,
    /// Pages managed by the allocator.
    pub managed: u64,
    /// Pages reserved against allocations that a higher zone could serve (`protection`, its largest).
    pub protection: u64,
    /// Pages that a CPU takes into its list at once, at least.
    pub batch: u64,
}

/// A CPU takes up to this many batches into its list at once, without another look at the watermarks
/// (`CONFIG_PCP_BATCH_SCALE_MAX` is 5).
const BATCHES: u64 = 32;

impl Zone {
    /// Pages that must be free for the next one to be used without waking kswapd: the watermark (`promo` if the kernel tiers by
    /// itself, otherwise `high`), the protection of lower zones, and what a CPU may take for its list.
    pub fn reserved(&self, is_kernel_tiering: bool) -> u64 {
        let mark = if is_kernel_tiering { self.high.max(self.promo) } else { self.high };
        (mark + self.protection + self.batch * BATCHES).min(self.managed)
    }
}

/// The bytes of `node` that must be free; see [`Zone::reserved`].
pub fn reserved(zones: &[Zone], node: NodeId, is_kernel_tiering: bool) -> Bytes {
    let here = zones.iter().filter(|zone| zone.node == node);
    Bytes::from_base_pages(here.map(|zone| zone.reserved(is_kernel_tiering)).sum())
}

/// Reads every zone that has memory.
///
/// # Errors
/// `Error::File` if `/proc/zoneinfo` cannot be read.
pub fn read(root: &Root) -> Result<Vec<Zone>> {
    root.read("/proc/zoneinfo").map(|text| parse(&text))
}

/// Unknown lines are skipped: the file grows with every kernel.
pub fn parse(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    // `high` occurs again for every CPU's page lists below `pagesets`.
    let mut counters = false;
    for line in text.lines() {
        if let Some(zone) = heading(line) {
            zones.push(zone);
            counters = false;
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        let line = line.trim_start();
        if let Some(batch) = line.strip_prefix("batch:") {
            zone.batch = batch.trim().parse().unwrap_or(0);
        }
        // Most lines are statistics, and page lists of every CPU.
        if !counters && !line.starts_with("pages") {
            continue;
        }
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("pages"), Some("free"), Some(value)) => {
                counters = true;
                zone.free = value.parse().unwrap_or(0);
            }
            (Some("protection:"), ..) => {
                zone.protection = protection(line);
                counters = false;
            }
            (Some("pagesets"), ..) => counters = false,
            (Some(name), Some(value), None) => set(zone, name, value.parse().unwrap_or(0)),
            _ => {}
        }
    }
    zones.retain(|zone| zone.managed > 0);
    zones
}

fn heading(line: &str) -> Option<Zone> {
    let (node, name) = line.strip_prefix("Node ")?.split_once(", zone")?;
    Some(Zone { node: NodeId(node.parse().ok()?), name: name.trim().into(), ..Zone::default() })
}

fn set(zone: &mut Zone, name: &str, value: u64) {
    match name {
        "min" => zone.min = value,
        "low" => zone.low = value,
        "high" => zone.high = value,
        "promo" => zone.promo = value,
        "managed" => zone.managed = value,
        _ => {}
    }
}

fn protection(line: &str) -> u64 {
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Node 0, zone   Normal
  per-node stats
      nr_inactive_anon 2229
  pages free     1000
        boost    0
        min      100
        low      125
        high     150
        promo    175
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 0, 40)
      nr_free_pages 1000
  pagesets
    cpu: 0
              count:    1
              high:     378
              batch:    3
Node 0, zone  Movable
  pages free     0
        high     32
        managed  0
        protection: (0, 0, 0)
Node 1, zone  Movable
  pages free     500
        min      1
        high     50
        managed  600
";

    #[test]
    fn watermarks_and_what_a_cpu_takes_at_once_are_reserved() {
        let zones = parse(TEXT);
        assert_eq!(zones.len(), 2, "an empty zone is left out");
        assert_eq!((zones[0].min, zones[0].high, zones[0].promo), (100, 150, 175));
        let pages = |node, kernel| reserved(&zones, NodeId(node), kernel).base_pages();
        assert_eq!(pages(0, false), 150 + 40 + 32 * 3);
        assert_eq!(pages(0, true), 175 + 40 + 32 * 3);
        assert_eq!(pages(1, true), 50);
    }

    /// The protection of a small zone against a large one is larger than itself.
    #[test]
    fn a_zone_reserves_no_more_than_it_has() {
        let zones = parse(&TEXT.replace("(0, 0, 40)", "(0, 0, 9000)"));
        assert_eq!(reserved(&zones, NodeId(0), false).base_pages(), 3840);
    }

    #[test]
    fn malformed_lines_are_skipped() {
        assert!(parse("").is_empty());
        assert!(parse("pages free 3\nNode x, zone y\n managed 3").is_empty());
        assert_eq!(parse("Node 0, zone N\n  pages free z\n  managed 5")[0].free, 0);
    }
}
