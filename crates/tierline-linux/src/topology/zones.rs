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
}

impl Zone {
    /// Free pages that a migrated page can use without waking kswapd: free less the watermark (`promo` if the
    /// kernel tiers by itself, otherwise `high`) less the protection of lower zones.
    pub fn usable(&self, is_kernel_tiering: bool) -> u64 {
        let mark = if is_kernel_tiering { self.high.max(self.promo) } else { self.high };
        self.free.saturating_sub(mark).saturating_sub(self.protection)
    }
}

/// The free bytes of `node` that pages can be moved to; see [`Zone::usable`].
pub fn usable(zones: &[Zone], node: NodeId, is_kernel_tiering: bool) -> Bytes {
    let pages =
        zones.iter().filter(|zone| zone.node == node).map(|zone| zone.usable(is_kernel_tiering));
    Bytes::from_base_pages(pages.sum())
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
    fn watermarks_are_taken_off_the_free_pages() {
        let zones = parse(TEXT);
        assert_eq!(zones.len(), 2, "an empty zone is left out");
        assert_eq!((zones[0].min, zones[0].high, zones[0].promo), (100, 150, 175));
        assert_eq!(usable(&zones, NodeId(0), false), Bytes::from_base_pages(1000 - 150 - 40));
        assert_eq!(usable(&zones, NodeId(0), true), Bytes::from_base_pages(1000 - 175 - 40));
        assert_eq!(usable(&zones, NodeId(1), true), Bytes::from_base_pages(450));
    }

    #[test]
    fn malformed_lines_are_skipped() {
        assert!(parse("").is_empty());
        assert!(parse("pages free 3\nNode x, zone y\n managed 3").is_empty());
        assert_eq!(parse("Node 0, zone N\n  pages free z\n  managed 5")[0].free, 0);
    }
}
