# SPDX-License-Identifier: Apache-2.0
"""Archives in the newc format, which the kernel unpacks as its first file system; several may be concatenated.

Written here, not by the cpio program, to be reproducible: the same files give the same bytes (sorted, owned by root, without times),
and so the same guest in every run.
"""

import os
import stat
from pathlib import Path


class Archive:
    def __init__(self):
        self._entries = {}

    def folder(self, path, mode=0o755):
        self._add(path, stat.S_IFDIR | mode, b"")

    def file(self, path, data, mode=0o644):
        self._add(path, stat.S_IFREG | mode, data.encode() if isinstance(data, str) else data)

    def link(self, path, target):
        self._add(path, stat.S_IFLNK | 0o777, str(target).encode())

    def tree(self, source, path):
        """A file, or a folder with its contents. Executable bits and links inside are kept."""
        source = Path(source)
        if source.is_dir():
            self.folder(path)
            for entry in sorted(source.iterdir()):
                below = f"{path}/{entry.name}"
                if entry.is_symlink():
                    self.link(below, os.readlink(entry))
                elif entry.is_dir() or entry.is_file():
                    self.tree(entry, below)
        else:
            self.file(path, source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def _add(self, path, mode, data):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self._entries:
            self.folder(parent)
        self._entries[path] = (mode, data)

    def bytes(self):
        out = bytearray()
        entries = [*self._entries.items(), ("TRAILER!!!", (0, b""))]
        for number, (path, (mode, data)) in enumerate(entries, start=1):
            name = path.encode() + b"\0"
            fields = (number, mode, 0, 0, 2 if stat.S_ISDIR(mode) else 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
            out += b"070701" + b"".join(b"%08X" % field for field in fields) + name
            out += b"\0" * (-len(out) % 4) + data
            out += b"\0" * (-len(out) % 4)
        return bytes(out)
