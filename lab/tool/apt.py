# SPDX-License-Identifier: Apache-2.0
"""Debian packages of any suite, downloaded and unpacked, never installed.

Each suite has its own apt lists in the cache and an *empty* list of installed packages. So for a requested installation apt names
every package needed, down to the C library. The host's sources, lists and installed packages stay unchanged (with sid among the
sources, the next installation would upgrade half the system).
"""

import hashlib
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

from . import cache
from .cache import LabError, say

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Suite:
    """One suite of Debian, or several that are complete only together (backports and its release)."""

    def __init__(self, name, *below):
        self.name = name
        self._names = [name, *below]
        self._home = cache.ROOT / "apt" / name
        self._fresh = False

    def closure(self, *packages):
        """These packages and all their dependencies."""
        lines = self._apt("apt-get", "install", "--print-uris", "-y", "--no-install-recommends", *packages)
        return self._plan(lines, packages[0])

    def alone(self, *packages):
        """These packages only."""
        return self._plan(self._apt("apt-get", "download", "--print-uris", *packages), packages[0])

    def depends(self, package):
        """The dependencies of the newest version of a package. A metapackage names the real package this way."""
        text = self._apt("apt-cache", "show", "--no-all-versions", package)
        line = re.search(r"^Depends: (.*)$", text, re.M)
        return re.findall(r"(?:^|, )([a-z0-9.+-]+)", line[1]) if line else []

    def has(self, package):
        return bool(re.search(r"^Package: ", self._apt("apt-cache", "search", "--full", "--names-only", f"^{re.escape(package)}$"), re.M))

    def _plan(self, lines, main):
        files = re.findall(r"^'[^']*' (\S+_\S+\.deb) ", lines, re.M)
        return Packages(self, sorted(files), main)

    def _apt(self, *words, cwd=None):
        if not self._fresh:
            self._update()
        return self._call(*words, cwd=cwd, **{"APT::Default-Release": self.name})

    def _update(self):
        if not KEYRING.exists():
            raise LabError(f"no {KEYRING}", "apt-get install debian-archive-keyring")
        for name in ("etc", "state/lists/partial", "cache/archives/partial"):
            (self._home / name).mkdir(parents=True, exist_ok=True)
        (self._home / "state/status").touch()
        (self._home / "etc/lab.sources").write_text(
            f"Types: deb\nURIs: {mirror()}\nSuites: {' '.join(self._names)}\nComponents: main\nSigned-By: {KEYRING}\n")
        say(f"reading the package lists of {self.name}")
        self._call("apt-get", "-q", "--error-on=any", "update")
        self._fresh = True

    def _call(self, *words, cwd=None, **more):
        home = self._home
        options = {
            "Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": home / "etc", "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State": home / "state", "Dir::State::status": home / "state/status", "Dir::Cache": home / "cache",
            "APT::Sandbox::User": "root", "Acquire::Languages": "none", "Acquire::Retries": "2", "Acquire::http::Timeout": "30",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false", **more,
        }
        command = [words[0], *(f"-o{key}={value}" for key, value in options.items()), *words[1:]]
        done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        if done.returncode:
            lines = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith("E: ")]
            raise LabError(f"{words[0]} {words[1]}: {(lines or ['exit status %d' % done.returncode])[0]}")
        return done.stdout


class Packages:
    """A list of .deb files of one suite, and the key under which the result is cached."""

    def __init__(self, suite, files, main):
        if not files:
            raise LabError(f"nothing to download for {main}")
        self.suite, self.files = suite, files
        self.version = next(unquote(file.split("_")[1]) for file in files if file.split("_")[0] == main)
        self.key = hashlib.sha256("\n".join(files).encode()).hexdigest()[:12]

    def download(self, folder):
        """Downloads every file; apt verifies each against the signed lists."""
        folder.mkdir(parents=True)
        names = [file.split("_") for file in self.files]
        self.suite._apt("apt-get", "-q", "download", *(f"{name}={unquote(version)}" for name, version, *_ in names), cwd=folder)

    def unpack(self, debs, root, only=None):
        """Unpacks the files into one tree without running maintainer scripts; `only` selects packages."""
        root.mkdir(parents=True, exist_ok=True)
        for deb in sorted(debs.glob("*.deb"), key=lambda deb: (not deb.name.startswith("base-files_"), deb.name)):
            if only and deb.name.split("_")[0] not in only:
                continue
            done = subprocess.run(["dpkg-deb", "-x", deb, root], capture_output=True, text=True)
            if done.returncode:
                raise LabError(f"cannot unpack {deb.name}: {done.stderr.strip()}")

    @staticmethod
    def sums(debs):
        return {deb.name: hashlib.sha256(deb.read_bytes()).hexdigest() for deb in sorted(debs.glob("*.deb"))}


def mirror():
    """The Debian mirror configured on this machine."""
    etc = Path("/etc/apt")
    for file in sorted([*etc.glob("sources.list.d/*.sources"), etc / "sources.list", *etc.glob("sources.list.d/*.list")]):
        found = file.exists() and re.search(r"^(?:URIs:|deb\s.*?)\s*(\w+://\S+/debian/?)(?=\s|$)", file.read_text(), re.M)
        if found:
            return found[1]
    raise LabError("no Debian mirror in /etc/apt", "the lab needs a Debian machine (or Ubuntu with a Debian source)")


SID = Suite("sid")
FORKY = Suite("forky")
TRIXIE = Suite("trixie")
BOOKWORM = Suite("bookworm-backports", "bookworm")
