# SPDX-License-Identifier: Apache-2.0
"""One folder with everything the lab downloaded. `manifest.json` in it lists contents, sources and checksums.

An item (a kernel, a QEMU, an image) is built in its own folder and entered into the manifest when it is complete. So an interrupted or
failed download leaves the previous item usable, and a running guest keeps its files: one previous item is kept, and removed
when it is two versions old.
"""

import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(os.environ.get("TIERLINE_LAB_CACHE") or Path.home() / ".cache/tierline-lab")


class LabError(Exception):
    """An error that stops the lab: what was found, and one next step."""

    def __init__(self, what, hint=None):
        super().__init__(what)
        self.hint = hint


def say(line):
    """Prints progress to stderr; stdout is the guest's."""
    print(f"lab: {line}", file=sys.stderr, flush=True)


def manifest():
    """All cached items: {"kernel": {"7.2": entry}, "qemu": …, "image": …}."""
    try:
        return json.loads((ROOT / "manifest.json").read_text())
    except FileNotFoundError:
        return {}


def find(kind, name):
    """The entry of a cached item, or None; also None if its folder is missing."""
    entry = manifest().get(kind, {}).get(name)
    return entry if entry and (ROOT / entry["folder"]).is_dir() else None


def folder(entry):
    return ROOT / entry["folder"]


@contextlib.contextmanager
def locked():
    """One download at a time; others wait."""
    ROOT.mkdir(parents=True, exist_ok=True)
    with open(ROOT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def obtain(kind, name, suites, plan, build, refresh=False):
    """The cached item. Downloads it if it is missing, or if `refresh` requests the newest.

    `plan(suite)` returns the packages of the item; `build(packages, folder)` fills the folder and returns further fields for the
    manifest. Suites are tried in order. If all fail, the previous item is used, with a message.
    """
    kept = find(kind, name)
    if kept and not refresh:
        return kept
    with locked():
        kept = find(kind, name)  # another process may have fetched it meanwhile
        if kept and not refresh:
            return kept
        failures = []
        for suite in suites:
            try:
                packages = plan(suite)
                if kept and kept["key"] == packages.key:
                    say(f"{kind} {name}: {kept['version']} is the newest")
                    return kept
                say(f"{kind} {name}: fetching {packages.version} from {suite.name} ({len(packages.files)} packages)")
                return _publish(kind, name, suite, packages, build)
            except LabError as error:
                failures.append(f"{suite.name}: {error}")
                say(f"{kind} {name}: not from {failures[-1]}")
    if kept:
        say(f"{kind} {name}: keeping {kept['version']} of {kept['fetched']}")
        return kept
    raise LabError(f"cannot fetch {kind} {name} ({'; '.join(failures)})", "check that the package mirror is reachable")


def _publish(kind, name, suite, packages, build):
    """Builds in a temporary folder, renames it into place, then updates the manifest."""
    final = ROOT / kind / f"{name}-{packages.key}"
    part = final.with_suffix(f".part{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        packages.download(part / "debs")
        extra = build(packages, part)
        sums = packages.sums(part / "debs")
        shutil.rmtree(part / "debs")
        shutil.rmtree(final, ignore_errors=True)
        part.rename(final)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    entry = {"version": packages.version, "suite": suite.name, "fetched": time.strftime("%Y-%m-%d"), "key": packages.key,
             "folder": str(final.relative_to(ROOT)), **extra, "sha256": sums}
    everything = manifest()
    before = everything.setdefault(kind, {}).get(name, {}).get("folder")
    everything[kind][name] = entry
    new = ROOT / "manifest.json.new"
    new.write_text(json.dumps(everything, indent=1) + "\n")
    new.rename(ROOT / "manifest.json")
    for old in (ROOT / kind).glob(f"{name}-*"):
        if str(old.relative_to(ROOT)) not in (before, entry["folder"]):
            shutil.rmtree(old, ignore_errors=True)
    return entry
