// SPDX-License-Identifier: Apache-2.0
//! The Verilated hardware: built for given dimensions, optionally with an injected fault, and stepped by clock
//! edges.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use neoprof::Config;

/// Inputs before a clock edge.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct In {
    pub bus_data: u64,
    pub page: u32,
    pub bus_addr: u16,
    pub mem_edge: bool,
    pub core_edge: bool,
    pub reset: bool,
    pub access: bool,
    pub write: bool,
    pub bus_valid: bool,
    pub bus_write: bool,
}

/// Outputs before that edge.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Out {
    pub bus_read: u64,
    pub pause: u32,
    pub lost: bool,
    pub clear: bool,
    pub restart: bool,
    pub answer: bool,
    pub ready: bool,
    pub taken: bool,
}

/// Dimensions of the hardware: those of the model, and those that only hardware has.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub model: Config,
    pub bank_log2: u32,
    pub crossing_log2: u32,
}

/// Paths of tools, sources and build output.
pub struct Workshop {
    pub verilator_root: PathBuf,
    pub hardware: PathBuf,
    pub build: PathBuf,
}

/// One change to a source file: a fault that the bench must find.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    pub name: String,
    pub file: String,
    pub find: String,
    pub replace: String,
}

/// The sources of the hardware, packages first.
pub const SOURCES: [&str; 15] = [
    "regs.sv",
    "uncertain.sv",
    "synchroniser.sv",
    "async_fifo.sv",
    "cdc_word.sv",
    "state_monitor.sv",
    "match.sv",
    "rmw_ram.sv",
    "h3.sv",
    "sketch_lane.sv",
    "histogram.sv",
    "detector.sv",
    "hot_fifo.sv",
    "chmu.sv",
    "neoprof.sv",
];

impl Workshop {
    /// Verilates and compiles; returns the library. An older build of the same name is replaced.
    pub fn build(&self, name: &str, shape: &Shape, mutant: Option<&Mutant>) -> Result<PathBuf> {
        let folder = self.build.join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("rtl"))?;
        for source in SOURCES {
            let from = self.hardware.join("rtl").join(source);
            let mut text = std::fs::read_to_string(&from)
                .with_context(|| format!("cannot read {}", from.display()))?;
            if let Some(mutant) = mutant.filter(|m| m.file == source) {
                let found = text.matches(&mutant.find).count();
                ensure!(
                    found == 1,
                    "mutant {}: `{}` occurs {found} times instead of once in {source}",
                    mutant.name,
                    mutant.find
                );
                text = text.replace(&mutant.find, &mutant.replace);
            }
            std::fs::write(folder.join("rtl").join(source), text)?;
        }
        self.verilate(&folder, shape, mutant.is_some())?;
        self.compile(&folder, mutant.is_some())
    }

    fn verilate(&self, folder: &Path, shape: &Shape, mutant: bool) -> Result<()> {
        let model = &shape.model;
        let mut command = Command::new("perl");
        command
            .env("VERILATOR_ROOT", &self.verilator_root)
            .arg(self.verilator_root.join("bin/verilator"))
            .args([
                "--cc",
                "-O3",
                "--x-assign",
                "fast",
                "--x-initial",
                "unique",
                "--output-split",
                "0",
                "-DSIMULATE_CROSSINGS",
            ])
            .args(["--top-module", "neoprof", "--prefix", "Vdut", "--Mdir", "cpp"])
            .args([if mutant { "-Wno-lint" } else { "-Wall" }])
            .arg(format!("-GWIDTH_BITS={}", model.width_log2))
            .arg(format!("-GDEPTH={}", model.depth))
            .arg(format!("-GCOUNTER_BITS={}", model.counter_bits))
            .arg(format!("-GFIFO_BITS={}", model.fifo_log2))
            .arg(format!("-GRING_BITS={}", model.ring_log2))
            .arg(format!("-GBANK_BITS={}", shape.bank_log2))
            .arg(format!("-GCROSSING_BITS={}", shape.crossing_log2))
            .args(SOURCES.map(|source| format!("rtl/{source}")))
            .current_dir(folder);
        run(&mut command, "Verilator")
    }

    /// Compiles everything as one unit, as most of the time goes into Verilator's headers.
    fn compile(&self, folder: &Path, mutant: bool) -> Result<PathBuf> {
        let mut unit = String::new();
        let mut parts: Vec<PathBuf> = std::fs::read_dir(folder.join("cpp"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        parts.sort();
        parts.retain(|part| part.extension().is_some_and(|e| e == "cpp"));
        parts.push(self.hardware.join("bench/src/shim.cpp"));
        parts.iter().for_each(|part| unit += &format!("#include \"{}\"\n", part.display()));
        std::fs::write(folder.join("unit.cpp"), unit)?;

        // A fault is found within a second of simulation, so compiling takes longest.
        let build = self.compiler(&self.build, if mutant { 0 } else { 2 });
        let library = folder.join("libdut.so");
        let mut command = build.get_compiler().to_command();
        command.args(["-shared", "-w", "-o"]).arg(&library);
        command.arg("-I").arg(folder.join("cpp")).arg(folder.join("unit.cpp"));
        command
            .arg(self.build.join("libverilated.so"))
            .args(["-Wl,-rpath"])
            .arg(&self.build)
            .arg("-lpthread");
        run(&mut command, "the C++ compiler")?;
        Ok(library)
    }

    /// Builds Verilator's own library, which all builds share.
    pub fn prepare(&self) -> Result<()> {
        std::fs::create_dir_all(&self.build)?;
        let library = self.build.join("libverilated.so");
        if library.exists() {
            return Ok(());
        }
        let include = self.verilator_root.join("include");
        let mut command = self.compiler(&self.build, 2).get_compiler().to_command();
        command.args(["-shared", "-w", "-o"]).arg(&library);
        command.arg(include.join("verilated.cpp")).arg(include.join("verilated_threads.cpp"));
        run(&mut command, "the C++ compiler")
    }

    fn compiler(&self, out: &Path, opt_level: u32) -> cc::Build {
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let include = self.verilator_root.join("include");
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .target(&target)
            .host(&target)
            .opt_level(opt_level)
            .out_dir(out)
            .pic(true)
            .std("c++17");
        build
            .include(&include)
            .include(include.join("vltstd"))
            .cargo_metadata(false)
            .debug(false)
            .warnings(false);
        build
    }
}

fn run(command: &mut Command, what: &str) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {what}: {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{what} failed:\n{said}\n{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(())
}

/// Hardware under test.
pub struct Dut {
    context: *mut c_void,
    step: unsafe extern "C" fn(*mut c_void, *const In, *mut Out),
    free: unsafe extern "C" fn(*mut c_void),
    /// Keeps the functions above loaded.
    _library: libloading::Library,
}

impl Dut {
    /// Hardware after power-up; the initial contents of registers and memories come from `seed`, and with them what each
    /// crossing makes of uncertain bits.
    pub fn new(library: &Path, seed: u64) -> Result<Self> {
        // Verilator takes 0 for the time.
        let seed = u32::try_from(1 + seed % 0x7fff_ffff)?;
        // SAFETY: the library was made by `Workshop::build`; its functions have these types.
        unsafe {
            let library = libloading::Library::new(library)?;
            let new: libloading::Symbol<unsafe extern "C" fn(u32) -> *mut c_void> =
                library.get(b"dut_new")?;
            let context = new(seed);
            let (step, free) = (*library.get(b"dut_step")?, *library.get(b"dut_free")?);
            Ok(Self { context, step, free, _library: library })
        }
    }

    /// Applies the inputs, reads the outputs, and makes the requested clock edges.
    #[inline]
    pub fn step(&mut self, input: &In) -> Out {
        let mut out = Out::default();
        // SAFETY: the context comes from this library, and shim.cpp declares both structs with the same layout.
        unsafe { (self.step)(self.context, input, &raw mut out) };
        out
    }
}

impl Drop for Dut {
    fn drop(&mut self) {
        // SAFETY: the context came from dut_new and is not used afterwards.
        unsafe { (self.free)(self.context) };
    }
}
