// SPDX-License-Identifier: Apache-2.0
//! Writes the files that are generated from `hardware/neoprof/registers.toml`: `cargo run -p neoprof --example
//! generate`.

#[path = "../tests/it/generated.rs"]
mod generated;

fn main() -> std::io::Result<()> {
    for (path, text) in generated::files() {
        std::fs::write(&path, text)?;
        println!("{}", path.display());
    }
    Ok(())
}
