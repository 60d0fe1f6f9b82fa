# SPDX-License-Identifier: Apache-2.0
"""One folder holds everything the lab fetched; `manifest.json` in it says what, from where, with which checksums.

A thing (a kernel, a QEMU, an image) is built in a folder of its own and enters the manifest when it is whole. So an
interrupted or failed fetch leaves the last good one in place, and a guest that is running keeps its files: the one before
is only removed when a third arrives.
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
    """Something that keeps the lab from working: what was found, and one next step."""

    def __init__(self, what, hint=None):
        super().__init__(what)
        self.hint = hint


def say(line):
    """Progress goes to stderr; stdout belongs to the guest."""
    print(f"lab: {line}", file=sys.stderr, flush=True)


def manifest():
    """Everything cached: {"kernel": {"7.2": entry}, "qemu": …, "image": …}."""
    try:
        return json.loads((ROOT / "manifest.json").read_text())
    except FileNotFoundError:
        return {}


def find(kind, name):
    """The entry of a cached thing, or None; an entry whose folder is gone does not count."""
    entry = manifest().get(kind, {}).get(name)
    return entry if entry and (ROOT / entry["folder"]).is_dir() else None


def folder(entry):
    return ROOT / entry["folder"]


@contextlib.contextmanager
def locked():
    """One fetch at a time; others wait."""
    ROOT.mkdir(parents=True, exist_ok=True)
    with open(ROOT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def obtain(kind, name, suites, plan, build, refresh=False):
    """The cached thing, fetched first where it is missing or `refresh` asks for the newest.

    `plan(suite)` says which packages make it; `build(packages, folder)` fills the folder and returns what else the
    manifest should say. Suites are tried in order; where all fail, the last good one is used, and that is said.
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
    raise LabError(f"cannot fetch {kind} {name} ({'; '.join(failures)})", "is the package mirror reachable?")


def _publish(kind, name, suite, packages, build):
    """Builds into a fresh folder, renames it into place, then records it."""
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
