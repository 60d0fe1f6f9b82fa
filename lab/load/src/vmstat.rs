// SPDX-License-Identifier: Apache-2.0
//! The kernel's counters of migrations, promotions, demotions and hint faults. They are system-wide, so the
//! guest must be otherwise idle.

use std::collections::BTreeMap;

/// Counters by name.
pub type Counters = BTreeMap<String, i64>;

/// Whether a counter of /proc/vmstat is about tiers.
fn of_interest(name: &str) -> bool {
    let prefixes = ["pgmigrate_", "pgpromote_", "pgdemote_", "numa_hint_", "thp_migration_"];
    let names = ["numa_pte_updates", "numa_huge_pte_updates", "numa_pages_migrated"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || names.contains(&name)
}

fn parse(text: &str) -> Counters {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| of_interest(name))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// The present counters; empty if /proc/vmstat cannot be read.
pub fn read() -> Counters {
    parse(&std::fs::read_to_string("/proc/vmstat").unwrap_or_default())
}

/// The difference of two readings.
pub fn delta(before: &Counters, after: &Counters) -> Counters {
    after.iter().filter_map(|(name, now)| Some((name.clone(), now - before.get(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counters_about_tiers_are_compared() {
        let before = parse("numa_hit 5\npgpromote_success 10\npgdemote_kswapd 1\n");
        let after = parse("numa_hit 9\npgpromote_success 17\npgdemote_kswapd 1\nodd\n");
        let delta = delta(&before, &after);
        assert_eq!(delta["pgpromote_success"], 7);
        assert_eq!(delta["pgdemote_kswapd"], 0);
        assert_eq!(delta.len(), 2);
    }
}
