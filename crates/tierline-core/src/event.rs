// SPDX-License-Identifier: Apache-2.0
//! Typed events and the fingerprint over them. The same seed and the same code give the same fingerprint.

use serde::Serialize;

use crate::port::{Attention, Move, Order, Outcome, PageAddress};
use crate::unit::Nanos;

/// What happened in the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A move was attempted.
    Move {
        /// When.
        #[serde(rename = "at_ns")]
        at: Nanos,
        /// The move, with its reason.
        #[serde(flatten)]
        moved: Move,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A page moved back soon after the opposite move.
    PingPong {
        /// When.
        #[serde(rename = "at_ns")]
        at: Nanos,
        /// The second of the two moves.
        #[serde(flatten)]
        moved: Move,
    },
    /// A page-out was attempted.
    PageOut {
        /// When.
        #[serde(rename = "at_ns")]
        at: Nanos,
        /// The page.
        #[serde(flatten)]
        page: PageAddress,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A split of a huge page was attempted.
    Split {
        /// When.
        #[serde(rename = "at_ns")]
        at: Nanos,
        /// The huge page.
        #[serde(flatten)]
        page: PageAddress,
        /// Its outcome.
        outcome: Outcome,
    },
    /// Trackers change how closely they observe.
    Attend {
        /// When.
        #[serde(rename = "at_ns")]
        at: Nanos,
        /// The new level.
        attention: Attention,
    },
}

impl Event {
    /// The event of an order with its outcome.
    pub(crate) fn of(at: Nanos, order: Order, outcome: Outcome) -> Self {
        match order {
            Order::Move(moved) | Order::MoveShared(moved) => Self::Move { at, moved, outcome },
            Order::PageOut(page) => Self::PageOut { at, page, outcome },
            Order::Split(page) => Self::Split { at, page, outcome },
        }
    }

    /// Whether a huge page was split.
    pub fn is_split(&self) -> bool {
        matches!(self, Self::Split { outcome: Outcome::Done, .. })
    }
}

/// A running hash of all events, in order: FNV-1a over their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Fingerprint(pub u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        match *event {
            Event::Move { at, moved, outcome } => {
                self.words(&[1, at.0]);
                self.moved(&moved);
                self.words(&[match outcome {
                    Outcome::Done => 0,
                    Outcome::Busy => 1,
                    Outcome::NoRoom => 2,
                    Outcome::PageGone => 3,
                    Outcome::SpaceGone => 4,
                    Outcome::Refused => 5,
                    Outcome::Skipped => 6,
                    Outcome::Dirtied => 7,
                    Outcome::Shared => 8,
                    Outcome::Elsewhere(tier) => 16 + u64::from(tier.0),
                }]);
            }
            Event::PingPong { at, moved } => {
                self.words(&[2, at.0]);
                self.moved(&moved);
            }
            Event::Attend { at, attention } => {
                self.words(&[3, at.0, attention as u64]);
            }
            Event::PageOut { at, page, outcome } => {
                let PageAddress { space, vpn, size } = page;
                let done = u64::from(outcome == Outcome::Done);
                self.words(&[4, at.0, space.0.into(), vpn.0, size.base_pages(), done]);
            }
            Event::Split { at, page, outcome } => {
                let done = u64::from(outcome == Outcome::Done);
                self.words(&[5, at.0, page.space.0.into(), page.vpn.0, done]);
            }
        }
    }

    fn moved(&mut self, m: &Move) {
        self.words(&[
            u64::from(m.space.0),
            m.vpn.0,
            m.size.base_pages(),
            u64::from(m.from.0),
            u64::from(m.to.0),
            m.reason.code(),
            u64::from(m.reason.rate_per_sec().to_bits()),
        ]);
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.bytes(&word.to_le_bytes()));
    }

    /// FNV-1a, 64 bit.
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of the FNV reference (Fowler, Noll, Vo; RFC 9923), and words as little-endian bytes.
    #[test]
    fn the_hash_matches_the_published_fnv_1a_vectors() {
        let vectors: [(&[u8], u64); 3] = [
            (b"", 0xcbf2_9ce4_8422_2325),
            (b"a", 0xaf63_dc4c_8601_ec8c),
            (b"foobar", 0x8594_4171_f739_67e8),
        ];
        for (text, expected) in vectors {
            let mut hash = Fingerprint::default();
            hash.bytes(text);
            assert_eq!(hash.0, expected, "{text:?}");
        }
        let (mut word, mut bytes) = (Fingerprint::default(), Fingerprint::default());
        word.words(&[u64::from_le_bytes(*b"foobar\0\0")]);
        bytes.bytes(b"foobar\0\0");
        assert_eq!(word, bytes);
    }

    #[test]
    fn order_matters() {
        let a = Event::Attend { at: Nanos(1), attention: Attention::Calm };
        let b = Event::Attend { at: Nanos(2), attention: Attention::Alert };
        let of = |events: [Event; 2]| {
            let mut f = Fingerprint::default();
            events.iter().for_each(|e| f.add(e));
            f
        };
        assert_ne!(of([a, b]), of([b, a]));
    }
}
