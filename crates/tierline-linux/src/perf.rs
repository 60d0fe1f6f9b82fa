// SPDX-License-Identifier: Apache-2.0
//! Perf events: opening them, and reading their ring buffers.
//!
//! Three parts: [`Attr`] says what to record, [`Ring`] is one event with its buffer, [`CpuRings`] is
//! the same event on every CPU. [`sample`] parses samples, [`records`] the buffer, and [`tracefs`] finds
//! or creates trace events.

pub mod data_src;
pub mod records;
pub mod sample;
pub mod tracefs;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys as sys;
use perf_event_open_sys::bindings as raw;
use tierline_core::unit::{BASE_PAGE, Nanos};

use crate::error::{Error, Result};
use crate::root::Root;
use records::{Record, Records};
use sample::{Fields, Sample};

/// Which event to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfEvent {
    /// A software event of the kernel, by its `PERF_COUNT_SW_` number.
    Software(u64),
    /// A trace event, by its id in tracefs.
    Tracepoint(u64),
    /// An event of a performance monitoring unit: the unit's type, and its configuration words.
    Pmu {
        /// The unit: `type` in its sysfs folder; 4 for the CPU's own raw events.
        unit: u32,
        /// `config`, `config1` and `config2`.
        config: [u64; 3],
    },
}

impl PerfEvent {
    /// Every page fault of user space, minor or major.
    pub const PAGE_FAULTS: Self = Self::Software(raw::PERF_COUNT_SW_PAGE_FAULTS as u64);

    /// A raw event of the CPU.
    pub const fn raw(config: u64) -> Self {
        Self::Pmu { unit: raw::PERF_TYPE_RAW, config: [config, 0, 0] }
    }
}

/// What to record: the event, how often, and which fields.
#[derive(Clone, Copy, Debug)]
pub struct Attr {
    /// The event.
    pub event: PerfEvent,
    /// One record per `period` events.
    pub period: u64,
    /// The fields of a record.
    pub fields: Fields,
    /// How exact the instruction address must be (`precise_ip`, 0..3).
    pub precise: u8,
    /// Exclude the kernel and the hypervisor.
    pub user_only: bool,
    /// Registers to record with [`Fields::REGS_INTR`], as the kernel's bit mask.
    pub registers: u64,
}

impl Attr {
    /// Every occurrence of `event`, with `fields`.
    pub const fn every(event: PerfEvent, fields: Fields) -> Self {
        Self { event, period: 1, fields, precise: 0, user_only: false, registers: 0 }
    }

    fn to_kernel(self) -> raw::perf_event_attr {
        let mut attr = raw::perf_event_attr {
            size: u32::try_from(size_of::<raw::perf_event_attr>()).unwrap_or_default(),
            sample_type: self.fields.0,
            ..Default::default()
        };
        attr.sample_period = self.period;
        (attr.type_, attr.config) = match self.event {
            PerfEvent::Software(id) => (raw::PERF_TYPE_SOFTWARE, id),
            PerfEvent::Tracepoint(id) => (raw::PERF_TYPE_TRACEPOINT, id),
            PerfEvent::Pmu { unit, config } => (unit, config[0]),
        };
        if let PerfEvent::Pmu { config, .. } = self.event {
            attr.bp_addr = config[1];
            attr.bp_len = config[2];
        }
        attr.sample_regs_intr = self.registers;
        attr.set_disabled(1);
        attr.set_precise_ip(u64::from(self.precise));
        attr.set_exclude_kernel(u64::from(self.user_only));
        attr.set_exclude_hv(u64::from(self.user_only));
        // The clock of every `now` in this crate.
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr
    }
}

/// What an event is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything that runs on this CPU.
    Cpu(u32),
    /// One task, on any CPU.
    Task(i32),
}

/// What was not recorded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLosses {
    /// Records lost because the ring was full.
    pub lost: u64,
    /// Times the kernel paused the event because it came too often.
    pub throttled: u64,
    /// Records that could not be parsed; the rest of their batch is skipped.
    pub malformed: u64,
}

/// One event with its ring buffer.
pub struct Ring {
    fd: OwnedFd,
    map: Mapping,
    fields: Fields,
    registers: u32,
    scratch: Vec<u8>,
    losses: RingLosses,
}

impl Ring {
    /// Opens a disabled event with a ring of `pages` base pages, rounded up to a power of two.
    ///
    /// # Errors
    /// `Error::Call` with the kernel's errno: `ENOENT` or `EOPNOTSUPP` if there is no such event, `EACCES`
    /// or `EPERM` without the right to observe, `EMFILE` if the open file limit is too low.
    pub fn open(attr: &Attr, scope: Scope, pages: usize) -> Result<Self> {
        let fd = open_event(attr, scope)?;
        let map = Mapping::new(&fd, pages.max(1).next_power_of_two())?;
        let registers = attr.registers.count_ones();
        let losses = RingLosses::default();
        Ok(Self { fd, map, fields: attr.fields, registers, scratch: Vec::new(), losses })
    }

    /// Records only trace events that match `filter`, as in `nr_accesses > 0`.
    ///
    /// # Errors
    /// `Error::Call` if the kernel refuses the filter.
    pub fn filter(&self, filter: &str) -> Result<()> {
        let text = CString::new(filter).unwrap_or_default();
        // SAFETY: the file descriptor is an open perf event, the text is a C string that outlives
        // the call, and the kernel only reads it.
        let done =
            unsafe { sys::ioctls::SET_FILTER(self.fd.as_raw_fd(), text.as_ptr().cast_mut()) };
        check(done, || format!("setting the filter {filter:?} on a perf event"))
    }

    /// Starts or stops recording.
    ///
    /// # Errors
    /// `Error::Call` if the kernel refuses.
    pub fn enable(&self, on: bool) -> Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: the file descriptor is an open perf event; these calls take no memory.
        let done =
            unsafe { if on { sys::ioctls::ENABLE(fd, 0) } else { sys::ioctls::DISABLE(fd, 0) } };
        check(done, || "switching a perf event".into())
    }

    /// Changes the sampling period: from now on, one record per `period` events.
    ///
    /// # Errors
    /// `Error::Call` if the kernel refuses.
    pub fn sample_every(&self, period: u64) -> Result<()> {
        let fd = self.fd.as_raw_fd();
        // The kernel reads the number through a pointer, although the binding declares a number.
        let address = std::ptr::from_ref(&period).addr() as u64;
        // SAFETY: the file descriptor is an open perf event; the call reads one number, which outlives it.
        let done = unsafe { sys::ioctls::PERIOD(fd, address) };
        check(done, || format!("sampling one event in {period}"))
    }

    /// Calls `each` with every sample recorded so far and frees their space.
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        let (head, tail) = self.map.bounds();
        let (first, second) = self.map.readable(tail, head);
        let mut records = Records::new(first, second, &mut self.scratch);
        while let Some(record) = records.next_record() {
            match record {
                Record::Sample(body) => match Sample::parse(body, self.fields, self.registers) {
                    Some(sample) => each(sample),
                    None => self.losses.malformed += 1,
                },
                Record::Lost(count) => self.losses.lost += count,
                Record::Throttled => self.losses.throttled += 1,
                Record::Other => {}
                Record::Malformed => self.losses.malformed += 1,
            }
        }
        self.map.release(head);
    }

    /// What was not recorded so far.
    pub const fn losses(&self) -> RingLosses {
        self.losses
    }
}

/// The same event on every CPU that is online.
pub struct CpuRings(Vec<Ring>);

impl CpuRings {
    /// Opens the event on every online CPU, disabled, with `pages` base pages of ring each.
    ///
    /// # Errors
    /// As [`Ring::open`]; `Error::Format` if the list of CPUs cannot be read.
    pub fn open(root: &Root, attr: &Attr, pages: usize) -> Result<Self> {
        let cpus = online_cpus(root)?;
        let open = |cpu: u32| Ring::open(attr, Scope::Cpu(cpu), pages);
        cpus.into_iter().map(open).collect::<Result<Vec<_>>>().map(Self)
    }

    /// As [`Ring::filter`], on all CPUs.
    ///
    /// # Errors
    /// As [`Ring::filter`].
    pub fn filter(&self, filter: &str) -> Result<()> {
        self.0.iter().try_for_each(|ring| ring.filter(filter))
    }

    /// Starts or stops recording on all CPUs.
    ///
    /// # Errors
    /// As [`Ring::enable`].
    pub fn enable(&self, on: bool) -> Result<()> {
        self.0.iter().try_for_each(|ring| ring.enable(on))
    }

    /// Changes the sampling period on all CPUs: from now on, one record per `period` events.
    ///
    /// # Errors
    /// As [`Ring::sample_every`].
    pub fn sample_every(&self, period: u64) -> Result<()> {
        self.0.iter().try_for_each(|ring| ring.sample_every(period))
    }

    /// Calls `each` with every sample of every CPU: in order within a CPU, one CPU after the other.
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        for ring in &mut self.0 {
            ring.drain(&mut each);
        }
    }

    /// The sum over the CPUs.
    pub fn losses(&self) -> RingLosses {
        self.0.iter().fold(RingLosses::default(), |sum, ring| RingLosses {
            lost: sum.lost + ring.losses.lost,
            throttled: sum.throttled + ring.losses.throttled,
            malformed: sum.malformed + ring.losses.malformed,
        })
    }
}

/// Now, on the clock that stamps the records.
pub fn monotonic_now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let secs = u64::try_from(now.tv_sec).unwrap_or_default();
    Nanos(secs * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default())
}

/// The CPUs in `/sys/devices/system/cpu/online`.
///
/// # Errors
/// `Error::File` or `Error::Format` if the list cannot be read.
pub fn online_cpus(root: &Root) -> Result<Vec<u32>> {
    let path = "/sys/devices/system/cpu/online";
    let text = root.read(path)?;
    parse_list(&text).ok_or_else(|| Error::Format {
        path: root.path(path),
        found: text.clone(),
        expected: "a list of CPUs, as in 0-3,8",
    })
}

fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel has more CPUs: a malformed list must not exhaust memory.
        (last < 1 << 16).then(|| all.extend(first..=last))?;
    }
    Some(all)
}

fn open_event(attr: &Attr, scope: Scope) -> Result<OwnedFd> {
    let mut kernel = attr.to_kernel();
    let (pid, cpu) = match scope {
        Scope::Cpu(cpu) => (-1, i32::try_from(cpu).unwrap_or(-1)),
        Scope::Task(pid) => (pid, -1),
    };
    let flags = std::ffi::c_ulong::from(raw::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes are fully initialised, contain their own size and outlive the call.
    let fd = unsafe { sys::perf_event_open(&raw mut kernel, pid, cpu, -1, flags) };
    check(fd, || format!("perf_event_open({:?}, {scope:?})", attr.event))?;
    // SAFETY: the kernel just returned this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(returned: i32, call: impl FnOnce() -> String) -> Result<()> {
    if returned >= 0 {
        return Ok(());
    }
    Err(Error::Call { call: call(), source: io::Error::last_os_error() })
}

/// The memory shared with the kernel: a control page, then a power of two of data pages.
struct Mapping {
    base: NonNull<u8>,
    /// Bytes of data; a power of two.
    data: usize,
}

// SAFETY: the mapping is memory of the process and belongs to no thread; all access goes through
// `&self` for atomic loads and `&mut self` for the one store.
unsafe impl Send for Mapping {}

/// Bytes of a base page.
const PAGE: usize = 4096;
const _: () = assert!(BASE_PAGE.0 == PAGE as u64);

impl Mapping {
    fn new(fd: &OwnedFd, pages: usize) -> Result<Self> {
        let data = pages * PAGE;
        let (read_write, shared) = (
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
        );
        // SAFETY: a fresh mapping at an address that the kernel chooses aliases no memory of ours.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), PAGE + data, read_write, shared, fd, 0)
        };
        let source = match base {
            Ok(base) => match NonNull::new(base.cast()) {
                Some(base) => return Ok(Self { base, data }),
                None => io::Error::from(io::ErrorKind::InvalidData),
            },
            Err(error) => io::Error::from(error),
        };
        Err(Error::Call { call: format!("mmap of a perf ring of {pages} pages"), source })
    }

    fn control(&self) -> *mut raw::perf_event_mmap_page {
        self.base.as_ptr().cast()
    }

    /// The positions up to which the kernel wrote and we read, in bytes since the start.
    fn bounds(&self) -> (u64, u64) {
        let page = self.control();
        // SAFETY: the control page is mapped as long as `self` lives, both words are aligned, and
        // they are only ever accessed atomically. Acquire pairs with the kernel's barrier before it
        // moves the head: what lies below it is fully written.
        unsafe {
            let head = AtomicU64::from_ptr(&raw mut (*page).data_head).load(Ordering::Acquire);
            let tail = AtomicU64::from_ptr(&raw mut (*page).data_tail).load(Ordering::Relaxed);
            (head, tail)
        }
    }

    /// The bytes between `tail` and `head`: two slices if they wrap around.
    fn readable(&self, tail: u64, head: u64) -> (&[u8], &[u8]) {
        let mask = self.data as u64 - 1;
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data);
        let start = usize::try_from(tail & mask).unwrap_or(0);
        let first = length.min(self.data - start);
        // SAFETY: `start + first <= data` and `length - first <= start`, so both are inside the mapping.
        // The kernel does not write between tail and head until `release` moves the tail; that needs
        // `&mut self`, so no slice lives then.
        unsafe {
            let data = self.base.as_ptr().add(PAGE);
            let first_part = std::slice::from_raw_parts(data.add(start), first);
            (first_part, std::slice::from_raw_parts(data, length - first))
        }
    }

    /// Tells the kernel that everything below `head` was read.
    fn release(&mut self, head: u64) {
        // SAFETY: as in `bounds`. Release orders our reads before the store.
        unsafe {
            let page = self.control();
            AtomicU64::from_ptr(&raw mut (*page).data_tail).store(head, Ordering::Release);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`; no slice into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), PAGE + self.data) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed_and_malformed_ones_refused() {
        assert_eq!(parse_list("0-2,7\n"), Some(vec![0, 1, 2, 7]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list(""), None);
        assert_eq!(parse_list("0-99999999999"), None);
        assert_eq!(parse_list("0-4000000000"), None);
    }

    /// Accesses fresh pages, and returns their addresses.
    fn touch_fresh(pages: usize) -> (memmap::Fresh, Vec<u64>) {
        let fresh = memmap::Fresh::new(pages);
        let touched = (0..pages).map(|page| fresh.touch(page)).collect();
        (fresh, touched)
    }

    /// Fresh anonymous memory of this process.
    mod memmap {
        pub struct Fresh(*mut u8, usize);
        impl Fresh {
            pub fn new(pages: usize) -> Self {
                use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
                let access = ProtFlags::READ | ProtFlags::WRITE;
                // SAFETY: a new mapping at an address that the kernel chooses.
                let base = unsafe {
                    mmap_anonymous(std::ptr::null_mut(), pages * 4096, access, MapFlags::PRIVATE)
                };
                Self(base.expect("memory").cast(), pages)
            }
            pub fn touch(&self, page: usize) -> u64 {
                assert!(page < self.1);
                let at = self.0.wrapping_add(page * 4096 + 8);
                // SAFETY: within the mapping, which is ours and writable.
                unsafe { at.write_volatile(1) };
                at as u64
            }
        }
        impl Drop for Fresh {
            fn drop(&mut self) {
                // SAFETY: the mapping made in `new`, to which no reference is left.
                let _ = unsafe { rustix::mm::munmap(self.0.cast(), self.1 * 4096) };
            }
        }
    }

    #[test]
    fn page_faults_of_this_thread_are_recorded_with_their_addresses() {
        let fields = Fields::TID | Fields::TIME | Fields::ADDR | Fields::CPU;
        let attr = Attr::every(PerfEvent::PAGE_FAULTS, fields);
        // 2 pages of ring and 400 faults in batches: the ring wraps around many times.
        let mut ring = match Ring::open(&Attr { user_only: true, ..attr }, Scope::Task(0), 2) {
            Ok(ring) => ring,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        ring.enable(true).expect("enable");
        let mut seen = Vec::new();
        let mut expected = Vec::new();
        let begin = monotonic_now();
        for _ in 0..20 {
            let (_fresh, touched) = touch_fresh(20);
            expected.extend(touched);
            ring.drain(|s| seen.push((s.addr, s.pid, s.time)));
        }
        let end = monotonic_now();
        assert_eq!(ring.losses(), RingLosses::default());
        // One fault may map several of our pages (a huge page), so at least one fault per mapping.
        let ours = seen.iter().filter(|(addr, ..)| expected.contains(addr)).count();
        assert!(ours >= 20, "{ours} of {}", expected.len());
        assert!(seen.iter().all(|s| s.1 == std::process::id()));
        assert!(seen.iter().all(|s| begin.0 <= s.2 && s.2 <= end.0), "one clock");
    }

    #[test]
    fn a_ring_that_is_not_read_counts_what_it_lost() {
        let attr = Attr { user_only: true, ..Attr::every(PerfEvent::PAGE_FAULTS, Fields::ADDR) };
        let mut ring = match Ring::open(&attr, Scope::Task(0), 1) {
            Ok(ring) => ring,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        ring.enable(true).expect("enable");
        let (_fresh, touched) = touch_fresh(2000);
        let mut seen = 0u64;
        ring.drain(|_| seen += 1);
        // The kernel reports the loss with the next record that fits in the ring.
        let (_again, _) = touch_fresh(8);
        ring.drain(|_| seen += 1);
        assert!(seen < touched.len() as u64);
        assert!(ring.losses().lost > 0, "{:?} after {seen}", ring.losses());
    }
}
