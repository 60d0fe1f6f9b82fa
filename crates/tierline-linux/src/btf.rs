// SPDX-License-Identifier: Apache-2.0
//! Offsets of members in the kernel's structures, from the kernel's own type information (BTF).
//!
//! `/sys/kernel/btf/vmlinux` describes every structure of the running kernel. It is read in place:
//! only the start of each type is kept, and the blob (5 MB) is freed with the reader.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::root::Root;

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u32 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
/// Anonymous structures nest two or three deep; a corrupt blob could contain a cycle.
const MAX_DEPTH: u32 = 8;

/// The kernel's type information.
pub struct Btf {
    path: PathBuf,
    blob: Vec<u8>,
    types: std::ops::Range<usize>,
    strings: std::ops::Range<usize>,
    /// Where the types start, in the order of their ids. Ends before the first type of an unknown kind.
    starts: Vec<u32>,
    /// The same of structures with names: one type in fifteen.
    structures: Vec<u32>,
}

/// One type's fixed part and the start of its list of parts.
#[derive(Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    parts: u32,
    /// Member offsets carry a bit-field width in their upper byte.
    wide: bool,
    at: usize,
}

impl Btf {
    /// Reads the type information of the running kernel.
    ///
    /// # Errors
    /// [`Error::Missing`] on a kernel built without `CONFIG_DEBUG_INFO_BTF`.
    pub fn open(root: &Root) -> Result<Self> {
        let path = root.path(PATH);
        let blob = std::fs::read(&path).map_err(|source| Error::Missing {
            what: "the kernel's type information".into(),
            why: format!("{}: {source}", path.display()),
            hint: "it needs a kernel with CONFIG_DEBUG_INFO_BTF=y".into(),
        })?;
        Self::parse(&path, blob)
    }

    /// Parses a blob; `path` is only for messages.
    ///
    /// # Errors
    /// [`Error::Format`] if the header does not fit the blob.
    pub fn parse(path: &Path, blob: Vec<u8>) -> Result<Self> {
        let header = |at: usize| word(&blob, at).map(|w| w as usize);
        let sections = (|| {
            if word(&blob, 0)? & 0xffff != MAGIC {
                return None;
            }
            let start = header(4)?;
            let section = |off: usize| {
                let from = start.checked_add(header(off)?)?;
                let to = from.checked_add(header(off + 4)?)?;
                (to <= blob.len()).then_some(from..to)
            };
            Some((section(8)?, section(16)?))
        })();
        match sections {
            Some((types, strings)) => {
                let (starts, structures) = Default::default();
                let mut btf = Self { path: path.into(), blob, types, strings, starts, structures };
                btf.find_starts();
                Ok(btf)
            }
            None => Err(Error::Format {
                path: path.into(),
                found: format!("{:02x?}", &blob[..blob.len().min(8)]),
                expected: "a BTF header",
            }),
        }
    }

    /// The byte offsets of members of `structure`; members of anonymous parts included.
    ///
    /// # Errors
    /// [`Error::Missing`] if this kernel's structure has no such member, or if it is a bit-field.
    pub fn offsets<const N: usize>(&self, structure: &str, members: [&str; N]) -> Result<[u64; N]> {
        let all = self.structures.iter().filter_map(|&start| self.type_at(start as usize));
        let found = all.filter(|t| self.name_is(t.name, structure));
        let found: Vec<Type> = found.collect();
        let mut offsets = [0; N];
        for (offset, member) in offsets.iter_mut().zip(members) {
            let bits = found.iter().find_map(|&t| self.member(t, member, MAX_DEPTH));
            let bytes = bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
            *offset = bytes.ok_or_else(|| Error::Missing {
                what: format!("{structure}.{member}"),
                why: format!("{} does not describe it", self.path.display()),
                hint: "Tierline does not know the structures of this kernel; use another tracker"
                    .into(),
            })?;
        }
        Ok(offsets)
    }

    /// The bit offset of a member of `t`, searched through its anonymous parts.
    fn member(&self, t: Type, name: &str, depth: u32) -> Option<u64> {
        for i in 0..t.parts {
            let at = t.at + i as usize * 12;
            let (label, kind, raw) = (self.word(at)?, self.word(at + 4)?, self.word(at + 8)?);
            let bits = u64::from(if t.wide { raw & 0xff_ffff } else { raw });
            if label != 0 {
                if self.name_is(label, name) {
                    return Some(bits);
                }
            } else if depth > 0
                && let Some(part) = self.anonymous(kind)
                && let Some(inner) = self.member(part, name, depth - 1)
            {
                return Some(bits + inner);
            }
        }
        None
    }

    /// The anonymous structure or union with type id `id`, if it is one.
    fn anonymous(&self, id: u32) -> Option<Type> {
        let start = *self.starts.get(id.checked_sub(1)? as usize)?;
        let t = self.type_at(start as usize)?;
        matches!(t.kind, KIND_STRUCT | KIND_UNION).then_some(t)
    }

    fn find_starts(&mut self) {
        let mut at = self.types.start;
        while let Some(t) = self.type_at(at)
            && let Some(parts) = size_of_parts(t.kind, t.parts)
            && let Ok(start) = u32::try_from(at)
        {
            self.starts.push(start);
            if t.kind == KIND_STRUCT && t.name != 0 {
                self.structures.push(start);
            }
            at = t.at + parts;
        }
    }

    fn type_at(&self, at: usize) -> Option<Type> {
        if at + 12 > self.types.end {
            return None;
        }
        let (name, info) = (self.word(at)?, self.word(at + 4)?);
        let (kind, parts) = (info >> 24 & 0x1f, info & 0xffff);
        Some(Type { name, kind, parts, wide: info >> 31 == 1, at: at + 12 })
    }

    fn name_is(&self, offset: u32, name: &str) -> bool {
        let from = self.strings.start + offset as usize;
        let text = self.blob.get(from..self.strings.end).unwrap_or_default();
        text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    fn word(&self, at: usize) -> Option<u32> {
        word(&self.blob, at)
    }
}

fn word(blob: &[u8], at: usize) -> Option<u32> {
    let bytes = blob.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Bytes that follow a type's fixed part; `None` for an unknown kind (newer than this code).
fn size_of_parts(kind: u32, parts: u32) -> Option<usize> {
    let parts = parts as usize;
    Some(match kind {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => parts * 12,
        6 | 13 => parts * 8,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct task { int a; struct { long b; union { long c; int d; }; }; }` with made-up offsets.
    fn blob() -> Vec<u8> {
        let strings = b"\0task\0a\0b\0c\0d\0int\0";
        let int = 14;
        let mut types: Vec<u32> = vec![int, 1 << 24, 4, 32];
        let structure = |name: u32, kind: u32, members: &[[u32; 3]]| {
            let parts = u32::try_from(members.len()).unwrap_or(0);
            let mut words = vec![name, kind << 24 | parts, 64];
            words.extend(members.iter().flatten());
            words
        };
        types.extend(structure(0, KIND_UNION, &[[10, 1, 0], [12, 1, 32]]));
        types.extend(structure(0, KIND_STRUCT, &[[8, 1, 0], [0, 2, 64]]));
        types.extend(structure(1, KIND_STRUCT, &[[6, 1, 0], [0, 3, 128]]));
        let type_bytes = types.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let lengths = [type_bytes.len(), strings.len()].map(|n| u32::try_from(n).unwrap_or(0));
        let header = [MAGIC | 1 << 16, 24, 0, lengths[0], lengths[0], lengths[1]];
        let mut blob = header.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        blob.extend(type_bytes);
        blob.extend(strings);
        blob
    }

    #[test]
    fn members_are_found_through_anonymous_parts() {
        let btf = Btf::parse(Path::new("b"), blob()).expect("a good blob");
        let offset = |member| btf.offsets("task", [member]).ok().map(|[at]| at);
        assert_eq!(offset("a"), Some(0));
        assert_eq!(offset("b"), Some(16));
        assert_eq!(offset("c"), Some(24));
        assert_eq!(offset("d"), Some(28));
        assert_eq!(offset("int"), None);
        assert!(btf.offsets("tas", ["a"]).is_err());
    }

    #[test]
    fn the_running_kernel_has_the_members() {
        let start = std::time::Instant::now();
        let Ok(btf) = Btf::open(&Root::default()) else { return };
        let read = start.elapsed();
        let [pid, tgid] = btf.offsets("task_struct", ["pid", "tgid"]).expect("every kernel has it");
        assert_eq!(tgid, pid + 4);
        assert!(btf.offsets("mm_struct", ["pgd"]).is_ok(), "in an anonymous part");
        println!("read in {read:?}, three members in {:?}", start.elapsed() - read);
    }

    #[test]
    fn a_damaged_blob_is_an_error_or_none_never_a_panic() {
        let good = blob();
        for cut in 0..good.len() {
            if let Ok(btf) = Btf::parse(Path::new("b"), good[..cut].to_vec()) {
                let _ = btf.offsets("task", ["d"]);
            }
            let mut bad = good.clone();
            bad[cut] ^= 0xff;
            if let Ok(btf) = Btf::parse(Path::new("b"), bad) {
                let _ = btf.offsets("task", ["d"]);
            }
        }
    }
}
