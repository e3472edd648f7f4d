"""Bytes of a file as a part of a reply: the kernel sends them, Python never sees them.

This process verified the file's content once.  Before each use it compares the file's present stamp
with the stamp at that verification, so a file that another program has cut or written to since is
not served.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from .steps import OpenFile

_READ_BYTES = 128 << 10
# Errors of sendfile that concern the file; all others concern the socket.
_OF_FILES = (errno.EIO, errno.EINVAL, errno.EOVERFLOW, errno.ESTALE, errno.ESPIPE)


class FileChanged(Exception):
    """A file changed, or cannot be read, since it was verified.

    If the client may have got a part of it, close the connection; else read the bytes elsewhere.
    """


class FileUse(Protocol):
    """Callbacks to the cache that lends the file."""

    def used(self) -> None:
        """Count a use of the file."""
        ...

    def sent(self, size_bytes: int) -> None:
        """Count bytes that were sent."""
        ...

    def changed(self, reason: str) -> None:
        """Drop the file from the cache."""
        ...

    async def in_thread(self, step: Callable[[], None]) -> None:
        """Run a step that may wait for the disk, in a thread and with a deadline.

        Raises:
          FileChanged: the disk failed, or did not answer before the deadline.
        """
        ...


class FilePart:
    """A verified file or a slice of it; len() and slices work as for bytes.

    The file stays open as long as any part of it exists.
    """

    __slots__ = ("_file", "_length", "_stamp", "_start", "_use")

    def __init__(
        self, file: OpenFile, stamp: tuple[int, int], use: FileUse, start: int, length: int
    ) -> None:
        self._file = file
        self._stamp = stamp
        self._use = use
        self._start = start
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, where: slice) -> FilePart:
        start, stop, _ = where.indices(self._length)
        return FilePart(
            self._file, self._stamp, self._use, self._start + start, max(stop - start, 0)
        )

    def is_ready(self) -> bool:
        """Return whether the file is unchanged and in memory, so that sending waits for no disk.

        Counts as a use.
        """
        self._use.used()
        try:
            is_same = self._file.stamp() == self._stamp
            return is_same and self._file.is_in_memory(self._start, self._length)
        except OSError:
            return False

    def is_in_memory(self) -> bool:
        """Guess, without blocking, whether sending it would wait for the disk."""
        try:
            return self._file.is_in_memory(self._start, self._length)
        except OSError:
            return False

    async def bring(self) -> None:
        """Have the kernel read the part into memory, so that sending does not wait for the disk.

        Raises:
          FileChanged: the disk failed, or did not answer before the deadline.
        """
        await self._use.in_thread(self._read_through)

    def _read_through(self) -> None:
        """Read all bytes, which fills the kernel's page cache, and drop them."""
        end = self._start + self._length
        for at in range(self._start, end, _READ_BYTES):
            self._file.read_at(at, min(_READ_BYTES, end - at))

    def read(self) -> bytes:
        """Return all bytes.

        Raises:
          FileChanged: the file changed, or cannot be read.
        """
        try:
            self._check()
            body = self._file.read_at(self._start, self._length)
        except OSError as error:
            raise self._given_up(str(error)) from error
        if len(body) != self._length:
            raise self._given_up("it ends too early")
        return body

    def take(self, max_bytes: int) -> bytes:
        """Return the first bytes for a transport that is no socket; the bytes count as sent.

        Raises:
          FileChanged: the file changed, or cannot be read.
        """
        body = self[:max_bytes].read()
        self._use.sent(len(body))
        return body

    def send_to(self, socket: int) -> int:
        """Have the kernel send as much as it can without blocking; return the number of bytes.

        Raises:
          OSError: the socket failed.
          FileChanged: the file changed, or cannot be read.
        """
        try:
            self._check()
            size = self._file.send_to(socket, self._start, self._length)
        except OSError as error:
            if error.errno not in _OF_FILES:
                raise
            raise self._given_up(str(error)) from error
        if not size:
            raise self._given_up("it ends too early")
        self._use.sent(size)
        return size

    def _check(self) -> None:
        if self._file.stamp() != self._stamp:
            raise self._given_up("another program wrote to it")

    def _given_up(self, reason: str) -> FileChanged:
        self._use.changed(reason)
        return FileChanged(reason)
