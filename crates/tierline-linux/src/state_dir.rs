// SPDX-License-Identifier: Apache-2.0
//! The state folder, held by descriptor. What is in it is acted upon with our rights, so it must belong to root or to
//! us, nobody else may write it, and no link in it is followed.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdir, open, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// The default state folder.
pub const STATE_DIR: &str = "/run/tierline";

/// Its mode if it is created here, whatever the umask.
const FOLDER_MODE: u32 = 0o755;
/// Others may read what is in it: `tierline doctor` does, as any user.
const FILE_MODE: u32 = 0o644;
/// Writable by group and others.
const FOREIGN_WRITE: u32 = 0o022;
/// The longest file that is read; a journal has about a hundred bytes for a setting.
const MOST_BYTES: u64 = 1 << 20;

/// The open folder.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    folder: OwnedFd,
}

impl StateDir {
    /// Opens the folder, and creates it if it is missing.
    ///
    /// # Errors
    /// As [`StateDir::open`], and `Error::File` if it cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = plain(path.as_ref());
        let failed =
            |source: io::Error| Error::File { action: "create", path: path.clone(), source };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let parents = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(parent);
            parents.map_err(failed)?;
        }
        let mode = Mode::from_raw_mode(FOLDER_MODE);
        let made = match mkdir(&path, mode) {
            Err(Errno::EXIST) => false,
            made => made.map(|()| true).map_err(|errno| failed(errno.into()))?,
        };
        let dir = Self::held(&path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        if made {
            fchmod(&dir.folder, mode).map_err(|errno| failed(errno.into()))?;
        }
        dir.trusted()
    }

    /// Opens the folder; `None` if there is none.
    ///
    /// # Errors
    /// `Error::Refused` if it is a link, belongs to another user, or may be written by others.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>> {
        Self::held(&plain(path.as_ref()))?.map(Self::trusted).transpose()
    }

    fn held(path: &Path) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(path, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(Self { path: path.into(), folder })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(refused(path, "it is no folder, or a link")),
            Err(errno) => {
                Err(Error::File { action: "open", path: path.into(), source: errno.into() })
            }
        }
    }

    fn trusted(self) -> Result<Self> {
        match foreign(&self.stat()?) {
            Some(why) => Err(refused(&self.path, why)),
            None => Ok(self),
        }
    }

    fn stat(&self) -> Result<Stat> {
        fstat(&self.folder).map_err(|errno| self.error("read", "", errno.into()))
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names in it, sorted.
    ///
    /// # Errors
    /// `Error::File` if it cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = Dir::read_from(&self.folder)
            .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
        let entries = entries.map_err(|errno| self.error("read", "", errno.into()))?;
        let names = entries.iter().filter_map(|entry| entry.file_name().to_str().ok());
        let names = names.filter(|name| !matches!(*name, "." | ".."));
        let mut names: Vec<String> = names.map(String::from).collect();
        names.sort();
        Ok(names)
    }

    /// The content of a regular file that root or we wrote, and nobody else can; `None` if it is anything else, or
    /// gone.
    ///
    /// # Errors
    /// `Error::File` if it cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(errno) => return Err(self.error("open", name, errno.into())),
        };
        let stat = fstat(&file).map_err(|errno| self.error("read", name, errno.into()))?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || foreign(&stat).is_some() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = File::from(file).take(MOST_BYTES).read_to_end(&mut bytes);
        read.map_err(|source| self.error("read", name, source))?;
        Ok(Some(bytes))
    }

    /// Replaces a file atomically, by way of the file `draft`, so that a kill during the write leaves the old one.
    ///
    /// # Errors
    /// `Error::File` if it cannot be written; the old file is unchanged then.
    pub fn replace(&self, name: &str, draft: &str, bytes: &[u8]) -> Result<()> {
        self.remove(draft)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.folder, draft, flags, Mode::from_raw_mode(FILE_MODE));
        let mut file = File::from(file.map_err(|errno| self.error("create", draft, errno.into()))?);
        file.write_all(bytes).map_err(|source| self.error("write", draft, source))?;
        self.rename(draft, name)
    }

    /// Renames a file.
    ///
    /// # Errors
    /// `Error::File` if that fails.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = renameat(&self.folder, from, &self.folder, to);
        renamed.map_err(|errno| self.error("write", to, errno.into()))
    }

    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// `Error::File` if that fails.
    pub fn remove(&self, name: &str) -> Result<()> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.error("remove", name, errno.into())),
        }
    }

    fn error(&self, action: &'static str, name: &str, source: io::Error) -> Error {
        Error::File { action, path: self.path(name), source }
    }
}

/// Without a final slash, which would follow a link.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Why something in it, or itself, is not to be trusted.
fn foreign(stat: &Stat) -> Option<&'static str> {
    if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Some("it belongs to another user");
    }
    (stat.st_mode & FOREIGN_WRITE != 0).then_some("other users may write it")
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Refused {
        what: format!("the state folder {}", path.display()),
        why: why.into(),
        hint: "use a folder of your own: chown it to the user that runs tierline, and chmod go-w; or name another one \
               with --state-dir"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it").permissions().mode() & 0o7777
    }

    #[test]
    fn a_folder_that_others_can_write_or_that_is_a_link_is_refused() {
        let top = tempfile::tempdir().expect("a folder");
        let state = top.path().join("state");
        assert!(StateDir::open(&state).expect("no error").is_none());
        StateDir::create(&state).expect("created");
        assert_eq!(mode(&state), 0o755);
        let link = top.path().join("link");
        symlink(&state, &link).expect("a link");
        let with_slash = top.path().join("link/");
        for (path, why) in [(&link, "a link"), (&with_slash, "a link")] {
            assert!(StateDir::open(path).expect_err("refused").to_string().contains(why));
        }
        fs::set_permissions(&state, Permissions::from_mode(0o777)).expect("ours");
        for opened in [StateDir::create(&state).map(Some), StateDir::open(&state)] {
            let error = opened.expect_err("refused");
            assert!(error.to_string().contains("other users may write it"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("go-w")));
        }
        fs::set_permissions(&state, Permissions::from_mode(0o755)).expect("ours");
        if chown(&state, Some(12345), None).is_ok() {
            let error = StateDir::open(&state).expect_err("refused");
            assert!(error.to_string().contains("another user"), "{error}");
        }
    }

    #[test]
    fn links_pipes_and_files_of_others_are_not_read() {
        let top = tempfile::tempdir().expect("a folder");
        let state = StateDir::create(top.path().join("state")).expect("created");
        let secret = top.path().join("secret");
        fs::write(&secret, "root:x").expect("written");
        symlink(&secret, state.path("link")).expect("a link");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            state.path("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o644),
            0,
        )
        .expect("a pipe");
        fs::write(state.path("open"), "x").expect("written");
        fs::set_permissions(state.path("open"), Permissions::from_mode(0o666)).expect("ours");
        for name in ["link", "pipe", "open", "none", "."] {
            assert_eq!(state.read(name).expect("no error"), None, "{name}");
        }
        state.replace("own", "draft", b"1").expect("written");
        assert_eq!(state.read("own").expect("readable").as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn a_planted_draft_is_not_written_through() {
        let top = tempfile::tempdir().expect("a folder");
        let state = StateDir::create(top.path().join("state")).expect("created");
        let victim = top.path().join("victim");
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, state.path("a.new")).expect("a link");
        state.replace("a.json", "a.new", b"{}").expect("written");
        assert_eq!(fs::read_to_string(&victim).expect("it"), "precious");
        assert_eq!(state.names().expect("readable"), ["a.json"]);
    }
}
