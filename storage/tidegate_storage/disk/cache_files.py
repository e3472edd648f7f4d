"""The files of the disk cache, and the steps to write, read and find them.

One file holds one part of one object, raw, so that it can be sent as it is:

    parts/<BLAKE2b-128 of the object's key>-<position>-<length>-<CRC-32C>

All in hex.  The name holds everything the cache must know of a file, so after a restart the
folder's listing is enough.  A file is written under a temporary name and renamed.  Nothing is
synced, because a cache may lose anything: length and CRC reveal a file that a power cut tore, when
it is first read.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from crc32c import crc32c

from ..stores.files.steps import DiskSteps, OpenFile
from ..stores.object_store import Buffer

T = TypeVar("T")

FOLDER = "parts"
TEMP_SUFFIX = ".tmp"
# File systems allocate space in blocks, which mostly have this size.
BLOCK_BYTES = 4096

_NAME = re.compile(r"([0-9a-f]{32})-([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]{8})")


class Place(NamedTuple):
    """Where bytes are from: an object, and the position of the first byte in it."""

    object_key: str
    position: int


class FileKey(NamedTuple):
    """A place as it is in a file's name; digest: BLAKE2b-128 of the object's key, in hex."""

    digest: str
    position: int


class FileName(NamedTuple):
    """The fields of a file's name; length: in bytes."""

    key: FileKey
    length: int
    crc32c: int

    @property
    def path(self) -> str:
        """Return the file's path below the disk's root."""
        digest, position = self.key
        return f"{FOLDER}/{digest}-{position:x}-{self.length:x}-{self.crc32c:08x}"

    @property
    def disk_bytes(self) -> int:
        """Return the bytes of disk space that the file takes."""
        return -(-self.length // BLOCK_BYTES) * BLOCK_BYTES


class NewFile(NamedTuple):
    """A file to be written.

    serial: differs for each write, because an abandoned write may still run.
    """

    name: FileName
    body: Buffer
    serial: int


class DamagedFile(Exception):
    """A file's content does not match its name.  Remove the file, and read the bytes from the
    store.
    """


class Verified(NamedTuple):
    """A file that holds what its name says.  stamp: the file's stamp when it was verified."""

    file: OpenFile
    stamp: tuple[int, int]


def file_key(place: Place) -> FileKey:
    """Return the fields with which the name of a part's file begins."""
    digest = blake2b(place.object_key.encode(), digest_size=16).hexdigest()
    return FileKey(digest, place.position)


def parse_name(name: str) -> FileName | None:
    """Parse a file's name; None if this cache did not write it."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    digest, position, length, crc = found.groups()
    return FileName(FileKey(digest, int(position, 16)), int(length, 16), int(crc, 16))


def parse_path(path: str) -> FileName | None:
    """Parse the name of a file at a path, finished or temporary."""
    return parse_name(_stem(path.rpartition("/")[2]))


def _stem(name: str) -> str:
    return name.partition(".")[0] if name.endswith(TEMP_SUFFIX) else name


def find_files(steps: DiskSteps) -> tuple[list[FileName], list[str]]:
    """Return the whole files, oldest first, and the paths of files that a crash left unfinished.

    Files with other names are not touched: an operator may have configured a shared folder.
    """
    _make_folders(steps)
    whole: list[tuple[float, FileName]] = []
    torn: list[str] = []
    for entry in steps.scan(FOLDER):
        name = parse_name(_stem(entry.name))
        if name is None or entry.is_folder:
            continue
        if entry.name.endswith(TEMP_SUFFIX) or entry.size_bytes != name.length:
            torn.append(f"{FOLDER}/{entry.name}")
        else:
            whole.append((entry.modified_at, name))
    return [name for _, name in sorted(whole)], torn


def write_files(
    steps: DiskSteps,
    files: Iterable[NewFile],
    doomed: Iterable[str] = (),
    is_given_up: Callable[[], bool] = lambda: False,
) -> tuple[list[Verified], list[str]]:
    """Remove the doomed files to make room, then write the new ones.

    is_given_up: called before a file gets its final name, because the cache does not count the
    files of a thread that it abandoned.

    Returns:
      The written files, and the paths of the doomed files that could not be removed.

    Raises:
      OSError: a file cannot be written; each other file, new or doomed, may exist or not.
    """
    stuck = remove_files(steps, doomed)
    return [_write_file(steps, file, is_given_up) for file in files], stuck


def _write_file(steps: DiskSteps, new: NewFile, is_given_up: Callable[[], bool]) -> Verified:
    name, body, serial = new
    temp_path = f"{name.path}.{serial:x}{TEMP_SUFFIX}"
    try:
        _write(steps, temp_path, body)
    except FileNotFoundError:  # an operator removed the folder, which is allowed
        _make_folders(steps)
        _write(steps, temp_path, body)
    try:
        if is_given_up():
            raise OSError(errno.ECANCELED, "the cache abandoned this write after its deadline")
        steps.rename(temp_path, name.path)
    except OSError:
        remove_files(steps, [temp_path])
        raise
    file = steps.open_file(name.path)
    stamp = file.stamp()
    if stamp[0] != name.length:
        raise OSError(errno.EIO, f"the file holds {stamp[0]} bytes of {name.length}")
    return Verified(file, stamp)


def read_file(
    steps: DiskSteps, name: FileName, check: Callable[[memoryview], T]
) -> tuple[Verified, T]:
    """Read a file, verify its size and CRC, and call check with its bytes.

    Raises:
      DamagedFile: size or CRC differ from the name's.
      OSError: the file is missing or cannot be read.
    """
    file = steps.open_file(name.path)
    stamp = file.stamp()
    body = file.read_at(0, name.length)
    if stamp[0] != name.length or len(body) != name.length:
        raise DamagedFile(f"{name.path} holds {stamp[0]} bytes")
    if crc32c(body) != name.crc32c:
        raise DamagedFile(f"{name.path} has the wrong CRC")
    return Verified(file, stamp), check(memoryview(body))


def remove_files(steps: DiskSteps, paths: Iterable[str]) -> list[str]:
    """Remove files; a missing file is no error.  Return the paths that cannot be removed."""
    stuck: list[str] = []
    for path in paths:
        try:
            steps.remove(path)
        except (FileNotFoundError, IsADirectoryError):
            pass
        except OSError:
            stuck.append(path)
    return stuck


def _make_folders(steps: DiskSteps) -> None:
    for folder in ("", FOLDER):
        with suppress(FileExistsError):
            steps.make_folder(folder)


def _write(steps: DiskSteps, path: str, body: Buffer) -> None:
    try:
        handle = steps.open_new(path)
    except FileExistsError:  # an earlier process left it, whose serials began at zero, too
        steps.remove(path)
        handle = steps.open_new(path)
    try:
        steps.write(handle, body)
    except BaseException:
        with suppress(OSError):
            steps.remove(path)
        raise
    finally:
        steps.close(handle)
