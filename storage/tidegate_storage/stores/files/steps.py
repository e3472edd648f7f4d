"""What file store and disk cache ask of a disk.

A DiskSteps is one step each: the calls a kernel offers, none of which is durable by itself.
disk_recipes.py puts them in an order that survives a power cut.  A Disk runs a recipe whole:
RealDisk in one thread, MemoryDisk in place, so that both take the same steps in the same order.

Paths are relative to the disk's root folder, with '/' between parts; '' is the root itself.
Steps raise OSError as the kernel would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from ..object_store import Buffer

T = TypeVar("T")


class DiskEntry(NamedTuple):
    """One name in a folder; size and time (seconds since 1970) say nothing for a folder."""

    name: str
    is_folder: bool
    size_bytes: int
    modified_at: float


class OpenFile(Protocol):
    """A file open for reading.

    It stays what it is, whatever becomes of its name, and is closed when the last who holds it lets
    go: so no eviction closes it under somebody who is sending it.
    """

    def stamp(self) -> tuple[int, int]:
        """Size in bytes, and a number that a write to the file changes."""
        ...

    def read_at(self, start: int, length: int) -> bytes:
        """Read up to length bytes; fewer at the end."""
        ...

    def is_in_memory(self, start: int, length: int) -> bool:
        """Guess, without waiting, whether the kernel must ask the disk for these bytes."""
        ...

    def send_to(self, socket: int, start: int, length: int) -> int:
        """Send up to length bytes to a socket's descriptor; return how many; 0 at the end.

        Raises BlockingIOError, and OSError for the socket's troubles and the file's.
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
        """On return the content will survive a power cut; its name may not."""
        ...

    def close(self, handle: int) -> None: ...

    def link_new(self, source: str, target: str) -> None:
        """Give a file a second name; raises FileExistsError when that is taken."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, which may be taken; raises FileNotFoundError."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name; raises FileNotFoundError."""
        ...

    def sync_folder(self, path: str) -> None:
        """On return the names in this folder, and the lack of others, will survive a power cut."""
        ...

    def read(self, path: str, start: int, length: int | None) -> bytes:
        """Read up to length bytes, or all; raises FileNotFoundError, IsADirectoryError."""
        ...

    def open_file(self, path: str) -> OpenFile:
        """Open a file for reading; raises FileNotFoundError, IsADirectoryError."""
        ...

    def scan(self, path: str) -> list[DiskEntry]:
        """The names in a folder, in no order; raises FileNotFoundError, NotADirectoryError."""
        ...


class Disk(Protocol):
    """Runs recipes."""

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        """Run a recipe to its end.  If this is cancelled, the recipe may still go on."""
        ...

    async def aclose(self) -> None: ...
