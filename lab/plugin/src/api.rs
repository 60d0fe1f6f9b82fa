// SPDX-License-Identifier: Apache-2.0
//! The part of QEMU's plugin interface that is used here, declared by hand, as distributions package QEMU
//! without `qemu-plugin.h`.
//!
//! Versions 4 and 7 differ here in the arguments of the callbacks for translation and exit.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The API version of this build.
pub const VERSION: c_int = if cfg!(feature = "api4") { 4 } else { 7 };

/// QEMU's handle of a loaded plugin.
pub type Id = u64;

/// `QEMU_PLUGIN_CB_NO_REGS`: callbacks access no registers.
pub const NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_MEM_R`.
pub const MEM_R: c_int = 1;
/// `QEMU_PLUGIN_MEM_W`.
pub const MEM_W: c_int = 2;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const INLINE_ADD: c_int = 0;

/// `qemu_info_t`. In user-mode emulation the vCPU counts are not valid.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

/// A block of guest code under translation.
#[repr(C)]
pub struct Tb([u8; 0]);

/// An instruction of a block.
#[repr(C)]
pub struct Insn([u8; 0]);

/// The physical address of an access.
#[repr(C)]
pub struct Hwaddr([u8; 0]);

/// One allocation per vCPU, to which translated code can add.
#[repr(C)]
pub struct Scoreboard([u8; 0]);

/// A 64-bit cell of a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct U64 {
    pub score: *mut Scoreboard,
    pub offset: usize,
}

#[cfg(feature = "api4")]
pub type TransCb = extern "C" fn(Id, *mut Tb);
#[cfg(not(feature = "api4"))]
pub type TransCb = extern "C" fn(*mut Tb, *mut c_void);

#[cfg(feature = "api4")]
pub type ExitCb = extern "C" fn(Id, *mut c_void);
#[cfg(not(feature = "api4"))]
pub type ExitCb = extern "C" fn(*mut c_void);

pub type ExecCb = extern "C" fn(c_uint, *mut c_void);
pub type MemCb = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    #[cfg(feature = "api4")]
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, cb: TransCb);
    #[cfg(not(feature = "api4"))]
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, cb: TransCb, data: *mut c_void);
    pub fn qemu_plugin_register_atexit_cb(id: Id, cb: ExitCb, data: *mut c_void);

    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn, dest: *mut c_void, len: usize) -> usize;

    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb: *mut Tb,
        op: c_int,
        entry: U64,
        imm: u64,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: ExecCb,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCb,
        flags: c_int,
        rw: c_int,
        data: *mut c_void,
    );

    pub fn qemu_plugin_get_hwaddr(info: u32, vaddr: u64) -> *const Hwaddr;
    pub fn qemu_plugin_hwaddr_is_io(addr: *const Hwaddr) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(addr: *const Hwaddr) -> u64;

    pub fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_u64_get(entry: U64, vcpu: c_uint) -> u64;
}
