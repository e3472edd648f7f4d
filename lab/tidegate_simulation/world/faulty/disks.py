"""The disk of a simulated machine: it outlives the gateway, and faults strike it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

from tidegate_storage.disk.cache_files import BLOCK_BYTES, FOLDER, TEMP_SUFFIX
from tidegate_storage.disk.memory_disk import MemoryDiskSteps
from tidegate_storage.stores.files.steps import DiskEntry, OpenFile
from tidegate_storage.stores.object_store import Buffer


class SimulatedDisk(MemoryDiskSteps):
    """See the module's head.

    trouble: "full", "broken" or "".  on_refusal: called with the trouble each time the disk
    refuses.  on_written: called when a file is renamed to its final name.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        on_refusal: Callable[[str], None],
        on_written: Callable[[], None],
    ) -> None:
        super().__init__(clock)
        self.trouble = ""
        self._on_written = on_written
        self._on_refusal = on_refusal

    def write(self, handle: int, body: Buffer) -> None:
        """See DiskSteps.  If there is no room, half of the file is written."""
        if self.trouble:
            super().write(handle, bytes(body[: len(body) // 2]))
        self._refuse("full", errno.ENOSPC)
        self._refuse("broken", errno.EIO)
        super().write(handle, body)

    def rename(self, source: str, target: str) -> None:
        """See DiskSteps."""
        super().rename(source, target)
        self._on_written()

    def open_file(self, path: str) -> OpenFile:
        """See DiskSteps."""
        self._refuse("broken", errno.EIO)
        return super().open_file(path)

    def _refuse(self, trouble: str, number: int) -> None:
        if self.trouble == trouble:
            self._on_refusal(trouble)
            raise OSError(number, os.strerror(number))

    @property
    def used_bytes(self) -> int:
        """Return the bytes that finished files take; a file in writing does not count yet."""
        return sum(
            -(-entry.size_bytes // BLOCK_BYTES) * BLOCK_BYTES
            for entry in self._entries()
            if not entry.name.endswith(TEMP_SUFFIX)
        )

    def tear(self, random: Random) -> int:
        """Lose the power; return the number of damaged files."""
        before = self._contents()
        for path in before:
            if random.random() < 0.5:  # the kernel had already written this file
                self._sync(path)
        self.power_cut(random)
        after = self._contents()
        return sum(after.get(path) != content for path, content in before.items())

    def flip(self, random: Random) -> int:
        """Flip a bit of every second file; return the number of flipped files."""
        contents = self._contents()
        chosen = [path for path in contents if contents[path] and random.random() < 0.5]
        for path in chosen:
            self.flip_bit(path, random.randrange(len(contents[path])))
        return len(chosen)

    def lose(self, random: Random) -> int:
        """Remove some files, or the folder with all of them; return the number."""
        paths = list(self._contents())
        if random.random() < 0.3:
            self._root.names.clear()
            return len(paths)
        chosen = [path for path in paths if random.random() < 0.5]
        for path in chosen:
            self.remove(path)
        return len(chosen)

    def _entries(self) -> list[DiskEntry]:
        try:
            return sorted(self.scan(FOLDER))
        except FileNotFoundError:
            return []

    def _contents(self) -> dict[str, bytes]:
        paths = [f"{FOLDER}/{entry.name}" for entry in self._entries()]
        return {path: self.read(path, 0, None) for path in paths}

    def _sync(self, path: str) -> None:
        file = self._file(path)
        file.synced_content = bytes(file.content)
        for folder in ("", FOLDER):
            self.sync_folder(folder)
