// SPDX-License-Identifier: Apache-2.0
//! Where the unit's registers are, and how they are mapped: a BAR of a PCI device through sysfs; a physical address
//! through `/dev/mem` only if the user gives it.

use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::str::FromStr;

use neoprof::driver::{PCI_ID, Registers, WINDOW_BYTES};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::root::Root;

const DEVICES: &str = "/sys/bus/pci/devices";

/// Where the registers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceLocation {
    /// The first BAR of the PCI device with this name, as in `0000:00:04.0`.
    Pci(String),
    /// This physical address, through `/dev/mem`.
    Physical(u64),
}

impl FromStr for DeviceLocation {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(address) = text.strip_prefix("0x")
            && let Ok(address) = u64::from_str_radix(address, 16)
            && address.is_multiple_of(4096)
        {
            return Ok(Self::Physical(address));
        }
        let parts: Vec<&str> = text.split([':', '.']).collect();
        let hex = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
        if parts.len() == 4 && parts.iter().all(hex) {
            return Ok(Self::Pci(text.into()));
        }
        Err(format!(
            "{text:?} is neither a PCI device, as 0000:00:04.0, nor a page's physical address, as 0xfe000000"
        ))
    }
}

impl fmt::Display for DeviceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(name) => f.write_str(name),
            Self::Physical(address) => write!(f, "{address:#x}"),
        }
    }
}

/// The first PCI device with NeoProf's ids.
pub fn find(root: &Root) -> Option<DeviceLocation> {
    let id = |name: &str, file: &str| {
        let text = root.read(format!("{DEVICES}/{name}/{file}")).ok()?;
        u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    let is_ours = |name: &String| {
        (id(name, "vendor"), id(name, "device")) == (Some(PCI_ID.0), Some(PCI_ID.1))
    };
    root.list(DEVICES).into_iter().find(is_ours).map(DeviceLocation::Pci)
}

/// The register window in this process's memory.
pub struct RegisterWindow {
    base: NonNull<u8>,
}

impl RegisterWindow {
    /// Maps the window at `place`; this enables a PCI device until the journal restores it.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be opened, [`Error::Call`] if it cannot be mapped.
    pub fn open(root: &Root, journal: &Journal, place: &DeviceLocation) -> Result<Self> {
        let (path, offset, flags) = match place {
            DeviceLocation::Pci(name) => {
                let enable = format!("{DEVICES}/{name}/enable");
                // A counter: if a driver uses the device, it is already enabled.
                if root.read_number(&enable)? == 0 {
                    journal.set(root, &enable, "1")?;
                }
                (root.path(format!("{DEVICES}/{name}/resource0")), 0, 0)
            }
            // O_SYNC: uncached.
            DeviceLocation::Physical(address) => (root.path("/dev/mem"), *address, libc::O_SYNC),
        };
        Self::map(path, offset, flags)
    }

    fn map(path: PathBuf, offset: u64, flags: i32) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
        let file = match file {
            Ok(file) => file,
            Err(source) => return Err(Error::File { action: "open", path, source }),
        };
        let (protection, null) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: a new mapping at an address that the kernel chooses. It maps registers that are only used through
        // volatile accesses.
        let base = unsafe { mmap(null, WINDOW_BYTES, protection, MapFlags::SHARED, &file, offset) };
        let failed = |source: std::io::Error| Error::Call {
            call: format!("mmap of {}", path.display()),
            source,
        };
        let base = base.map_err(|errno| failed(errno.into()))?;
        let base =
            NonNull::new(base.cast()).ok_or_else(|| failed(std::io::ErrorKind::Other.into()))?;
        Ok(Self { base })
    }

    fn word(&self, offset: u32) -> NonNull<u64> {
        let offset = offset as usize;
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= WINDOW_BYTES,
            "no register at {offset:#x}"
        );
        // SAFETY: the offset is inside the mapping (asserted), which starts on a page boundary.
        unsafe { self.base.add(offset) }.cast()
    }
}

impl Registers for RegisterWindow {
    fn read(&mut self, offset: u32) -> u64 {
        // SAFETY: an aligned word of the mapping, which lives as long as `self`; there are no references into it.
        unsafe { self.word(offset).read_volatile() }
    }

    fn write(&mut self, offset: u32, value: u64) {
        // SAFETY: as above.
        unsafe { self.word(offset).write_volatile(value) }
    }
}

impl Drop for RegisterWindow {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and ends here; after a failure it merely stays in place.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), WINDOW_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back() {
        for text in ["0000:00:04.0", "0x383800000000"] {
            assert_eq!(text.parse::<DeviceLocation>().expect(text).to_string(), text);
        }
        for text in ["", "0x12", "4", "0000:00:04", "0000:00:0g.0", "auto"] {
            assert!(text.parse::<DeviceLocation>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_window_is_words_of_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("resource0");
        std::fs::write(&path, vec![0; WINDOW_BYTES]).expect("a file");
        let mut window = RegisterWindow::map(path.clone(), 0, 0).expect("mapped");
        window.write(0x200, 0x0102_0304_0506_0708);
        assert_eq!((window.read(0x200), window.read(0xfff8)), (0x0102_0304_0506_0708, 0));
        drop(window);
        assert_eq!(std::fs::read(&path).expect("there")[0x200..0x208], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert!(RegisterWindow::map(folder.path().join("none"), 0, 0).is_err());
    }
}
