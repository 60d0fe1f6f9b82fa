// SPDX-License-Identifier: Apache-2.0
//! The functions that QEMU calls: at installation, at each translation, and at each access.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, OnceLock};

use crate::api::{self, Id, Insn, Tb};
use crate::args::Args;
use crate::device::Device;
use crate::marker::{self, Log, Marker};
use crate::recorder::Recorder;
use crate::report::{self, Summary};
use crate::serve::{self, Words};
use crate::vcpu::{Pages, Totals, Vcpu};

/// QEMU reads this before it calls any function.
#[unsafe(no_mangle)]
static qemu_plugin_version: c_int = api::VERSION;

static LAB: OnceLock<Lab> = OnceLock::new();

struct Lab {
    args: Args,
    vcpus: Box<[Vcpu]>,
    /// Instructions of instrumented code.
    instructions: api::U64,
    /// Instructions of all code, the guest's kernel included.
    all_instructions: api::U64,
    log: Mutex<Log>,
    recorder: Option<Mutex<Recorder>>,
    device: Option<Device>,
}

// SAFETY: the only pointer in it is the scoreboard, which QEMU allows any thread to use and frees only on
// request.
unsafe impl Sync for Lab {}
// SAFETY: as above.
unsafe impl Send for Lab {}

/// The entry point.
///
/// # Safety
///
/// QEMU calls it, with `argc` strings in `argv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const api::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a description that lives as long as this call.
    let info = unsafe { &*info };
    let words: Vec<_> = (0..usize::try_from(argc).unwrap_or(0))
        // SAFETY: there are `argc` strings, valid while the plugin is loaded.
        .map(|i| unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy())
        .collect();
    match install(id, info, words.iter().map(AsRef::as_ref)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("lab-plugin: {error}");
            1
        }
    }
}

fn install<'a>(
    id: Id,
    info: &api::Info,
    words: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    if !info.system_emulation {
        return Err("expected qemu-system, as user-mode emulation has no physical addresses".into());
    }
    let args = Args::parse(words)?;
    let vcpus = (0..info.max_vcpus).map(|_| Vcpu::new(&args)).collect();
    // SAFETY: a scoreboard may be created at any time after installation.
    let score = unsafe { api::qemu_plugin_scoreboard_new(2 * size_of::<u64>()) };
    let instructions = api::U64 { score, offset: 0 };
    let all_instructions = api::U64 { score, offset: size_of::<u64>() };
    let recorder = Recorder::open(&args)?.map(Mutex::new);
    let device = Device::open(&args)?;
    let socket = args.neoprof.clone();
    let log = Mutex::default();
    let lab = Lab { args, vcpus, instructions, all_instructions, log, recorder, device };
    if LAB.set(lab).is_err() {
        return Err("loaded twice; one instance counts for the whole machine".into());
    }
    // QEMU creates its devices and connects after loading its plugins.
    socket.map_or(Ok(()), |socket| serve::serve(&socket, Registers))?;
    // SAFETY: the callbacks have the types of this API version and are static.
    unsafe {
        #[cfg(feature = "api4")]
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        #[cfg(not(feature = "api4"))]
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, translated, null_mut());
        api::qemu_plugin_register_atexit_cb(id, exiting, null_mut());
    }
    Ok(())
}

#[cfg(feature = "api4")]
extern "C" fn translated(_: Id, tb: *mut Tb) {
    instrument(tb);
}

#[cfg(not(feature = "api4"))]
extern "C" fn translated(tb: *mut Tb, _: *mut c_void) {
    instrument(tb);
}

/// Selects what is counted in a block of guest code. Runs once per translation, so decisions made here cost
/// nothing later.
fn instrument(tb: *mut Tb) {
    let Some(lab) = LAB.get() else { return };
    // SAFETY: the block is valid during this call.
    let (vaddr, len) = unsafe { (api::qemu_plugin_tb_vaddr(tb), api::qemu_plugin_tb_n_insns(tb)) };
    let add = |cell, count| {
        // SAFETY: the block is valid during this call; the scoreboard is ours.
        unsafe {
            api::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, api::INLINE_ADD, cell, count)
        }
    };
    add(lab.all_instructions, len as u64);
    let kernel = vaddr >> 63 == 1;
    if kernel && !lab.args.kernel {
        return;
    }
    add(lab.instructions, len as u64);
    for index in 0..len {
        // SAFETY: the index is below the block's length.
        let insn = unsafe { api::qemu_plugin_tb_get_insn(tb, index) };
        if let Some(id) = marker_in(insn) {
            let data = pack(id, len - index);
            // SAFETY: the instruction belongs to the block, which is valid during this call.
            unsafe {
                api::qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, api::NO_REGS, data);
            }
            continue;
        }
        // SAFETY: the instruction belongs to the block, which is valid during this call. An instruction that
        // loads and stores gets both callbacks.
        unsafe {
            let (flags, none) = (api::NO_REGS, null_mut());
            api::qemu_plugin_register_vcpu_mem_cb(insn, accessed::<false>, flags, api::MEM_R, none);
            api::qemu_plugin_register_vcpu_mem_cb(insn, accessed::<true>, flags, api::MEM_W, none);
        }
    }
}

fn marker_in(insn: *const Insn) -> Option<u8> {
    let mut bytes = [0u8; marker::BYTES];
    // SAFETY: QEMU writes at most the given length.
    let len = unsafe { api::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), bytes.len()) };
    marker::recognise(&bytes[..len])
}

/// A marker's user data: its id, and the number of instructions of its block, up to and including the marker,
/// that were counted when the block was entered.
fn pack(id: u8, ahead: usize) -> *mut c_void {
    without_provenance_mut(ahead << 8 | usize::from(id))
}

fn unpack(data: *mut c_void) -> (u8, u64) {
    let [id, ..] = data.addr().to_le_bytes();
    (id, (data.addr() >> 8) as u64)
}

/// The hot path: called for every load or store of instrumented code.
extern "C" fn accessed<const STORE: bool>(vcpu: c_uint, info: u32, vaddr: u64, _: *mut c_void) {
    // SAFETY: these functions may be called from this callback. The result is valid during the callback, and
    // null only if there is no physical memory.
    let phys = unsafe {
        let addr = api::qemu_plugin_get_hwaddr(info, vaddr);
        if addr.is_null() || api::qemu_plugin_hwaddr_is_io(addr) {
            return;
        }
        api::qemu_plugin_hwaddr_phys_addr(addr)
    };
    let Some(lab) = LAB.get() else { return };
    // SAFETY: QEMU runs a vCPU on one thread at a time.
    let effect = unsafe { lab.vcpus[vcpu as usize].access(phys, STORE, &lab.args.slow) };
    if !effect.read && effect.written.is_none() {
        return;
    }
    if let Some(device) = &lab.device {
        device.take(phys, effect, || lab.modelled_ns());
    }
    if let Some(recorder) = &lab.recorder {
        let mut recorder = recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        recorder.take(phys, effect, || lab.modelled_ns());
    }
}

/// NeoProf's registers, for reads and writes by the guest.
struct Registers;

impl Words for Registers {
    fn read(&self, offset: u32) -> u64 {
        let read = |(lab, device): (&Lab, &Device)| device.read(offset, lab.modelled_ns());
        Self::device().map_or(u64::MAX, read)
    }

    fn write(&self, offset: u32, value: u64) {
        if let Some((lab, device)) = Self::device() {
            device.write(offset, value, lab.modelled_ns());
        }
    }

    // Does not read the clock: there may be no vCPU yet.
    fn reset(&self) {
        if let Some((_, device)) = Self::device() {
            device.reset();
        }
    }
}

impl Registers {
    fn device() -> Option<(&'static Lab, &'static Device)> {
        let lab = LAB.get()?;
        Some((lab, lab.device.as_ref()?))
    }
}

extern "C" fn marked(vcpu: c_uint, data: *mut c_void) {
    let Some(lab) = LAB.get() else { return };
    let (id, ahead) = unpack(data);
    let mut sum = Totals::default();
    lab.totals().iter().for_each(|vcpu| sum += vcpu);
    sum.instructions -= ahead;
    sum.all_instructions -= ahead;
    let marker = Marker::new(id, vcpu, &sum, lab.args.costs);

    let mut log = lab.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if log.push(marker) {
        lab.summarise(&log, None);
    }
}

#[cfg(feature = "api4")]
extern "C" fn exiting(_: Id, _: *mut c_void) {
    finish();
}

#[cfg(not(feature = "api4"))]
extern "C" fn exiting(_: *mut c_void) {
    finish();
}

fn finish() {
    let Some(lab) = LAB.get() else { return };
    let pages = Pages::sum(&lab.vcpus);
    let log = lab.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    lab.summarise(&log, Some(&pages));
    if let Some(recorder) = &lab.recorder {
        let mut recorder = recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        recorder.finish(lab.modelled_ns());
    }
    if let Some(device) = &lab.device {
        device.finish();
    }
    if let Some(path) = &lab.args.pages
        && let Err(error) = report::write_pages(path, &pages)
    {
        eprintln!("lab-plugin: cannot write {}: {error}", path.display());
    }
}

impl Lab {
    fn totals(&self) -> Vec<Totals> {
        (0..)
            .zip(&self.vcpus)
            .map(|(index, vcpu)| {
                // SAFETY: the scoreboard is ours, and it has a cell for every vCPU.
                let count = |cell| unsafe { api::qemu_plugin_u64_get(cell, index) };
                vcpu.totals(count(self.instructions), count(self.all_instructions))
            })
            .collect()
    }

    /// The modelled clock of the most advanced vCPU.
    fn modelled_ns(&self) -> u64 {
        let clocks = self.totals().into_iter().map(|vcpu| vcpu.modelled_ps(self.args.costs));
        clocks.max().unwrap_or(0) / 1000
    }

    fn summarise(&self, log: &Log, pages: Option<&Pages>) {
        let vcpus = self.totals();
        let neoprof = self.device.as_ref().map(Device::counts);
        let summary = Summary::new(api::VERSION, &self.args, &vcpus, log, neoprof, pages);
        if let Err(error) = summary.write(&self.args.out) {
            eprintln!("lab-plugin: cannot write {}: {error}", self.args.out.display());
        }
    }
}
