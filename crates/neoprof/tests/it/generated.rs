// SPDX-License-Identifier: Apache-2.0
//! Generates files from the register description: constants for hardware and software, and a documentation
//! page.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use neoprof::{LANES_MAX, hash};

const SOURCE: &str = include_str!("../../../../hardware/neoprof/registers.toml");
const HEAD: &str = "Generated from hardware/neoprof/registers.toml by `cargo run -p neoprof --example generate`; edit that file.";

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    block: Vec<Block>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    name: String,
    prefix: String,
    base: u32,
    text: String,
    register: Vec<Register>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    name: String,
    offset: u32,
    read: Option<String>,
    write: Option<String>,
    contract: Option<String>,
    #[serde(default)]
    fields: Vec<Field>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    name: String,
    low: u32,
    bits: u32,
    text: String,
}

/// Every generated file with its contents.
pub fn files() -> Vec<(PathBuf, String)> {
    let description: Description = toml::from_str(SOURCE).expect("registers.toml is readable");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    vec![
        (root.join("crates/neoprof/src/registers.rs"), rust(&description)),
        (root.join("hardware/neoprof/rtl/regs.sv"), verilog(&description)),
        (root.join("hardware/neoprof/registers.md"), page(&description)),
    ]
}

fn each<'a>(description: &'a Description) -> impl Iterator<Item = (String, u32, &'a Register)> {
    let of = |block: &'a Block| {
        let named =
            |r: &'a Register| (format!("{}{}", block.prefix, r.name), block.base + r.offset, r);
        block.register.iter().map(named)
    };
    description.block.iter().flat_map(of)
}

fn mask(field: &Field) -> u64 {
    (u64::MAX >> (64 - field.bits)) << field.low
}

fn access(register: &Register) -> String {
    let side = |word: &str, text: &Option<String>| text.as_ref().map(|t| format!("{word}: {t}."));
    let sides = [side("Read", &register.read), side("Write", &register.write)];
    sides.into_iter().flatten().chain(register.contract.clone()).collect::<Vec<_>>().join(" ")
}

fn rust(description: &Description) -> String {
    let mut out = "// SPDX-License-Identifier: Apache-2.0\n".to_owned();
    writeln!(out, "//! Offsets of registers, in bytes, and masks of their fields.\n//! {HEAD}")
        .unwrap();
    for (name, offset, register) in each(description) {
        writeln!(out, "\n/// {}\npub const {name}: u32 = {offset:#x};", access(register)).unwrap();
        for field in &register.fields {
            let (of, text) = (&field.name, &field.text);
            writeln!(out, "/// {text}.\npub const {name}_{of}: u64 = {:#x};", mask(field)).unwrap();
        }
    }
    out
}

fn verilog(description: &Description) -> String {
    let mut out = format!(
        "// SPDX-License-Identifier: Apache-2.0\n// {HEAD}\n// verilator lint_off UNUSEDPARAM\npackage regs;\n"
    );
    for (name, offset, register) in each(description) {
        writeln!(out, "  localparam bit [15:0] {name} = 16'h{offset:04x};").unwrap();
        for field in &register.fields {
            let (of, low) = (&field.name, field.low);
            writeln!(out, "  localparam int {name}_{of}_LOW = {low};").unwrap();
        }
    }
    writeln!(
        out,
        "\n  // H3 seeds: one 32-bit word per bit of the page number, lane 0 and bit 0 lowest."
    )
    .unwrap();
    writeln!(out, "  localparam int LANES_MAX = {LANES_MAX};").unwrap();
    writeln!(out, "  localparam bit [{}:0] SEEDS = {{", LANES_MAX * 1024 - 1).unwrap();
    let seeds: Vec<u32> = hash::SEEDS.iter().flatten().copied().rev().collect();
    let lines: Vec<String> = seeds
        .chunks(8)
        .map(|chunk| chunk.iter().map(|s| format!("32'h{s:08x}")).collect::<Vec<_>>().join(", "))
        .collect();
    writeln!(
        out,
        "    {}\n  }};\nendpackage\n// verilator lint_on UNUSEDPARAM",
        lines.join(",\n    ")
    )
    .unwrap();
    out
}

fn page(description: &Description) -> String {
    let mut out = format!("# Registers\n\n<!-- {HEAD} -->\n");
    out += "\nOffsets are bytes from the start of a 64 KiB window. Every register is one aligned word of 64 bits.\n";
    for block in &description.block {
        write!(out, "\n## {}\n\n{}\n\n", block.name, block.text).unwrap();
        out += "| offset | register | read | write |\n|---|---|---|---|\n";
        for register in &block.register {
            let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
            let (offset, name) = (block.base + register.offset, &register.name);
            let (read, write) = (side(&register.read), side(&register.write));
            writeln!(out, "| 0x{offset:04x} | `{name}` | {read} | {write} |").unwrap();
            if let Some(contract) = &register.contract {
                writeln!(out, "| | | {contract} | |").unwrap();
            }
            for field in &register.fields {
                let high = field.low + field.bits - 1;
                let bits = if field.bits == 1 {
                    format!("{high}")
                } else {
                    format!("{high}:{}", field.low)
                };
                writeln!(out, "| | [{bits}] `{}` | {} | |", field.name, field.text).unwrap();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        for (path, text) in files() {
            let found = std::fs::read_to_string(&path).unwrap();
            assert!(
                found == text,
                "{} is out of date; run: cargo run -p neoprof --example generate",
                path.display()
            );
        }
    }

    #[test]
    fn no_two_registers_or_fields_overlap() {
        let description: Description = toml::from_str(SOURCE).unwrap();
        let mut seen = std::collections::BTreeMap::new();
        for (name, offset, register) in each(&description) {
            assert!(offset % 8 == 0, "{name} is not aligned");
            assert_eq!(
                seen.insert(offset, name.clone()),
                None,
                "{name} has the offset of another register"
            );
            let mut used = 0;
            for field in &register.fields {
                assert_eq!(used & mask(field), 0, "{name}.{} overlaps", field.name);
                used |= mask(field);
            }
        }
    }

    /// The offsets of Table II, typed from the paper.
    #[test]
    fn offsets_match_table_ii() {
        use neoprof::registers::*;
        let ours = [RESET, SET_THRESHOLD, GET_NR_HOT_PAGE, GET_HOT_PAGE, GET_NR_SAMPLE];
        assert_eq!(ours, [0x100, 0x200, 0x300, 0x400, 0x500]);
        let ours = [GET_RD_CNT, GET_WR_CNT, SET_HIST_EN, GET_NR_HIST_BIN, GET_HIST];
        assert_eq!(ours, [0x600, 0x700, 0x800, 0x900, 0xA00]);
    }
}
