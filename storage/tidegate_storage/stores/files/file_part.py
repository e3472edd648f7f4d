"""Bytes of a file, as a part of a reply: the kernel sends them, Python never sees them.

What a file holds was verified once, in this process.  Before each use its stamp is compared with
the one of that moment, so a file that somebody cut or wrote to since is not served.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from .steps import OpenFile

_READ_BYTES = 128 << 10
# What sending says of the file; all else is the socket's.
_OF_FILES = (errno.EIO, errno.EINVAL, errno.EOVERFLOW, errno.ESTALE, errno.ESPIPE)


class FileChanged(Exception):
    """A file is not what it was when it was verified.

    If a part of it may be out already, close the connection; else read the bytes elsewhere.
    """


class FileUse(Protocol):
    """Who lends the file hears what becomes of it."""

    def used(self) -> None:
        """Take note that it is wanted."""
        ...

    def sent(self, size_bytes: int) -> None:
        """Take note that bytes went out."""
        ...

    def changed(self, reason: str) -> None:
        """Give the file up."""
        ...

    async def in_thread(self, step: Callable[[], None]) -> None:
        """Do a step that may wait for the disk, with a deadline.

        Raises:
          FileChanged: the disk failed, or does not answer.
        """
        ...


class FilePart:
    """Whole or a slice of a file that was verified; len() and slices work as those of bytes.

    Whoever holds a part keeps the file open.
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
        """Tell whether it can be sent as it is, without waiting for the disk; counts as a use."""
        self._use.used()
        try:
            is_same = self._file.stamp() == self._stamp
            return is_same and self._file.is_in_memory(self._start, self._length)
        except OSError:
            return False

    def is_in_memory(self) -> bool:
        """Guess, without waiting, whether it can be sent without waiting for the disk."""
        try:
            return self._file.is_in_memory(self._start, self._length)
        except OSError:
            return False

    async def bring(self) -> None:
        """Have the kernel read it from the disk, so that sending it waits for nothing.

        Raises:
          FileChanged: see there.
        """
        await self._use.in_thread(self._read_through)

    def _read_through(self) -> None:
        """Read it and keep nothing."""
        end = self._start + self._length
        for at in range(self._start, end, _READ_BYTES):
            self._file.read_at(at, min(_READ_BYTES, end - at))

    def read(self) -> bytes:
        """Return all of it.

        Raises:
          FileChanged: see there.
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
        """Return the first bytes for a transport that is no socket; they count as sent.

        Raises:
          FileChanged: see there.
        """
        body = self[:max_bytes].read()
        self._use.sent(len(body))
        return body

    def send_to(self, socket: int) -> int:
        """Let the kernel send what it can without waiting; return how many bytes that was.

        Raises:
          OSError: what a socket raises.
          FileChanged: see there.
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
            raise self._given_up("somebody wrote to it")

    def _given_up(self, reason: str) -> FileChanged:
        self._use.changed(reason)
        return FileChanged(reason)
