// SPDX-License-Identifier: Apache-2.0
//! The capacity of a tier, as a function of the share `w` of writes in its traffic.
//!
//!
//! - Half duplex (DDR, HBM): `1/C(w) = (1−w)/Cr + w/Cw + 4·w·(1−w)·T`: reads, writes, and the time to turn the
//!   bus around, which is longest at an even mix.
//! - Full duplex (UPI, CXL): `C(w) = min(D / max(w, 1−w), M)`. Reads and writes have one direction each, and
//!   protocol overhead limits their sum.
//!
//! Both are homogeneous, so utilisation follows from read and write traffic without dividing by the mix: `u =
//! R/Cr + W/Cw + 4·T·R·W/(R+W)`, and `u = max(R/D, W/D, (R+W)/M)`.

/// The capacity law of a tier. Bandwidths in GB/s, that is bytes per ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// One bus for both directions.
    HalfDuplex {
        /// `Cr`: reads only.
        read: f64,
        /// `Cw`: writes only.
        write: f64,
        /// `T`: bus turnaround time per byte, ns.
        turnaround: f64,
    },
    /// One link for each direction.
    FullDuplex {
        /// `D`: one direction.
        direction: f64,
        /// `M`: both directions together.
        total: f64,
    },
}

/// Utilisation, and its derivatives by read and write traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    pub utilisation: f64,
    pub by_read: f64,
    pub by_write: f64,
}

impl Capacity {
    /// The half-duplex law from three measured peaks: reads only, writes only, one to one.
    pub fn half_duplex(read: f64, write: f64, even: f64) -> Self {
        Self::HalfDuplex { read, write, turnaround: 1.0 / even - 0.5 / read - 0.5 / write }
    }

    /// The maximum traffic for a share of writes.
    pub fn gb_per_s(&self, write_share: f64) -> f64 {
        1.0 / self.usage(1.0 - write_share, write_share).utilisation
    }

    /// Utilisation for `read` and `write` GB/s; above 1 if that exceeds the capacity.
    pub fn utilisation(&self, read: f64, write: f64) -> f64 {
        self.usage(read, write).utilisation
    }

    /// Whether all figures are finite, and more traffic always means more utilisation.
    pub fn is_sound(&self) -> bool {
        match *self {
            Self::HalfDuplex { read, write, turnaround } => {
                let positive = read > 0.0 && write > 0.0 && turnaround.is_finite();
                // A negative T (mixed traffic faster than the mean of the two) is limited.
                let rising = 1.0 / read + 4.0 * turnaround > 0.0;
                positive && rising && 1.0 / write + 4.0 * turnaround > 0.0
            }
            Self::FullDuplex { direction, total } => {
                direction > 0.0 && total >= direction && total.is_finite()
            }
        }
    }

    pub(super) fn usage(&self, reads: f64, writes: f64) -> Use {
        match *self {
            Self::HalfDuplex { read, write, turnaround } => {
                let sum = reads + writes;
                let share = if sum > 0.0 { writes / sum } else { 0.0 };
                let turn = 4.0 * turnaround;
                Use {
                    utilisation: reads / read + writes / write + turn * reads * share,
                    by_read: 1.0 / read + turn * share * share,
                    by_write: 1.0 / write + turn * (1.0 - share) * (1.0 - share),
                }
            }
            Self::FullDuplex { direction, total } => {
                let lane = if reads >= writes { (1.0, 0.0) } else { (0.0, 1.0) };
                let one = reads.max(writes) / direction;
                let both = (reads + writes) / total;
                if one >= both {
                    let by_read = lane.0 / direction;
                    Use { utilisation: one, by_read, by_write: lane.1 / direction }
                } else {
                    Use { utilisation: both, by_read: 1.0 / total, by_write: 1.0 / total }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_half_duplex_law_goes_through_its_three_peaks() {
        let c = Capacity::half_duplex(311.0, 260.0, 240.0);
        for (w, peak) in [(0.0, 311.0), (1.0, 260.0), (0.5, 240.0)] {
            assert!((c.gb_per_s(w) - peak).abs() < 1e-9, "{w}");
        }
    }

    /// UPI of the PROFET machine: 40 GB/s in one direction, 61 in both (PROFET).
    #[test]
    fn a_link_carries_more_in_both_directions_than_in_one() {
        let c = Capacity::FullDuplex { direction: 40.0, total: 61.0 };
        assert!((c.gb_per_s(0.0) - 40.0).abs() < 1e-9 && (c.gb_per_s(0.5) - 61.0).abs() < 1e-9);
        assert!((c.gb_per_s(0.9) - 40.0 / 0.9).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn derivatives_match_finite_differences(
            r in 1.0f64..200.0, w in 1.0f64..200.0, t in 0.0f64..0.002, half: bool,
        ) {
            let c = match half {
                true => Capacity::HalfDuplex { read: 300.0, write: 200.0, turnaround: t },
                false => Capacity::FullDuplex { direction: 100.0, total: 150.0 },
            };
            let (here, d) = (c.usage(r, w), 1e-6);
            let by_read = (c.utilisation(r + d, w) - here.utilisation) / d;
            let by_write = (c.utilisation(r, w + d) - here.utilisation) / d;
            // At a kink of the full-duplex law the two derivatives differ.
            let near = |x: f64| x.abs() < 1.0;
            let kink = !half && (near(r - w) || near(r.max(w) * 1.5 - r - w));
            prop_assert!(kink || (by_read - here.by_read).abs() < 1e-6);
            prop_assert!(kink || (by_write - here.by_write).abs() < 1e-6);
            prop_assert!(c.is_sound() && here.by_read >= 0.0 && here.by_write >= 0.0);
        }
    }
}
