// SPDX-License-Identifier: Apache-2.0
//! The notes in `/proc/kcore`: data that the kernel provides for readers of its memory.
//!
//! Two of them avoid a search through ten megabytes of symbols. `VMCOREINFO` is a text of `KEY=VALUE`
//! lines, which says whether page tables have five levels and which address bit means "encrypted".
//! The core's task note is a copy of the reader's own `task_struct`: a starting point in the kernel's
//! circular list of processes.

use super::{Kcore, word};

const PT_NOTE: u64 = 4;
/// The type of the note that holds a `task_struct` (`NT_TASKSTRUCT`).
const TASK: u64 = 4;
/// Larger than all notes of any kernel.
const MAX_BYTES: u64 = 1 << 20;

/// The content of the notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The reader's own `task_struct`.
    pub task: Vec<u8>,
    vmcoreinfo: String,
}

impl Notes {
    /// Reads the notes; missing ones stay empty.
    pub fn read(kcore: &Kcore) -> Self {
        let mut notes = Self::default();
        for (kind, offset, bytes) in kcore.headers().unwrap_or_default() {
            let mut buf = vec![0; usize::try_from(bytes.min(MAX_BYTES)).unwrap_or(0)];
            if kind == PT_NOTE && kcore.read_at(&mut buf, offset).is_ok() {
                notes.parse(&buf);
            }
        }
        notes
    }

    /// The number after `NUMBER(key)=`.
    pub fn vmcoreinfo_number(&self, key: &str) -> Option<u64> {
        let start = format!("NUMBER({key})=");
        let value = self.vmcoreinfo.lines().find_map(|line| line.strip_prefix(&start))?;
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok(),
        }
    }

    /// Note format: name length, content length, type; then both, each padded to four bytes.
    fn parse(&mut self, mut notes: &[u8]) {
        let half = |bytes: &[u8], at| word(bytes, at) & 0xffff_ffff;
        while notes.len() >= 16 {
            let (name, content) = (half(notes, 0), half(notes, 4));
            let kind = half(notes, 8);
            let padded = |n: u64| usize::try_from(n.div_ceil(4) * 4).unwrap_or(usize::MAX);
            let begin = 12_usize.saturating_add(padded(name));
            let end = begin.saturating_add(usize::try_from(content).unwrap_or(usize::MAX));
            let Some(bytes) = notes.get(begin..end) else { return };
            match &notes[12..begin] {
                n if n.starts_with(b"VMCOREINFO") => {
                    self.vmcoreinfo = String::from_utf8_lossy(bytes).into_owned();
                }
                n if n.starts_with(b"CORE") && kind == TASK => self.task = bytes.to_vec(),
                _ => {}
            }
            notes = notes.get(begin.saturating_add(padded(content))..).unwrap_or(&[]);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn note(name: &str, kind: u32, content: &[u8]) -> Vec<u8> {
        let length = |n: usize| u32::try_from(n).unwrap_or(0).to_ne_bytes();
        let mut bytes =
            [length(name.len() + 1), length(content.len()), kind.to_ne_bytes()].concat();
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn both_notes_are_found_among_others() {
        let text = b"OSRELEASE=7.2\nNUMBER(pgtable_l5_enabled)=1\nNUMBER(sme_mask)=0x800\n";
        let all =
            [note("CORE", 1, &[9; 7]), note("CORE", 4, &[5; 10]), note("VMCOREINFO", 0, text)];
        let mut notes = Notes::default();
        notes.parse(&all.concat());
        assert_eq!(notes.task, [5; 10]);
        assert_eq!(notes.vmcoreinfo_number("pgtable_l5_enabled"), Some(1));
        assert_eq!(notes.vmcoreinfo_number("sme_mask"), Some(0x800));
        assert_eq!(notes.vmcoreinfo_number("phys_base"), None);
    }

    #[test]
    fn a_truncated_note_is_ignored() {
        let mut notes = Notes::default();
        let whole = note("CORE", 4, &[5; 10]);
        for end in 0..whole.len() {
            notes.parse(&whole[..end]);
        }
        assert!(notes.task.len() <= 10);
    }
}
