// SPDX-License-Identifier: Apache-2.0
//! IBS: AMD's CPUs record one operation per sampling period.
//!
//! **What it does.** Tags one operation per sampling period on every CPU and records, for a load or a store,
//! its address and the source of its data. Accesses served by a cache are dropped here, or by the CPU itself
//! if it can (`l3missonly`, Zen 4 and later).
//!
//! **When it helps.** As for PEBS: it observes the accesses that reach memory, of any tier.
//!
//! **When it hurts.** Without `l3missonly` nearly all records are dropped, so the period must be short, which
//! costs time. With it the CPU restarts the count after each record it drops, so hits can be compared with
//! each other, but are not an exact count. Few virtual machines have it.
//!
//! **Knobs.** [`IbsSettings`]: the period, and the tier of each kind of memory.
//!
//! **Where it comes from.** AMD's processor programming references; Linux `arch/x86/events/amd/ibs.c`.
//! Not tested on hardware yet: tests use synthetic records, and opening gives an error if there is no IBS.

use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::perf::PerfEvent;
use crate::root::Root;
use crate::tracker::entry::TrackerEntry;
use crate::tracker::needs::may_sample;
use crate::tracker::pmu::{PmuEvent, Sampler, SourceTiers};

/// The tracker in the list.
pub const IBS: TrackerEntry = TrackerEntry {
    name: "ibs",
    sees: "sampled loads that miss the cache, with address and tier (AMD)",
    costs: "well below 1 % of the program at the default period",
    samples: true,
    needs: |root| {
        vec![
            (root.exists(UNIT), "the unit ibs_op (AMD, not in a virtual machine)"),
            may_sample(root),
        ]
    },
    open: |at| Ok(Box::new(open(at.root, &IbsSettings::default())?)),
};

const UNIT: &str = "/sys/bus/event_source/devices/ibs_op";

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IbsSettings {
    /// Operations per record; the kernel rounds it down to a multiple of 16.
    pub period: u64,
    /// The tier of each kind of memory.
    pub tiers: SourceTiers,
    /// Time between polls.
    pub poll: Nanos,
}

impl Default for IbsSettings {
    fn default() -> Self {
        Self { period: 100_000, tiers: SourceTiers::default(), poll: Nanos::from_millis(25) }
    }
}

/// Opens the unit.
///
/// # Errors
/// `Error::Missing` if the CPU has no IBS.
pub fn open(root: &Root, settings: &IbsSettings) -> Result<Sampler> {
    let event = event(root, settings.period)?;
    Sampler::open(root, IBS.name, &[event], settings.tiers, settings.poll)
}

fn event(root: &Root, period: u64) -> Result<PmuEvent> {
    let missing = |why: String| Error::Missing {
        what: "IBS".into(),
        why,
        hint: "try --tracker pebs on Intel, --tracker hint_faults anywhere".into(),
    };
    let unit = root.read_number(format!("{UNIT}/type"));
    let unit = unit.ok().and_then(|unit| u32::try_from(unit).ok());
    let unit =
        unit.ok_or_else(|| missing(format!("no {UNIT}: not an AMD CPU, or a virtual machine")))?;
    let mut config = [0; 3];
    // Count operations, not cycles: cycles favour slow operations, and the records are counted as hits.
    set_bit(root, "cnt_ctl", &mut config);
    set_bit(root, "l3missonly", &mut config);
    // With it the kernel drops records of the kernel; without it, that request is refused.
    let user_only = set_bit(root, "swfilt", &mut config);
    Ok(PmuEvent {
        event: PerfEvent::Pmu { unit, config },
        period: (period / 16 * 16).max(16),
        precise: 0,
        user_only,
        source: None,
        counts_accesses: false,
        stores: false,
        keep_unknown: false,
    })
}

/// Sets the field `name` of the unit to one, if the unit has it.
fn set_bit(root: &Root, name: &str, config: &mut [u64; 3]) -> bool {
    let place = root.read(format!("{UNIT}/format/{name}")).ok();
    let Some((word, bit)) = place.as_deref().and_then(parse_format) else { return false };
    config[word] |= 1 << bit;
    true
}

/// Parses `config:16` or `config2:0-11`: the word and its lowest bit.
fn parse_format(text: &str) -> Option<(usize, u32)> {
    let (word, bits) = text.trim().split_once(':')?;
    let word = ["config", "config1", "config2"].iter().position(|name| *name == word)?;
    let bit = bits.split('-').next()?.parse().ok()?;
    (bit < u64::BITS).then_some((word, bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        for (path, text) in files {
            let real = root.path(format!("{UNIT}/{path}"));
            std::fs::create_dir_all(real.parent().expect("a parent")).expect("a folder");
            std::fs::write(real, text).expect("a file");
        }
        (dir, root)
    }

    #[test]
    fn the_units_filters_are_switched_on() {
        let (_dir, root) = machine(&[
            ("type", "11\n"),
            ("format/cnt_ctl", "config:19\n"),
            ("format/l3missonly", "config:16\n"),
            ("format/swfilt", "config2:0\n"),
        ]);
        let found = event(&root, 100_001).expect("IBS");
        let config = [1 << 19 | 1 << 16, 0, 1];
        assert_eq!(found.event, PerfEvent::Pmu { unit: 11, config });
        assert_eq!((found.period, found.user_only), (100_000, true));
    }

    #[test]
    fn an_old_unit_is_used_as_it_is() {
        let (_dir, root) = machine(&[("type", "9"), ("format/cnt_ctl", "config:19")]);
        let found = event(&root, 5).expect("IBS");
        assert_eq!(found.event, PerfEvent::Pmu { unit: 9, config: [1 << 19, 0, 0] });
        assert_eq!((found.period, found.user_only), (16, false));
    }

    #[test]
    fn without_the_unit_the_error_names_it() {
        let (_dir, root) = machine(&[]);
        let error = open(&root, &IbsSettings::default()).err().expect("no IBS");
        assert!(error.to_string().contains("no /sys/bus/event_source/devices/ibs_op"), "{error}");
    }

    #[test]
    fn malformed_formats_are_ignored() {
        assert_eq!(parse_format("config1:0-11"), Some((1, 0)));
        assert_eq!(parse_format("config9:0"), None);
        assert_eq!(parse_format("config:64"), None);
        assert_eq!(parse_format(""), None);
    }
}
