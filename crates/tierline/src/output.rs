// SPDX-License-Identifier: Apache-2.0
//! Output files: the path is checked before the work, and gets the complete result or nothing.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal, Read, Write, stdout};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::report_error::ErrorWithHint;

/// A result being written. It goes to a temporary file, which is deleted unless `keep` is called.
pub struct OutputFile {
    aside: BufWriter<NamedTempFile>,
    name: PathBuf,
    place: Destination,
}

enum Destination {
    /// `-`.
    Stdout,
    /// The temporary file is renamed to this.
    Rename(PathBuf),
    /// The temporary file is copied to this: a device, a pipe, or a file in a folder that we may not write.
    Copy(File),
}

impl OutputFile {
    /// Prepares `path`; `-` is stdout.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let name = path.to_path_buf();
        if path == Path::new("-") {
            return Self::elsewhere(name, Destination::Stdout);
        }
        refuse_link(path)?;
        if is_special(path) {
            return Self::elsewhere(name, Destination::Copy(existing(path)?));
        }
        if path.is_dir() {
            let text = format!("{} is a folder", path.display());
            return Err(ErrorWithHint::error(text, "name a file in it"));
        }
        let target = path.to_path_buf();
        let known = fs::metadata(&target).ok();
        if known.is_some() {
            existing(&target)?;
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // The umask applies to these as to those of any file.
        let mode = known.as_ref().map_or(0o666, |known| known.permissions().mode());
        let mut aside = tempfile::Builder::new();
        aside.prefix(".tierline.").permissions(Permissions::from_mode(mode));
        match aside.tempfile_in(folder) {
            Ok(aside) => {
                Ok(Self { aside: BufWriter::new(aside), name, place: Destination::Rename(target) })
            }
            Err(_) if known.is_some() => Self::elsewhere(name, Destination::Copy(existing(path)?)),
            Err(error) => {
                let hint = match error.kind() {
                    io::ErrorKind::NotFound => {
                        format!("create the folder first: mkdir -p {}", folder.display())
                    }
                    _ => "name a file in a folder that you may write".into(),
                };
                let why = error.kind();
                Err(ErrorWithHint::error(format!("cannot write {}: {why}", path.display()), hint))
            }
        }
    }

    /// Prepares a picture, which is always SVG.
    ///
    /// # Errors
    /// If the name has another extension, and those of [`Self::create`].
    pub fn svg(path: &Path) -> Result<Self> {
        Self::of_kind(path, "svg", "pictures are SVG")
    }

    /// Prepares an HTML page.
    ///
    /// # Errors
    /// As [`Self::svg`].
    pub fn html(path: &Path) -> Result<Self> {
        Self::of_kind(path, "html", "reports are HTML")
    }

    fn of_kind(path: &Path, ending: &str, what: &str) -> Result<Self> {
        let is = path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending));
        if !is && !is_special(path) && path != Path::new("-") {
            let hint = format!("name it {}", path.with_extension(ending).display());
            return Err(ErrorWithHint::error(format!("{}: {what}", path.display()), hint));
        }
        Self::create(path)
    }

    fn elsewhere(name: PathBuf, place: Destination) -> Result<Self> {
        let aside = NamedTempFile::new().context("cannot make a temporary file")?;
        Ok(Self { aside: BufWriter::new(aside), name, place })
    }

    /// Reopens what was written so far, at its start.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn reopen(&mut self) -> Result<File> {
        let cannot = || format!("cannot write {}", self.name.display());
        self.aside.flush().with_context(cannot)?;
        self.aside.get_ref().reopen().with_context(cannot)
    }

    /// Moves the result to its path.
    ///
    /// # Errors
    /// If the disk is full, or the path no longer exists.
    pub fn keep(self) -> Result<()> {
        let cannot = || format!("cannot write {}", self.name.display());
        let aside = self.aside.into_inner().map_err(io::IntoInnerError::into_error);
        let aside = aside.with_context(cannot)?;
        match self.place {
            Destination::Rename(target) => {
                aside.persist(target).map_err(|error| error.error).with_context(cannot)?;
            }
            Destination::Copy(mut file) => copy(&aside, &mut file).with_context(cannot)?,
            Destination::Stdout => copy(&aside, &mut stdout().lock())?,
        }
        Ok(())
    }

    /// Writes a whole text and moves it to its path.
    ///
    /// # Errors
    /// Those of [`Self::keep`].
    pub fn text(mut self, text: &str) -> Result<()> {
        let written = self.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", self.name.display()))?;
        self.keep()
    }

    /// Refuses a terminal, for results that are not text.
    ///
    /// # Errors
    /// If the result goes to stdout, and stdout is a terminal.
    pub fn binary(self) -> Result<Self> {
        match self.place {
            Destination::Stdout if stdout().is_terminal() => Err(ErrorWithHint::error(
                "a trace is not text: it cannot be printed to a terminal",
                "name a file, or use a pipe",
            )),
            _ => Ok(self),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.aside.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.aside.flush()
    }
}

/// Opens a file that only its user may read: it tells addresses of programs, also of other users. A new one, or one of
/// our own; what is in it stays until the caller empties it. Devices and pipes are opened as they are.
///
/// # Errors
/// If it cannot be written, is a link, or belongs to another user.
pub fn private(path: &Path) -> Result<File> {
    if is_standard(path) {
        return existing(path);
    }
    refuse_link(path)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(OWN).custom_flags(NOFOLLOW);
    let cannot = || format!("cannot write {}", path.display());
    let file = options.open(path).with_context(cannot)?;
    let known = file.metadata().with_context(cannot)?;
    if !known.is_file() {
        return Ok(file);
    }
    if known.uid() != rustix::process::geteuid().as_raw() || known.nlink() > 1 {
        let text = format!("{}: it belongs to another user, or has other names", cannot());
        return Err(ErrorWithHint::error(text, "delete it, or name another file"));
    }
    if known.mode() & !OWN & 0o777 != 0 {
        file.set_permissions(Permissions::from_mode(OWN)).with_context(cannot)?;
    }
    Ok(file)
}

/// The same, emptied.
///
/// # Errors
/// As [`private`].
pub fn emptied(path: &Path) -> Result<File> {
    let file = private(path)?;
    empty(&file).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file)
}

/// Empties a file; a device or a pipe has nothing to empty.
pub fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

/// Readable for its user only.
const OWN: u32 = 0o600;
#[expect(clippy::cast_possible_wrap, reason = "a bit of an int")]
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Whoever can make a link decides what would be overwritten.
fn refuse_link(path: &Path) -> Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|known| known.is_symlink());
    if !is_link || is_standard(path) {
        return Ok(());
    }
    let hint = fs::read_link(path).map_or_else(
        |_| "name a file".into(),
        |to| format!("name the file itself: {}", to.display()),
    );
    Err(ErrorWithHint::error(format!("cannot write {}: it is a link", path.display()), hint))
}

/// Our own open files, which are links in /dev.
fn is_standard(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd"].iter().any(|known| path.starts_with(known))
}

/// True for devices and pipes, and for every path in /dev.
fn is_special(path: &Path) -> bool {
    let file = fs::metadata(path);
    path.starts_with("/dev") || file.is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Opens an existing file for writing, without changing it.
fn existing(path: &Path) -> Result<File> {
    let flags = if is_standard(path) { 0 } else { NOFOLLOW };
    let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))
}

fn copy(aside: &NamedTempFile, to: &mut impl Write) -> io::Result<()> {
    let mut written = aside.reopen()?;
    let mut block = vec![0; 1 << 16];
    loop {
        match written.read(&mut block)? {
            0 => return to.flush(),
            count => to.write_all(&block[..count])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_error;

    fn files(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("a folder").flatten();
        names.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn without_keep_nothing_is_written_and_an_old_file_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.txt");
        drop(OutputFile::create(&path).expect("prepared"));
        assert!(files(dir.path()).is_empty());
        OutputFile::create(&path).expect("prepared").text("one").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("it"), "one");
        let mode = |path: &Path| fs::metadata(path).expect("it").permissions().mode() & 0o777;
        let plain = dir.path().join("plain");
        fs::write(&plain, "").expect("written");
        assert_eq!(mode(&path), mode(&plain), "the mode of any new file");
        let mut half = OutputFile::create(&path).expect("prepared");
        half.write_all(b"half").expect("written");
        drop(half);
        assert_eq!(fs::read_to_string(&path).expect("it"), "one");
        assert_eq!(files(dir.path()).len(), 2);
    }

    #[test]
    fn links_are_refused_and_devices_are_not_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        for refused in [OutputFile::create(&link).map(drop), private(&link).map(drop)] {
            let refused = refused.expect_err("refused");
            assert!(refused.to_string().contains("it is a link"), "{refused}");
            let hint = report_error::hint(&refused).expect("a hint");
            assert!(hint.ends_with(&file.display().to_string()), "{hint}");
        }
        assert_eq!(fs::read_to_string(&file).expect("it"), "old");
        OutputFile::svg(Path::new("/dev/null")).expect("prepared").text("x").expect("written");
        assert!(!fs::metadata("/dev/null").expect("it").is_file());
    }

    #[test]
    fn a_private_file_is_our_own_and_stays_until_it_is_emptied() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("events");
        let mode = |path: &Path| fs::metadata(path).expect("it").permissions().mode() & 0o777;
        private(&path).expect("made").write_all(b"old").expect("written");
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("ours");
        drop(private(&path).expect("opened"));
        assert_eq!((mode(&path), fs::read_to_string(&path).expect("it").as_str()), (0o600, "old"));
        fs::hard_link(&path, dir.path().join("other")).expect("a second name");
        assert!(private(&path).is_err());
        let foreign = dir.path().join("foreign");
        fs::write(&foreign, "theirs").expect("written");
        if std::os::unix::fs::chown(&foreign, Some(12345), None).is_ok() {
            assert!(private(&foreign).expect_err("refused").to_string().contains("another user"));
        }
        assert!(private(Path::new("/dev/null")).is_ok() && private(dir.path()).is_err());
    }

    #[test]
    fn an_impossible_path_is_refused_with_a_next_step() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        for (refused, error, hint) in [
            (OutputFile::create(&at("none/x.svg")), "cannot write", "mkdir -p"),
            (OutputFile::create(dir.path()), "is a folder", "a file in it"),
            (OutputFile::svg(&at("x.png")), "x.png: pictures are SVG", "x.svg"),
            (OutputFile::html(&at("x")), "x: reports are HTML", "x.html"),
        ] {
            let refused = refused.err().expect("refused");
            assert!(refused.to_string().contains(error), "{refused}");
            assert!(
                report_error::hint(&refused).is_some_and(|found| found.contains(hint)),
                "{refused}"
            );
        }
    }
}
