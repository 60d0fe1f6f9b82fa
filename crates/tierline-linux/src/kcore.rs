// SPDX-License-Identifier: Apache-2.0
//! Read-only access to the kernel's memory through `/proc/kcore`.
//!
//! The file is an ELF core of the running kernel: each program header maps kernel addresses to an offset
//! in the file, and those of the direct map give the physical addresses too. Reading memory that is
//! offline, poisoned or unmapped gives zeros, so reads cannot harm the machine.
//!
//! Needs `CAP_SYS_RAWIO`, `CONFIG_PROC_KCORE=y` (every distribution kernel), and no lockdown in
//! *confidentiality* mode (*integrity*, what Secure Boot switches on, is fine).
//!
//! The cost of a scan through it is given in [`crate::tracker::accessed`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::root::Root;

pub mod notes;
pub mod tasks;

const PATH: &str = "/proc/kcore";
const ELF64_LITTLE: &[u8] = b"\x7fELF\x02\x01";
const PT_LOAD: u64 = 1;
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// Kernel text is mapped here a second time; its physical addresses are RAM of the direct map too.
const KERNEL_TEXT: u64 = 0xffff_ffff_8000_0000;
/// The lowest kernel address, with five levels of page tables.
const KERNEL_HALF: u64 = 0xff00_0000_0000_0000;

/// A range of kernel addresses in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: u64,
    bytes: u64,
    offset: u64,
}

impl Segment {
    /// The file offset of `len` bytes at `address`, if they are in this segment.
    fn find(&self, address: u64, len: u64) -> Option<u64> {
        let into = address.checked_sub(self.start)?;
        let end = into.checked_add(len)?;
        (end <= self.bytes).then(|| self.offset.saturating_add(into))
    }
}

/// An open `/proc/kcore`.
#[derive(Debug)]
pub struct Kcore {
    path: PathBuf,
    file: File,
    by_virt: Vec<Segment>,
    by_phys: Vec<Segment>,
}

impl Kcore {
    /// Opens it and reads its program headers.
    ///
    /// # Errors
    /// [`Error::Missing`] if it does not exist or may not be opened, [`Error::Format`] if it is not the
    /// core of a 64-bit little-endian kernel.
    pub fn open(root: &Root) -> Result<Self> {
        let path = root.path(PATH);
        let file = File::open(&path).map_err(|source| Error::Missing {
            what: "the kernel's memory".into(),
            why: format!("{}: {source}", path.display()),
            hint: "it needs root, CONFIG_PROC_KCORE=y and no lockdown=confidentiality; \
                   or use another tracker"
                .into(),
        })?;
        let mut kcore = Self { path, file, by_virt: Vec::new(), by_phys: Vec::new() };
        kcore.refresh().map_err(|error| Error::Missing {
            what: "the kernel's memory".into(),
            why: error.to_string(),
            hint: "/proc/kcore is hidden or has an unknown format; use another tracker".into(),
        })?;
        Ok(kcore)
    }

    /// Reads the program headers again: memory may have been added or removed.
    ///
    /// # Errors
    /// As [`Kcore::open`].
    pub fn refresh(&mut self) -> Result<()> {
        let headers = self.header_bytes()?;
        self.by_virt.clear();
        self.by_phys.clear();
        for header in headers.as_chunks::<PROGRAM_HEADER>().0 {
            self.add(header);
        }
        self.by_phys.sort_by_key(|s| s.start);
        Ok(())
    }

    fn header_bytes(&self) -> Result<Vec<u8>> {
        let mut header = [0; HEADER];
        self.read_at(&mut header, 0)?;
        if !header.starts_with(ELF64_LITTLE) {
            return Err(Error::Format {
                path: self.path.clone(),
                found: format!("{:02x?}", &header[..6]),
                expected: "the core of a 64-bit little-endian kernel",
            });
        }
        let (table, count) = (word(&header, 32), word(&header, 56) & 0xffff);
        let mut headers = vec![0; usize::try_from(count).unwrap_or(0) * PROGRAM_HEADER];
        self.read_at(&mut headers, table)?;
        Ok(headers)
    }

    /// Type, offset and length of every part of the file.
    fn headers(&self) -> Result<Vec<(u64, u64, u64)>> {
        let headers = self.header_bytes()?;
        let part = |h: &[u8; PROGRAM_HEADER]| (word(h, 0) & 0xffff_ffff, word(h, 8), word(h, 32));
        Ok(headers.as_chunks().0.iter().map(part).collect())
    }

    fn add(&mut self, header: &[u8]) {
        if word(header, 0) & 0xffff_ffff != PT_LOAD {
            return;
        }
        let (offset, virt, phys, bytes) =
            (word(header, 8), word(header, 16), word(header, 24), word(header, 40));
        self.by_virt.push(Segment { start: virt, bytes, offset });
        // vmalloc space and the array of page structures have no physical address (-1).
        if phys != u64::MAX && virt < KERNEL_TEXT {
            self.by_phys.push(Segment { start: phys, bytes, offset });
        }
    }

    /// Fills `buf` from a kernel virtual address. `false` if the kernel has no memory there.
    pub fn read_virt(&self, address: u64, buf: &mut [u8]) -> bool {
        self.read(&self.by_virt, address, buf)
    }

    /// Fills `buf` from a physical address. `false` if that is not RAM.
    pub fn read_phys(&self, address: u64, buf: &mut [u8]) -> bool {
        self.read(&self.by_phys, address, buf)
    }

    /// The eight bytes at a kernel virtual address.
    pub fn virt_word(&self, address: u64) -> Option<u64> {
        let mut buf = [0; 8];
        self.read_virt(address, &mut buf).then(|| u64::from_ne_bytes(buf))
    }

    /// The physical address of a kernel address in the direct map.
    pub fn phys_of(&self, virt: u64) -> Option<u64> {
        let offset = offset_in(&self.by_virt, virt, 1)?;
        let into = |s: &Segment| offset.checked_sub(s.offset).filter(|into| *into < s.bytes);
        self.by_phys.iter().find_map(|s| s.start.checked_add(into(s)?))
    }

    /// The number of base pages of RAM that the kernel maps.
    pub fn ram_base_pages(&self) -> u64 {
        self.by_phys.iter().fold(0, |sum: u64, s| sum.saturating_add(s.bytes / 4096))
    }

    fn read(&self, segments: &[Segment], address: u64, buf: &mut [u8]) -> bool {
        offset_in(segments, address, buf.len() as u64)
            .is_some_and(|offset| self.file.read_exact_at(buf, offset).is_ok())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buf, offset).map_err(|source| Error::File {
            action: "read",
            path: self.path.clone(),
            source,
        })
    }
}

/// There are few segments: a linear search is fastest.
fn offset_in(segments: &[Segment], address: u64, len: u64) -> Option<u64> {
    segments.iter().find_map(|s| s.find(address, len))
}

/// True for a possible pointer into the kernel's half of the address space.
fn is_kernel_address(address: u64) -> bool {
    address >= KERNEL_HALF && address.is_multiple_of(8)
}

/// The eight bytes at `at`, or zero past the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
    part.map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The direct map of the fake kernels in tests.
    pub const DIRECT: u64 = 0xffff_8880_0000_0000;

    /// A root whose `/proc/kcore` maps `ram` at physical 0, and its direct map at [`DIRECT`].
    pub fn fake(ram: &[u8]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("proc")).expect("a folder");
        let mut file = ELF64_LITTLE.to_vec();
        file.resize(4096, 0);
        let mut put = |at: usize, word: u64| file[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        put(32, 64);
        put(56, 2);
        let rows = [
            [PT_LOAD, 1 << 40, 0xffff_c900_0000_0000, u64::MAX, 1 << 20, 1 << 20],
            [PT_LOAD, 4096, DIRECT, 0, ram.len() as u64, ram.len() as u64],
        ];
        for (i, row) in rows.iter().enumerate() {
            for (j, word) in row.iter().enumerate() {
                put(64 + i * PROGRAM_HEADER + j * 8, *word);
            }
        }
        file.extend(ram);
        std::fs::write(folder.path().join(&PATH[1..]), file).expect("a file");
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn addresses_of_both_kinds_find_their_bytes() {
        let mut ram = vec![0; 8192];
        ram[4096..4104].copy_from_slice(&0x1234_5678_9abc_u64.to_ne_bytes());
        let (_folder, root) = fake(&ram);
        let kcore = Kcore::open(&root).expect("a good core");
        assert_eq!(kcore.virt_word(DIRECT + 4096), Some(0x1234_5678_9abc));
        let mut buf = [0; 8];
        assert!(kcore.read_phys(4096, &mut buf));
        assert_eq!(u64::from_ne_bytes(buf), 0x1234_5678_9abc);
        assert_eq!(kcore.phys_of(DIRECT + 4096), Some(4096));
        assert_eq!(kcore.ram_base_pages(), 2);
    }

    /// As no kernel writes it: two parts of the file of 2^64 bytes, at its end and at the end of memory.
    #[test]
    fn impossible_sizes_are_no_memory() {
        let (folder, root) = fake(&[0; 4096]);
        let path = folder.path().join(&PATH[1..]);
        let mut file = std::fs::read(&path).expect("it");
        for (at, word) in [(1, u64::MAX - 4095), (3, u64::MAX - 1), (4, u64::MAX), (5, u64::MAX)] {
            for row in 0..2 {
                let at = 64 + row * PROGRAM_HEADER + at * 8;
                file[at..at + 8].copy_from_slice(&word.to_ne_bytes());
            }
        }
        std::fs::write(&path, file).expect("written");
        let kcore = Kcore::open(&root).expect("a core");
        assert_eq!(kcore.phys_of(DIRECT + 4096), None);
        assert!(kcore.ram_base_pages() > 1 << 52);
        assert!(!kcore.read_phys(u64::MAX - 1, &mut [0]));
    }

    #[test]
    fn addresses_without_memory_are_not_read() {
        let (_folder, root) = fake(&[0; 4096]);
        let kcore = Kcore::open(&root).expect("a good core");
        let mut buf = [0; 8];
        assert!(!kcore.read_phys(4092, &mut buf));
        assert!(!kcore.read_phys(u64::MAX, &mut buf));
        assert_eq!(kcore.virt_word(0x1000), None);
        assert_eq!(kcore.phys_of(0xffff_c900_0000_0000), None);
    }

    #[test]
    fn a_machine_without_kcore_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = Kcore::open(&Root::at(folder.path())).expect_err("there is none");
        assert!(error.hint().is_some_and(|hint| hint.contains("another tracker")));
    }
}
