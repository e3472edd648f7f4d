"""Steps in the order that makes an object whole, single and durable.

To create: write a temporary file, sync it, link it to its name (which fails if the name is taken,
so two creators have one winner), sync the folder, remove the temporary name.  A name therefore
never holds half an object, and a create that returned survives a power cut.

A folder's own name must be durable too.  A process that finds a folder of another process cannot
know whether that process has synced it, so the first use of each folder in each process syncs all
folders above it.  For the same reason a taken name is reported only after its folder was synced:
the caller may count an equal object there as its own success.

If a folder cannot be synced, the kernel may drop the unwritten changes, and report success for the
next sync.  So after one such failure the store refuses all writes: see
DurableFolders.refuse_if_failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from ..object_store import Buffer, ObjectInfo
from .steps import DiskEntry, DiskSteps

TEMP_FOLDER = ".tidegate-tmp"


class DurableFolders:
    """The folders whose names this process has synced; shared by the threads of one store."""

    def __init__(self) -> None:
        self._durable: set[str] = {""}
        self._sync_failed = False

    def refuse_if_failed(self) -> None:
        """Raises OSError if a folder could not be synced in this process's life."""
        if self._sync_failed:
            raise OSError("an earlier sync of a folder failed; check the disk, then restart")

    def sync(self, steps: DiskSteps, folder: str) -> None:
        try:
            steps.sync_folder(folder)
        except OSError:
            self._sync_failed = True
            raise

    def make(self, steps: DiskSteps, folder: str) -> None:
        """Make a folder and those above it, durably; existing ones are fine."""
        if folder in self._durable:
            return
        parent = _parent(folder)
        self.make(steps, parent)
        with suppress(FileExistsError):
            steps.make_folder(folder)
        self.sync(steps, parent)
        self._durable.add(folder)


class TempNames:
    """Names for temporary files; a name that another process left is skipped."""

    def __init__(self) -> None:
        self._numbers = count()

    def open(self, steps: DiskSteps) -> tuple[str, int]:
        """Open a new temporary file; return its path and handle."""
        for number in self._numbers:
            path = f"{TEMP_FOLDER}/{number:x}"
            with suppress(FileExistsError):
                return path, steps.open_new(path)
        raise AssertionError("count() has no end")


def create(
    steps: DiskSteps, folders: DurableFolders, temp_names: TempNames, path: str, body: Buffer
) -> None:
    """Create a file with this content, whole and durable; raises FileExistsError."""
    folders.refuse_if_failed()
    folder = _parent(path)
    folders.make(steps, TEMP_FOLDER)
    folders.make(steps, folder)
    temp_path, handle = temp_names.open(steps)
    try:
        _write_durably(steps, handle, body)
        _link_durably(steps, folders, temp_path, path)
    finally:
        with suppress(FileNotFoundError):  # another process may have removed the file
            steps.remove(temp_path)


def remove(steps: DiskSteps, folders: DurableFolders, paths: list[str]) -> None:
    """Remove files, durably; missing ones are fine."""
    folders.refuse_if_failed()
    changed: set[str] = set()
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            steps.remove(path)
            changed.add(_parent(path))
    for folder in sorted(changed):
        folders.sync(steps, folder)


def sweep_temporary(steps: DiskSteps, modified_before: float) -> None:
    """Remove temporary files that a power cut left.

    Younger files stay, since another process may be writing them.
    """
    with suppress(FileNotFoundError):
        for entry in steps.scan(TEMP_FOLDER):
            if entry.modified_at < modified_before:
                with suppress(FileNotFoundError):
                    steps.remove(f"{TEMP_FOLDER}/{entry.name}")


def walk(steps: DiskSteps, folder: str, start_after: str) -> Iterator[ObjectInfo]:
    """Yield the files below folder ('' or 'a/') after a key, in key order."""
    for key, entry in _sorted_entries(steps, folder):
        if not entry.is_folder:
            if key > start_after:
                yield ObjectInfo(key, entry.size_bytes, entry.modified_at)
        elif key > start_after or start_after.startswith(key):
            yield from walk(steps, key, start_after)


def _write_durably(steps: DiskSteps, handle: int, body: Buffer) -> None:
    try:
        steps.write(handle, body)
        steps.sync_file(handle)
    finally:
        steps.close(handle)


def _link_durably(steps: DiskSteps, folders: DurableFolders, temp_path: str, path: str) -> None:
    try:
        steps.link_new(temp_path, path)
    finally:
        folders.sync(steps, _parent(path))


def _sorted_entries(steps: DiskSteps, folder: str) -> list[tuple[str, DiskEntry]]:
    """Sort a folder as its name with '/', so that the walk yields keys in key order."""
    try:
        entries = steps.scan(folder.removesuffix("/"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(
        (folder + entry.name + "/" * entry.is_folder, entry)
        for entry in entries
        if folder or entry.name != TEMP_FOLDER
    )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
