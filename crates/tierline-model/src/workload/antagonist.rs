// SPDX-License-Identifier: Apache-2.0
//! antagonist: streams through a small buffer in fast memory, to load its interconnect.
//!
//! What it does: reads and writes, one to one and in sequence, a buffer that stays in the fastest tier. The
//! tiering system does not manage it.
//! Where it comes from: Colloid (SOSP'24, 2.1): 500 MB; 0x, 1x, 2x and 3x are 0, 5, 10 and 15 cores, which
//! alone use 0, 51, 65 and 70 % of the default tier's bandwidth.

use serde::Deserialize;
use tierline_core::port::PageKind;
use tierline_core::tier::TierId;
use tierline_core::unit::Bytes;

use super::program::{Layout, Memory, Phase, Placement, Program, Reach};
use crate::text;

/// Cores at intensity 1x.
const CORES: f64 = 5.0;

/// Its knobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Antagonist {
    /// Intensity in units of five cores: 0 to 3 in the paper.
    pub intensity: f64,
    /// The buffer.
    #[serde(deserialize_with = "text::quantity")]
    pub buffer: Bytes,
    /// Lines written per line read.
    pub writes: f64,
    /// The tier it loads.
    pub tier: TierId,
}

impl Default for Antagonist {
    fn default() -> Self {
        Self { intensity: 1.0, buffer: Bytes::from_mib(500), writes: 1.0, tier: TierId::FAST }
    }
}

impl Antagonist {
    /// The program.
    pub fn program(self) -> Result<Program, String> {
        if !(self.intensity >= 0.0 && self.intensity.is_finite()) {
            return Err(format!("intensity is {}, expected 0 or more", self.intensity));
        }
        Ok(Program {
            name: "antagonist".into(),
            bytes: self.buffer,
            kind: PageKind::Anonymous,
            threads: CORES * self.intensity,
            reach: Reach::Stream,
            writes_per_read: self.writes,
            reads_per_op: 1.0,
            unit: "lines",
            phases: vec![Phase::forever(vec![(self.buffer, 1.0)], Layout::Front)],
            placement: Placement::Pinned(self.tier),
            managed: false,
            memory: Memory::default(),
        })
    }
}
