"""The disk operations that the file store and the disk cache need.

The methods of DiskSteps are the calls of a kernel, none of which is durable by itself.  recipes.py
puts them in an order that survives a power cut.  A Disk runs a whole recipe: RealDisk in one
thread, MemoryDisk in place, so both take the same steps in the same order.

Paths are relative to the disk's root folder, with '/' between parts; '' is the root itself.
Steps raise OSError as the kernel would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from ..object_store import Buffer

T = TypeVar("T")


class DiskEntry(NamedTuple):
    """One name in a folder; for a folder, size and time (seconds since 1970) have no meaning."""

    name: str
    is_folder: bool
    size_bytes: int
    modified_at: float


class OpenFile(Protocol):
    """A file open for reading.

    Its content stays readable after its name is removed.  The file closes when its last holder
    drops the reference, so an eviction never closes a file that a connection is sending.
    """

    def stamp(self) -> tuple[int, int]:
        """Return the size in bytes, and a number that a write to the file changes."""
        ...

    def read_at(self, start: int, length: int) -> bytes:
        """Read up to length bytes; fewer at the end."""
        ...

    def is_in_memory(self, start: int, length: int) -> bool:
        """Guess, without waiting, whether the kernel must ask the disk for these bytes."""
        ...

    def send_to(self, socket: int, start: int, length: int) -> int:
        """Send up to length bytes to a socket's descriptor; return how many; 0 at the end.

        Raises BlockingIOError, and OSError for errors of the socket and of the file.
        """
        ...


class DiskSteps(Protocol):
    """Single steps; they may block.  Steps of several recipes run at the same time."""

    def make_folder(self, path: str) -> None:
        """Raises FileExistsError when the name is taken."""
        ...

    def open_new(self, path: str) -> int:
        """Open a new file for writing; raises FileExistsError."""
        ...

    def write(self, handle: int, body: Buffer) -> None:
        """Write all of body at the end."""
        ...

    def sync_file(self, handle: int) -> None:
        """Make the content survive a power cut; the file's name may still be lost."""
        ...

    def close(self, handle: int) -> None: ...

    def link_new(self, source: str, target: str) -> None:
        """Give a file a second name; raises FileExistsError if that name is taken."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing a file there; raises FileNotFoundError."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name; raises FileNotFoundError."""
        ...

    def sync_folder(self, path: str) -> None:
        """Make the folder's present names, and its removals, survive a power cut."""
        ...

    def read(self, path: str, start: int, length: int | None) -> bytes:
        """Read up to length bytes, or all; raises FileNotFoundError, IsADirectoryError."""
        ...

    def open_file(self, path: str) -> OpenFile:
        """Open a file for reading; raises FileNotFoundError, IsADirectoryError."""
        ...

    def scan(self, path: str) -> list[DiskEntry]:
        """Return a folder's names in no order; raises FileNotFoundError, NotADirectoryError."""
        ...


class Disk(Protocol):
    """Runs recipes."""

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        """Run a recipe to its end.  If the caller is cancelled, the recipe may still continue."""
        ...

    async def aclose(self) -> None: ...
