// SPDX-License-Identifier: Apache-2.0
//! A seed determines a run, traffic and results, whatever else the process simulates at that time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};

use crate::campaign;
use crate::dut::{Dut, In, Shape};
use crate::lockstep::{Fingerprint, Lockstep};

const CYCLES: u64 = 400_000;
const PARTS: u64 = 8;

/// Runs a seed alone, then twice at once beside other hardware that is made and stepped, also in the same threads.
pub fn run(library: &Path, shape: &Shape, seed: u64, recorded: &[(u32, bool)]) -> Result<()> {
    let alone = fingerprint(library, shape, seed, recorded, false)?;
    let done = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        let twice =
            [(); 2].map(|()| scope.spawn(|| fingerprint(library, shape, seed, recorded, true)));
        let others = scope.spawn(|| -> Result<()> {
            for other in 1.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                disturb(library, other)?;
            }
            Ok(())
        });
        let both = twice.map(|run| run.join().expect("no panic"));
        done.store(true, Ordering::Relaxed);
        others.join().expect("no panic")?;
        both.into_iter().collect::<Result<Vec<_>>>()
    })?;
    for found in beside {
        ensure!(found == alone, "seed {seed}: {alone:x?} alone, {found:x?} beside others");
    }
    let other = fingerprint(library, shape, seed + 1, recorded, false)?;
    ensure!(
        other.traffic != alone.traffic && other.results != alone.results,
        "two seeds give the same run"
    );
    Ok(())
}

fn fingerprint(
    library: &Path,
    shape: &Shape,
    seed: u64,
    recorded: &[(u32, bool)],
    disturbed: bool,
) -> Result<Fingerprint> {
    let mut pair = Lockstep::new(Dut::new(library, seed)?, shape, seed)?;
    for part in 1..=PARTS {
        campaign::run(&mut pair, recorded, part * CYCLES / PARTS)?;
        if disturbed {
            disturb(library, part)?;
        }
    }
    Ok(pair.fingerprint)
}

/// Other hardware comes and goes.
fn disturb(library: &Path, seed: u64) -> Result<()> {
    let mut dut = Dut::new(library, seed)?;
    for step in 0..100 {
        let (mem_edge, core_edge) = (step % 2 == 0, step % 3 == 0);
        dut.step(&In { mem_edge, core_edge, reset: step < 8, access: true, ..In::default() });
    }
    Ok(())
}
