// SPDX-License-Identifier: Apache-2.0
//! Phases of random configuration, clocks and traffic. Each ends with a complete comparison.

use anyhow::Result;
use neoprof::registers as reg;
use tierline_core::rng::Rng;

use crate::lockstep::{Clocks, Lockstep, PLAIN, Request};
use crate::traffic::Traffic;

/// Runs phases until `cycles` have passed or a mismatch was found.
pub fn run(pair: &mut Lockstep, recorded: &[(u32, bool)], cycles: u64) -> Result<()> {
    while pair.cycles < cycles && pair.mismatches == 0 {
        match pair.rng.below(5) {
            0 | 1 => encounters(pair)?,
            _ => phase(pair, recorded)?,
        }
    }
    Ok(())
}

fn phase(pair: &mut Lockstep, recorded: &[(u32, bool)]) -> Result<()> {
    configure(pair)?;
    let config = *pair.model.config();
    let mut rng = Rng::new(pair.rng.next_u64());
    let mut traffic = Traffic::draw(&mut rng, config.width_log2, recorded);
    let flood = rng.below(6) == 0;
    if flood {
        // More hot pages than any list can hold, the same ones every time: this reveals state that survives a
        // reset.
        let theta = rng.below(2);
        let enable = reg::CHMU_CONF0_ENABLE * rng.below(2);
        pair.write(reg::SET_THRESHOLD, theta)?;
        pair.write(reg::CHMU_BITMAP, u64::MAX)?;
        pair.write(reg::CHMU_CONF0, enable | reg::CHMU_CONF0_TRACK_BOTH | theta << 32)?;
        traffic = Traffic::Uniform { first: 0, pages: 1 << 16 };
    }
    let gaps = [0, 0, 0, 1, 2, 9][pick(&mut rng, 6)];
    let length = match traffic {
        Traffic::Bursts { left, .. } if left > 0 => 72_000,
        Traffic::Bursts { .. } => 20_000,
        _ if flood => 60_000,
        _ => [50, 1000, 5000, 40_000][pick(&mut rng, 4)],
    };
    // Of this many cycles, one has a request; 0: none has.
    let mut every = [0, 300, 40, 6][pick(&mut rng, 4)];
    if let Traffic::Bursts { left: 1.., .. } = traffic {
        // A reset would keep the counter from saturating.
        every = 0;
        pair.clocks = Clocks::Together;
    }
    for _ in 0..length {
        let idle = gaps > 0 && rng.below(10) < gaps;
        let access = if idle { None } else { Some(traffic.next(&mut rng, recorded)) };
        pair.access(access);
        if every > 0 && pair.queue.len() < 4 && rng.below(every) == 0 {
            let request = hostile(pair, &mut rng);
            let pause = [0, 0, 1, 7][pick(&mut rng, 4)];
            pair.queue.push_back((request, pause));
            if rng.below(8) == 0 {
                pair.queue.push_back((request, [0, 1, 2, 9][pick(&mut rng, 4)]));
            }
        }
    }
    pair.settle()?;
    pair.freeze()?;
    inspect(pair, &mut rng)
}

/// Few accesses and one request at a time, at every distance at which they can meet, mostly with full lists: what happens
/// in a single cycle is not hidden by the next access.
fn encounters(pair: &mut Lockstep) -> Result<()> {
    const FIRST: u64 = 6;
    const SPAN: u64 = 32;
    let mut rng = Rng::new(pair.rng.next_u64());
    // The memory's clock is sometimes so slow that its side is cleared long after the rest.
    let slow = if rng.below(4) == 0 { 8 << rng.below(4) } else { 1 };
    let config = *pair.model.config();
    pair.clocks = clocks(&mut rng);
    pair.write(reg::CONTROL, 0)?;
    pair.write(reg::CHMU_BITMAP, u64::MAX)?;
    pair.write(reg::SET_THRESHOLD, rng.below(2))?;
    for enable in [0, reg::CHMU_CONF0_ENABLE] {
        pair.write(reg::CHMU_CONF0, enable | reg::CHMU_CONF0_TRACK_BOTH)?;
        let capacity = if enable == 0 { config.fifo_log2 } else { config.ring_log2 };
        for _ in 0..(2 << capacity) * rng.below(2) {
            pair.access(Some(((rng.next_u64() & 0x3f_ffff) as u32, false)));
        }
        pair.settle()?;
    }
    if slow > 1 {
        pair.clocks = Clocks::Periods { mem: slow, core: 1 };
    }
    for _ in 0..200 / slow {
        let accesses = FIRST..FIRST + [1, 1, 2, 3][pick(&mut rng, 4)];
        let asked = rng.below(SPAN);
        for at in 0..2 * SPAN {
            if at == asked {
                let request = encountered(pair, &mut rng);
                pair.queue.push_back((request, [0, 1, 2, 3][pick(&mut rng, 4)]));
            } else if at > asked && pair.queue.is_empty() && rng.below(4) == 0 {
                let offset = [reg::CHMU_STATUS, reg::STATUS][pick(&mut rng, 2)];
                pair.queue.push_back((Request { write: false, offset, data: 0 }, 0));
            }
            let page = (rng.next_u64() & 0x3f_ffff) as u32;
            pair.access(accesses.contains(&at).then_some((page, rng.below(2) == 0)));
        }
        for offset in [reg::CHMU_STATUS, reg::GET_NR_WITHHELD] {
            pair.compare(offset)?;
        }
        if rng.below(4) != 0 {
            pair.write(reg::CHMU_STATUS, u64::MAX)?;
        }
    }
    pair.settle()?;
    pair.freeze()?;
    inspect(pair, &mut rng)
}

/// The request that accesses encounter: mostly one that changes what becomes of them.
fn encountered(pair: &mut Lockstep, rng: &mut Rng) -> Request {
    let write = |offset, data| Request { write: true, offset, data };
    let enable = pair.model.read(reg::CHMU_CONF0) & reg::CHMU_CONF0_ENABLE;
    match rng.below(12) {
        0..3 => write(
            reg::CHMU_CONF0,
            (enable ^ reg::CHMU_CONF0_ENABLE) | reg::CHMU_CONF0_TRACK_BOTH | rng.below(3) << 32,
        ),
        3 => write(reg::CHMU_STATUS, u64::MAX),
        4 => write(reg::CHMU_CONF2, rng.below(1 + (1 << pair.model.config().ring_log2))),
        5 => write(reg::CHMU_RING, (pair.model.read(reg::CHMU_RING) & 0xffff) + 1),
        6 => Request { write: false, offset: reg::GET_HOT_PAGE, data: 0 },
        7 => write(reg::RESET, rng.below(3).min(1)),
        8 => write(reg::SET_THRESHOLD, rng.below(3)),
        _ => hostile(pair, rng),
    }
}

fn pick(rng: &mut Rng, n: u64) -> usize {
    usize::try_from(rng.below(n)).unwrap_or(0)
}

/// A request in the midst of traffic: any register, the more harmful ones often.
fn hostile(pair: &mut Lockstep, rng: &mut Rng) -> Request {
    let read = |offset| Request { write: false, offset, data: 0 };
    let write = |offset, data| Request { write: true, offset, data };
    let entries = 1u64 << pair.model.config().ring_log2;
    let ring = pair.model.read(reg::CHMU_RING);
    let (head, tail) = (ring & 0xffff, ring >> 16);
    let theta = [rng.below(4), rng.below(60), rng.below(3000), u64::from(u32::MAX)][pick(rng, 4)];
    match rng.below(40) {
        0..6 => read(reg::GET_HOT_PAGE),
        6..8 => read(reg::GET_NR_HOT_PAGE),
        8..11 => read(reg::GET_HIST),
        11..13 => read(reg::GET_NR_HIST_BIN),
        13 => read(reg::STATUS),
        14 => read(reg::CHMU_STATUS),
        15..20 => read(PLAIN[pick(rng, PLAIN.len() as u64)]),
        20..23 => {
            let slot = if rng.below(4) == 0 {
                rng.below(2 * entries)
            } else {
                (head + rng.below(3)) % entries
            };
            read(reg::CHMU_HOTLIST + 8 * u32::try_from(slot).unwrap_or(0))
        }
        23..26 => write(reg::CHMU_RING, (head + rng.below(3)) % entries),
        26 => write(reg::CHMU_RING, [tail, rng.next_u64()][pick(rng, 2)]),
        27..30 => write(reg::SET_THRESHOLD, theta),
        30 | 31 => {
            let reset = if rng.below(8) == 0 { reg::CHMU_CONF0_RESET } else { 0 };
            let enable = reg::CHMU_CONF0_ENABLE * rng.below(2);
            write(
                reg::CHMU_CONF0,
                theta << 32 | enable | reset | [7, 4, rng.below(8)][pick(rng, 3)],
            )
        }
        32 => write(reg::CONTROL, rng.below(4)),
        33 => write(reg::CHMU_STATUS, rng.next_u64()),
        34 => write([reg::CHMU_CONF2, reg::CHMU_CONF1][pick(rng, 2)], rng.below(6)),
        35 => write(reg::CHMU_BITMAP, [u64::MAX, rng.next_u64()][pick(rng, 2)]),
        36 => write(reg::SAMPLE_INTERVAL, [0, 1, 2, 3, 7, 100, 0xffff_ffff][pick(rng, 7)]),
        37 | 38 => write(reg::SET_HIST_EN, rng.below(4).min(1)),
        _ if rng.below(3) == 0 => write(reg::RESET, rng.below(4).min(1)),
        _ => write(8 * u32::try_from(rng.below(0x20)).unwrap_or(0) + 8, rng.next_u64()),
    }
}

/// Clocks: equal, one faster, any ratio, with jitter, or standing still.
fn clocks(rng: &mut Rng) -> Clocks {
    match rng.below(8) {
        0..3 => Clocks::Together,
        3 => Clocks::Random { mem: 2, core: 1, of: 2 },
        4 => Clocks::Random { mem: 1, core: 2, of: 2 },
        5 => Clocks::Random { mem: 1 + rng.below(8), core: 1 + rng.below(8), of: 8 },
        6 => Clocks::Periods { mem: 1 + rng.below(5), core: 1 + rng.below(5) },
        _ => Clocks::Stalls { of_eight: rng.below(2) },
    }
}

/// Writes some registers; nothing is in progress.
fn configure(pair: &mut Lockstep) -> Result<()> {
    let mut rng = Rng::new(pair.rng.next_u64());
    pair.clocks = clocks(&mut rng);
    let theta = match rng.below(4) {
        0 => rng.below(4),
        1 => rng.below(40),
        2 => rng.below(2000),
        _ => rng.next_u64() & 0xffff_ffff,
    };
    match rng.below(3) {
        0 => pair.write(reg::SET_THRESHOLD, theta)?,
        1 => pair.write(reg::CONTROL, rng.next_u64() & rng.next_u64())?,
        _ => {}
    }
    if rng.below(4) == 0 {
        let track = [1, 2, 3, 4, 7, 0][pick(&mut rng, 6)];
        let enable = reg::CHMU_CONF0_ENABLE * rng.below(2);
        let reset = if rng.below(4) == 0 { reg::CHMU_CONF0_RESET } else { 0 };
        pair.write(reg::CHMU_CONF0, track | enable | reset | theta << 32)?;
    }
    if rng.below(8) == 0 {
        pair.write(reg::CHMU_BITMAP, rng.next_u64() | 1)?;
        pair.write(reg::CHMU_CONF1, rng.next_u64())?;
        pair.write(reg::CHMU_CONF2, rng.below(8))?;
    }
    if rng.below(16) == 0 {
        pair.write(reg::CHMU_BITMAP, u64::MAX)?;
    }
    // Writes to read-only registers and to unused offsets.
    pair.write(8 * u32::try_from(rng.below(0x20))? + 8, u64::MAX)?;
    pair.write(
        [reg::GET_NR_HOT_PAGE, reg::SHAPE, reg::CHMU_CAP0, reg::GET_HIST][pick(&mut rng, 4)],
        0,
    )?;
    if rng.below(3) == 0 {
        pair.write(reg::SAMPLE_INTERVAL, [0, 1, 2, 3, 7, 100][pick(&mut rng, 6)])?;
    }
    // The traffic arrives during the copy and must not be part of it.
    if rng.below(2) == 0 {
        pair.write(reg::SET_HIST_EN, 1)?;
    }
    Ok(())
}

/// Compares everything, takes part of the queued entries, and sometimes resets; nothing is in progress.
fn inspect(pair: &mut Lockstep, rng: &mut Rng) -> Result<()> {
    pair.compare_all()?;
    let bins = [0, 3, 70][pick(rng, 3)];
    for _ in 0..bins {
        pair.compare(reg::GET_HIST)?;
    }
    if rng.below(2) == 0 {
        pair.write(reg::SET_HIST_EN, 1)?;
        pair.settle()?;
        for _ in 0..65 {
            pair.compare(reg::GET_HIST)?;
        }
    }
    let most = [0, 5, 500, u64::MAX][pick(rng, 4)];
    for _ in 0..most.min(pair.model.hot_len() as u64 + 1) {
        pair.compare(reg::GET_HOT_PAGE)?;
    }
    match rng.below(4) {
        0 => pair.take_hotlist()?,
        1 => pair.write(reg::CHMU_STATUS, rng.next_u64())?,
        _ => {}
    }
    if rng.below(4) == 0 {
        pair.write([reg::RESET, reg::RESET, reg::RESET, 0x108][pick(rng, 4)], rng.below(5).min(1))?;
    }
    pair.compare_all()
}
