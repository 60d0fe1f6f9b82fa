// SPDX-License-Identifier: Apache-2.0
//! Reads the configuration: one file, its drop-ins, `--set`. An unknown key is an error.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use tierline_linux::root::Root;

use super::{Layer, Stack};
use crate::nearest::suggest;
use crate::report_error::ErrorWithHint;

/// The default file, if it exists.
pub const FILE: &str = "/etc/tierline/tierline.toml";
/// The folder of drop-ins, which override the file in the order of their names.
pub const DROP_INS: &str = "/etc/tierline/tierline.d";

/// It decides where files are written, and which memory is mapped.
const WORLD_WRITABLE: u32 = 0o002;

/// Sources of settings besides the flags.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigSources {
    /// Read this file instead of /etc/tierline/tierline.toml and tierline.d/*.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set one key of the configuration, as in max_rate=1GB/s; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl ConfigSources {
    /// The layers, with `flags` as the highest.
    pub fn stack(&self, root: &Root, flags: Layer) -> Result<Stack> {
        let mut layers = vec![("default".to_string(), Layer::defaults())];
        for file in self.files(root) {
            layers.push((file.display().to_string(), read(&file)?));
        }
        for text in &self.set {
            layers.push((format!("--set {text}"), set(text)?));
        }
        layers.push(("flags".to_string(), flags));
        Ok(Stack(layers))
    }

    /// The files to read, lowest layer first. A file named by the user is included even if it is missing, which
    /// then is an error.
    pub fn files(&self, root: &Root) -> Vec<PathBuf> {
        if let Some(file) = &self.config {
            return vec![file.clone()];
        }
        let drop_ins = root.list(DROP_INS).into_iter().filter(|name| name.ends_with(".toml"));
        let drop_ins = drop_ins.map(|name| root.path(format!("{DROP_INS}/{name}")));
        let file = Some(root.path(FILE)).filter(|file| file.exists());
        file.into_iter().chain(drop_ins).collect()
    }
}

/// Reads one file.
pub fn read(file: &Path) -> Result<Layer> {
    if fs::metadata(file).is_ok_and(|meta| meta.mode() & WORLD_WRITABLE != 0) {
        let message = format!("{} is not read: every user may write it", file.display());
        return Err(ErrorWithHint::error(message, format!("chmod o-w {}", file.display())));
    }
    let text = fs::read_to_string(file).map_err(|error| {
        let message = format!("cannot read {}: {error}", file.display());
        match error.kind() {
            ErrorKind::NotFound => {
                ErrorWithHint::error(message, "omit --config to run with the defaults")
            }
            _ => anyhow::Error::msg(message),
        }
    })?;
    toml::from_str(&text).map_err(|error| wrong(&file.display().to_string(), &text, &error))
}

/// Parses one `key=value`.
fn set(text: &str) -> Result<Layer> {
    let (key, value) = text
        .split_once('=')
        .with_context(|| format!("--set {text}: expected key=value, as in max_rate=1GB/s"))?;
    let value = match value.trim().parse::<bool>() {
        Ok(switch) => toml::Value::from(switch),
        Err(_) => toml::Value::from(value.trim()),
    };
    let line = format!("{} = {value}", key.trim());
    toml::from_str(&line).map_err(|error| wrong(&format!("--set {text}"), &line, &error))
}

fn wrong(source: &str, text: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = format!("{source}: {}", error.to_string().trim_end());
    match unknown_key(text) {
        Some(hint) => ErrorWithHint::error(message, hint),
        None => anyhow::Error::msg(message),
    }
}

/// A message about the first unknown key.
fn unknown_key(text: &str) -> Option<String> {
    let known = Layer::defaults().table();
    let table: toml::Table = text.parse().ok()?;
    let key = table.keys().find(|key| !known.contains_key(*key))?;
    Some(format!("unknown key {key}; {}", suggest(key, known.keys().map(String::as_str))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_error;

    fn put(root: &Root, path: &str, text: &str) {
        let path = root.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn drop_ins_override_the_file_and_set_overrides_both() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        put(&root, FILE, "policy = \"hold\"\ninterval = \"1s\"\nmin_rss = \"1M\"");
        put(&root, "/etc/tierline/tierline.d/20-b.toml", "interval = \"3s\"");
        put(&root, "/etc/tierline/tierline.d/10-a.toml", "interval = \"2s\"\nmin_rss = \"2M\"");
        put(&root, "/etc/tierline/tierline.d/README", "not a layer");
        let sources = ConfigSources { config: None, set: vec!["min_rss=3M".into()] };
        let table = sources.stack(&root, Layer::default()).expect("layers").flatten().table();
        let of = |key: &str| table[key].as_str().expect(key).to_string();
        assert_eq!([of("policy"), of("interval"), of("min_rss")], ["hold", "3s", "3MiB"]);
    }

    #[test]
    fn a_missing_default_file_is_ignored_and_a_missing_named_one_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        assert!(ConfigSources::default().stack(&root, Layer::default()).is_ok());
        let chosen = ConfigSources { config: Some(dir.path().join("none.toml")), set: Vec::new() };
        let error = chosen.stack(&root, Layer::default()).map(|_| ()).expect_err("missing");
        assert!(error.to_string().contains("none.toml"), "{error}");
    }

    #[test]
    fn a_file_that_every_user_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a folder");
        let root = Root::at(dir.path());
        put(&root, FILE, "policy = \"hold\"");
        let stack = || ConfigSources::default().stack(&root, Layer::default()).map(drop);
        stack().expect("readable");
        fs::set_permissions(root.path(FILE), PermissionsExt::from_mode(0o646)).expect("ours");
        let error = stack().expect_err("refused");
        assert!(error.to_string().contains("every user may write it"), "{error}");
        assert!(report_error::hint(&error).is_some_and(|hint| hint.starts_with("chmod o-w")));
    }

    #[test]
    fn a_typo_is_named_with_the_nearest_key() {
        let error = set("max_rat=1GB/s").expect_err("a typo");
        assert!(error.to_string().contains("max_rat"), "{error}");
        assert!(
            report_error::hint(&error).is_some_and(|hint| hint.contains("did you mean max_rate"))
        );
        let error = set("interval=50").expect_err("no unit");
        assert!(error.to_string().contains("100ms"), "{error}");
        let error = set("policy=teirline").expect_err("no policy").to_string();
        assert!(error.contains("did you mean tierline"), "{error}");
        assert!(set("tiers=0,1").is_err() && set("tiers").is_err() && set("tiers=auto").is_ok());
    }
}
