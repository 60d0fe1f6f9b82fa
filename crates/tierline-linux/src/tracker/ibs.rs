// SPDX-License-Identifier: Apache-2.0
//! IBS: one in so many operations, as AMD's CPUs record them.
//!
//! **What it does.** Tags one in so many operations of every CPU and records, where it was a load or a
//! store, its address and what answered it. What a cache answered is dropped here; where the CPU can
//! drop it by itself (`l3missonly`, Zen 4 and later) it does.
//!
//! **When it helps.** As PEBS: it sees the accesses that reach memory, of any tier.
//!
//! **When it hurts.** Without `l3missonly` nearly all records are thrown away, so the period must be
//! short, and costs. With it the CPU restarts the count after each record it drops, so that hits are
//! comparable with each other, but not exactly to count. Few virtual machines have it.
//!
//! **Knobs.** [`Settings`]: the period, and which tier each kind of memory is.
//!
//! **Where it comes from.** AMD's processor programming references; Linux `arch/x86/events/amd/ibs.c`.
//! Not tested on hardware yet: records are synthetic, opening fails cleanly where there is no IBS.

use tierline_core::unit::Nanos;

use crate::error::{Error, Result};
use crate::perf::Event;
use crate::root::Root;
use crate::tracker::list::TrackerEntry;
use crate::tracker::needs::may_sample;
use crate::tracker::pmu::{PmuEvent, Sampler, SourceTiers};

/// The tracker in the list.
pub const IBS: TrackerEntry = TrackerEntry {
    name: "ibs",
    sees: "sampled loads that miss the cache, with address and tier (AMD)",
    costs: "well below 1 % of the program at the default period",
    samples: true,
    made_for: |_| false,
    needs: |root| {
        vec![
            (root.exists(UNIT), "the unit ibs_op (AMD, not in a virtual machine)"),
            may_sample(root),
        ]
    },
    open: |at| Ok(Box::new(open(at.root, &Settings::default())?)),
};

const UNIT: &str = "/sys/bus/event_source/devices/ibs_op";

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Operations for one record; the kernel rounds it down to a multiple of 16.
    pub period: u64,
    /// Which tier each kind of memory is.
    pub tiers: SourceTiers,
    /// Time between polls.
    pub poll: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self { period: 100_000, tiers: SourceTiers::default(), poll: Nanos::from_millis(25) }
    }
}

/// Opens the unit.
///
/// # Errors
/// `Error::Missing` if the CPU has no IBS to offer.
pub fn open(root: &Root, settings: &Settings) -> Result<Sampler> {
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
        unit.ok_or_else(|| missing(format!("no {UNIT}: not AMD's CPU, or a virtual machine")))?;
    let mut config = [0; 3];
    // Count operations, not cycles: cycles favour slow ones, and the records are hits to be counted.
    set_bit(root, "cnt_ctl", &mut config);
    set_bit(root, "l3missonly", &mut config);
    // With it the kernel's records are dropped by the kernel; without, asking for that is refused.
    let user_only = set_bit(root, "swfilt", &mut config);
    Ok(PmuEvent {
        event: Event::Pmu { unit, config },
        period: (period / 16 * 16).max(16),
        precise: 0,
        user_only,
        source: None,
        counts_accesses: false,
        stores: false,
        keep_unknown: false,
    })
}

/// Sets the field `name` of the unit to one, where it has such a field.
fn set_bit(root: &Root, name: &str, config: &mut [u64; 3]) -> bool {
    let place = root.read(format!("{UNIT}/format/{name}")).ok();
    let Some((word, bit)) = place.as_deref().and_then(parse_format) else { return false };
    config[word] |= 1 << bit;
    true
}

/// Word and lowest bit of `config:16` or `config2:0-11`.
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
    fn what_the_unit_can_filter_is_switched_on() {
        let (_dir, root) = machine(&[
            ("type", "11\n"),
            ("format/cnt_ctl", "config:19\n"),
            ("format/l3missonly", "config:16\n"),
            ("format/swfilt", "config2:0\n"),
        ]);
        let found = event(&root, 100_001).expect("IBS");
        let config = [1 << 19 | 1 << 16, 0, 1];
        assert_eq!(found.event, Event::Pmu { unit: 11, config });
        assert_eq!((found.period, found.user_only), (100_000, true));
    }

    #[test]
    fn an_old_unit_is_used_as_it_is() {
        let (_dir, root) = machine(&[("type", "9"), ("format/cnt_ctl", "config:19")]);
        let found = event(&root, 5).expect("IBS");
        assert_eq!(found.event, Event::Pmu { unit: 9, config: [1 << 19, 0, 0] });
        assert_eq!((found.period, found.user_only), (16, false));
    }

    #[test]
    fn without_the_unit_the_error_says_so() {
        let (_dir, root) = machine(&[]);
        let error = open(&root, &Settings::default()).err().expect("no IBS");
        assert!(error.to_string().contains("no /sys/bus/event_source/devices/ibs_op"), "{error}");
    }

    #[test]
    fn nonsense_formats_are_ignored() {
        assert_eq!(parse_format("config1:0-11"), Some((1, 0)));
        assert_eq!(parse_format("config9:0"), None);
        assert_eq!(parse_format("config:64"), None);
        assert_eq!(parse_format(""), None);
    }
}
