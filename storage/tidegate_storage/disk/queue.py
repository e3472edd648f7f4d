"""Parts that are to be written to disk, bounded in bytes; nobody waits for room here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from ..stores.files.file_part import FilePart
from ..stores.object_store import Buffer
from .cache_files import FileKey, Place

MAX_QUEUED_BYTES: Final = 32 << 20
# In one go of a thread, about: to hand over to one and back can take longer than to write a part.
BATCH_BYTES: Final = 8 << 20
# All of a batch are open at once.
BATCH_PARTS: Final = 64


class Offer(NamedTuple):
    """A part to be kept.

    on_stored: called with the part in its file, once it is there.  on_drop: called when the file
    is given up; whoever keeps it open then takes room that the cache gives to others.
    """

    place: Place
    body: Buffer
    crc32c: int
    on_stored: Callable[[FilePart], None] = lambda part: None
    on_drop: Callable[[], None] = lambda: None


Batch: TypeAlias = list[tuple[FileKey, Offer]]


class WriteQueue:
    """See the module's head; what is being written counts until it is done."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[FileKey, Offer]] = deque()
        self._keys: set[FileKey] = set()
        self._bytes = 0

    def __contains__(self, key: FileKey) -> bool:
        """Tell whether a part waits or is being written."""
        return key in self._keys

    def add(self, key: FileKey, offer: Offer) -> bool:
        """Take a part that is not here; False if there is no room."""
        if self._bytes + len(offer.body) > MAX_QUEUED_BYTES:
            return False
        self._waiting.append((key, offer))
        self._keys.add(key)
        self._bytes += len(offer.body)
        return True

    def take(self) -> Batch:
        """Return the parts to be written next, in one go; none if nothing waits."""
        batch: Batch = []
        size_bytes = 0
        while self._waiting and size_bytes < BATCH_BYTES and len(batch) < BATCH_PARTS:
            batch.append(self._waiting.popleft())
            size_bytes += len(batch[-1][1].body)
        return batch

    def done(self, batch: Batch) -> None:
        """Forget parts that are written, or will not be."""
        self._keys.difference_update(key for key, _ in batch)
        self._bytes -= sum(len(offer.body) for _, offer in batch)
