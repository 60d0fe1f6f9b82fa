// SPDX-License-Identifier: Apache-2.0
//! The source of an access's data: `union perf_mem_data_src`, which the kernel fills in the same way for
//! PEBS and IBS. Newer kernels use `mem_lvl_num` and `mem_remote`, older ones `mem_lvl`.

/// The memory or cache that served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// A cache, of this core or another.
    Cache,
    /// DRAM of the CPU's own node.
    LocalDram,
    /// DRAM of another node.
    RemoteDram,
    /// Memory on CXL.
    Cxl,
    /// Persistent memory.
    Pmem,
    /// Not reported.
    Unknown,
}

/// One access, as far as the hardware reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// True for a store; `None` if unknown.
    pub store: Option<bool>,
    /// What served it.
    pub source: DataSource,
}

/// `mem_op`, the low five bits.
const LOAD: u64 = 0x02;
const STORE: u64 = 0x04;

/// `mem_lvl`, from bit 5 on.
const LVL_MISS: u64 = 0x04;
const LVL_CACHES: u64 = 0x08 | 0x10 | 0x20 | 0x40 | 0x400 | 0x800;
const LVL_LOCAL_RAM: u64 = 0x80;
const LVL_REMOTE_RAM: u64 = 0x100 | 0x200;

impl Access {
    /// Decodes a `data_src` word.
    pub const fn decode(word: u64) -> Self {
        let op = word & 0x1f;
        let store = match (op & LOAD != 0, op & STORE != 0) {
            (true, false) => Some(false),
            (false, true) => Some(true),
            _ => None,
        };
        Self { store, source: source(word) }
    }
}

const fn source(word: u64) -> DataSource {
    let remote = word >> 37 & 1 != 0;
    match word >> 33 & 0xf {
        // L1 to L4, the miss handling buffer of L2, any cache, line fill buffer.
        1..=5 | 0xb | 0xc => DataSource::Cache,
        9 => DataSource::Cxl,
        0xd if remote => DataSource::RemoteDram,
        0xd => DataSource::LocalDram,
        0xe => DataSource::Pmem,
        _ => legacy_source(word >> 5 & 0x3fff),
    }
}

const fn legacy_source(level: u64) -> DataSource {
    if level & LVL_REMOTE_RAM != 0 {
        return DataSource::RemoteDram;
    }
    if level & LVL_LOCAL_RAM != 0 {
        return DataSource::LocalDram;
    }
    // "Missed L3" does not say what served the access.
    if level & LVL_CACHES != 0 && level & LVL_MISS == 0 {
        return DataSource::Cache;
    }
    DataSource::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn numbered(op: u64, level: u64, remote: u64) -> u64 {
        op | level << 33 | remote << 37
    }

    #[test]
    fn numbered_levels_name_the_kinds_of_memory() {
        let source = |level, remote| Access::decode(numbered(LOAD, level, remote)).source;
        assert_eq!(source(0xd, 0), DataSource::LocalDram);
        assert_eq!(source(0xd, 1), DataSource::RemoteDram);
        assert_eq!(source(9, 0), DataSource::Cxl);
        assert_eq!(source(0xe, 1), DataSource::Pmem);
        assert_eq!(source(3, 1), DataSource::Cache);
        assert_eq!(source(0xf, 0), DataSource::Unknown);
    }

    #[test]
    fn old_levels_are_decoded() {
        let source = |level: u64| Access::decode(LOAD | level << 5).source;
        assert_eq!(source(0x02 | 0x80), DataSource::LocalDram);
        assert_eq!(source(0x02 | 0x100), DataSource::RemoteDram);
        assert_eq!(source(0x02 | 0x40), DataSource::Cache);
        assert_eq!(source(0x02 | 0x400), DataSource::Cache, "of the other socket");
        assert_eq!(source(0x04 | 0x40), DataSource::Unknown, "missed L3");
        assert_eq!(source(0), DataSource::Unknown);
    }

    #[test]
    fn loads_and_stores_are_distinguished_if_the_word_does() {
        assert_eq!(Access::decode(LOAD).store, Some(false));
        assert_eq!(Access::decode(STORE).store, Some(true));
        assert_eq!(Access::decode(LOAD | STORE).store, None);
        assert_eq!(Access::decode(1).store, None);
    }
}
