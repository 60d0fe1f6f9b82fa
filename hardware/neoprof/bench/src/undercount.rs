// SPDX-License-Identifier: Apache-2.0
//! Under-counting of a pipeline without forwarding: how many accesses a page needs until it is reported.

use std::path::Path;

use anyhow::Result;
use neoprof::registers as reg;

use crate::dut::{Dut, Mutant, Shape, Workshop};
use crate::lockstep::Lockstep;

const THETA: u64 = 100;

/// Prints the accesses until a page is reported, for accesses one to eight cycles apart.
pub fn print(workshop: &Workshop, shape: &Shape) -> Result<()> {
    let naive = Mutant {
        name: "naive".to_owned(),
        file: "match.sv".to_owned(),
        find: "valids1[d] && &equal1[d];".to_owned(),
        replace: "1'b0;".to_owned(),
    };
    let libraries = [
        ("ours", workshop.build("ours", shape, None)?),
        ("naive", workshop.build("naive", shape, Some(&naive))?),
    ];
    for distance in 1..=8 {
        for (pipeline, library) in &libraries {
            let accesses = until_hot(library, shape, distance)?;
            println!(
                r#"{{"pipeline": "{pipeline}", "distance": {distance}, "theta": {THETA}, "accesses": {accesses}}}"#
            );
        }
    }
    Ok(())
}

/// The least number of accesses, `distance` cycles apart, after which a page is reported.
fn until_hot(library: &Path, shape: &Shape, distance: u32) -> Result<u32> {
    let mut pair = Lockstep::new(Dut::new(library, 1)?, shape, 1)?;
    pair.write(reg::SET_THRESHOLD, THETA)?;
    let (mut too_few, mut enough) = (0, 4096);
    while enough - too_few > 1 {
        let accesses = (too_few + enough) / 2;
        for _ in 0..accesses {
            pair.access(Some((7, false)));
            (1..distance).for_each(|_| pair.access(None));
        }
        pair.settle()?;
        let reported = pair.waiting()? > 0;
        *(if reported { &mut enough } else { &mut too_few }) = accesses;
        pair.write(reg::RESET, 1)?;
        pair.settle()?;
    }
    Ok(enough)
}
