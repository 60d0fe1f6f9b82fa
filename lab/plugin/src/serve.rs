// SPDX-License-Identifier: Apache-2.0
//! A PCI device whose only BAR is a register window, served over vfio-user to the QEMU that loaded the plugin.

use std::fs::File;
use std::io;
use std::path::Path;

use neoprof::driver::{PCI_ID, WINDOW_BYTES};
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_IRQS,
    VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
    vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

const CONFIG_BYTES: usize = 256;
/// Offsets of vendor, device and class in PCI configuration space.
const IDS: usize = 0;
const BASE_CLASS: usize = 0x0b;
/// "Device does not fit in any defined class".
const UNASSIGNED: u8 = 0xff;

/// The words behind the BAR. Called on the server's thread while the accessing vCPU waits.
pub trait Words: Send + 'static {
    /// Reads the word at `offset`.
    fn read(&self, offset: u32) -> u64;
    /// Writes the word at `offset`.
    fn write(&self, offset: u32, value: u64);
    /// Resets the device; may be called before any vCPU exists.
    fn reset(&self);
}

struct Device<W> {
    config: [u8; CONFIG_BYTES],
    words: W,
}

/// Listens at `socket` and serves the first connection on a separate thread.
///
/// # Errors
/// If the socket cannot be created.
pub fn serve(socket: &Path, words: impl Words) -> Result<(), String> {
    let regions = (0..VFIO_PCI_NUM_REGIONS).map(region).collect();
    let irqs = (0..VFIO_PCI_NUM_IRQS).map(|index| IrqInfo { index, flags: 0, count: 0 }).collect();
    let server = Server::new(socket, true, irqs, regions)
        .map_err(|error| format!("`neoprof={}`: {error}", socket.display()))?;
    let mut device = Device { config: config(), words };
    std::thread::spawn(move || {
        if let Err(error) = server.run(&mut device) {
            eprintln!("lab-plugin: stopped serving NeoProf's registers: {error}");
        }
    });
    Ok(())
}

fn region(index: u32) -> ServerRegion {
    let size = match index {
        VFIO_PCI_BAR0_REGION_INDEX => WINDOW_BYTES as u64,
        VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES as u64,
        _ => 0,
    };
    let flags = if size > 0 { VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE } else { 0 };
    let argsz = u32::try_from(size_of::<vfio_region_info>()).unwrap_or(0);
    let region_info = vfio_region_info { argsz, index, size, flags, ..Default::default() };
    ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None }
}

fn config() -> [u8; CONFIG_BYTES] {
    let mut config = [0; CONFIG_BYTES];
    let (vendor, device) = PCI_ID;
    config[IDS..IDS + 2].copy_from_slice(&vendor.to_le_bytes());
    config[IDS + 2..IDS + 4].copy_from_slice(&device.to_le_bytes());
    config[BASE_CLASS] = UNASSIGNED;
    config
}

/// The offset of a word, if the access is a whole aligned word.
fn word(offset: u64, len: usize) -> Option<u32> {
    (len == 8 && offset.is_multiple_of(8)).then(|| u32::try_from(offset).ok()).flatten()
}

impl<W: Words> ServerBackend for Device<W> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill(0xff);
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            let from = self.config.iter().skip(usize::try_from(offset).unwrap_or(CONFIG_BYTES));
            data.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        } else if let Some(offset) = word(offset, data.len()) {
            data.copy_from_slice(&self.words.read(offset).to_le_bytes());
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            let to = self.config.iter_mut().skip(usize::try_from(offset).unwrap_or(CONFIG_BYTES));
            to.zip(data).for_each(|(to, from)| *to = *from);
        } else if let Some(offset) = word(offset, data.len())
            && let Ok(bytes) = data.try_into()
        {
            self.words.write(offset, u64::from_le_bytes(bytes));
        }
        Ok(())
    }

    // The device neither accesses the guest's memory nor raises interrupts.

    fn dma_map(
        &mut self,
        _flags: DmaMapFlags,
        _offset: u64,
        _address: u64,
        _size: u64,
        _fd: Option<File>,
    ) -> io::Result<()> {
        Ok(())
    }

    fn dma_unmap(&mut self, _flags: DmaUnmapFlags, _address: u64, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.words.reset();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        _index: u32,
        _flags: u32,
        _start: u32,
        _count: u32,
        _fds: Vec<File>,
    ) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Returns the requested offset, and records writes.
    struct Echo(Mutex<Vec<(u32, u64)>>);

    impl Words for Echo {
        fn read(&self, offset: u32) -> u64 {
            u64::from(offset) << 32 | 1
        }

        fn write(&self, offset: u32, value: u64) {
            self.0.lock().unwrap().push((offset, value));
        }

        fn reset(&self) {
            self.0.lock().unwrap().clear();
        }
    }

    #[test]
    fn registers_are_words_and_config_is_bytes() {
        let mut device = Device { config: config(), words: Echo(Mutex::default()) };
        let mut word = [0; 8];
        device.region_read(VFIO_PCI_BAR0_REGION_INDEX, 0x208, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 0x208 << 32 | 1);
        let mut half = [0; 4];
        device.region_read(VFIO_PCI_BAR0_REGION_INDEX, 0x208, &mut half).unwrap();
        assert_eq!(half, [0xff; 4], "half a word is not a register");
        device.region_write(VFIO_PCI_BAR0_REGION_INDEX, 0x200, &7u64.to_le_bytes()).unwrap();
        device.region_write(VFIO_PCI_BAR0_REGION_INDEX, 0x204, &[1; 4]).unwrap();
        assert_eq!(*device.words.0.lock().unwrap(), [(0x200, 7)]);
        device.reset().unwrap();
        assert!(device.words.0.lock().unwrap().is_empty());
        device.region_read(VFIO_PCI_CONFIG_REGION_INDEX, 0, &mut half).unwrap();
        assert_eq!(half, [0x34, 0x12, 0x50, 0x4e]);
        device.region_write(VFIO_PCI_CONFIG_REGION_INDEX, 4, &[6, 0]).unwrap();
        device.region_read(VFIO_PCI_CONFIG_REGION_INDEX, 2, &mut half).unwrap();
        assert_eq!(half, [0x50, 0x4e, 6, 0]);
        device.region_read(VFIO_PCI_CONFIG_REGION_INDEX, 254, &mut half).unwrap();
        assert_eq!(half, [0, 0, 0xff, 0xff], "reads beyond the end return 0xff");
    }
}
