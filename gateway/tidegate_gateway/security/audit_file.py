"""The file of an audit log.  Blocks.

A second gateway that wrote to the file would break the chain for good, so a gateway locks the file.
The lock is on the file, not on its path: after a rename the next write creates and locks a new
file.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from .audit_chain import Chain, continued

_TAIL_BYTES: Final = 1 << 20
"""More than the longest line has: 200 texts of 500 characters, each escaped to six at most."""


class NotAudit(ValueError):
    """The file is not an audit log."""


class InUse(OSError):
    """Another gateway writes to the file."""


class AuditFile:
    """See the module's head.

    chain: continues after the last complete line.  After a crash a partial line may follow; the
    first write ends it with a line feed.

    Raises:
      InUse, NotAudit: see there.
      OSError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None
        try:
            tail = _tail(self._locked())
            self.chain = _last(tail)
        except BaseException:
            self.close()
            raise
        self._ends_cut_line = bool(tail) and not tail.endswith(b"\n")

    def write(self, data: bytes) -> None:
        """Append all bytes or none: after a partial write, a repeated write would break the chain.

        Raises:
          InUse: another gateway now has the file at this path.
          OSError: the file cannot be written.
        """
        held = self._held
        number = self._locked()
        before = os.fstat(number).st_size
        if self._ends_cut_line and number == held:
            data = b"\n" + data
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(number, left) :]
            os.fsync(number)
        except OSError:
            os.ftruncate(number, before)
            raise
        self._ends_cut_line = False

    def close(self) -> None:
        """Release the lock."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _locked(self) -> int:
        """Return a descriptor of the file that is now at the path; lock it where locks exist.

        Raises:
          InUse: another gateway has the lock.
        """
        if self._held is not None and self._is_there(self._held):
            return self._held
        number = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(number)
            raise InUse(error.errno, "another gateway writes to it") from None
        except OSError:
            pass  # a network file system without locks
        self.close()
        self._held = number
        return number

    def _is_there(self, number: int) -> bool:
        try:
            return os.path.samestat(os.fstat(number), self._path.stat())
        except FileNotFoundError:
            return False


def _tail(number: int) -> bytes:
    size = os.fstat(number).st_size
    return os.pread(number, _TAIL_BYTES, max(size - _TAIL_BYTES, 0))


def _last(tail: bytes) -> Chain:
    """Return the chain after the last complete line; a crash may have cut off a line's end.

    Raises:
      NotAudit: the file has lines, and none is a line of an audit log.
    """
    lines = tail.split(b"\n")[:-1]
    problem = ""
    for line in reversed(lines):
        try:
            return continued(line)
        except ValueError as error:
            problem = problem or str(error)
    if problem:
        raise NotAudit(problem)
    return Chain()
