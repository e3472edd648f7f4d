"""A queue of parts to write to disk, bounded in bytes; a full queue refuses at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from ..stores.files.file_part import FilePart
from ..stores.object_store import Buffer
from .cache_files import FileKey, Place

MAX_QUEUED_BYTES: Final = 32 << 20
# About how many bytes a batch has: the hand-over to a thread and back can take longer than a write.
BATCH_BYTES: Final = 8 << 20
# The parts of one batch: all their files are open at once.
BATCH_PARTS: Final = 64


class Offer(NamedTuple):
    """A part to write.

    on_stored: called with the part in its file, once that is written.  on_drop: called when the
    cache drops the file; a holder that then keeps it open uses disk space that the cache no longer
    counts.
    """

    place: Place
    body: Buffer
    crc32c: int
    on_stored: Callable[[FilePart], None] = lambda part: None
    on_drop: Callable[[], None] = lambda: None


Batch: TypeAlias = list[tuple[FileKey, Offer]]


class WriteQueue:
    """See the module's head; a part counts until its write is done."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[FileKey, Offer]] = deque()
        self._keys: set[FileKey] = set()
        self._bytes = 0

    def __contains__(self, key: FileKey) -> bool:
        """Return whether a part is queued or being written."""
        return key in self._keys

    def add(self, key: FileKey, offer: Offer) -> bool:
        """Queue a part that is not queued yet; return False if there is no room."""
        if self._bytes + len(offer.body) > MAX_QUEUED_BYTES:
            return False
        self._waiting.append((key, offer))
        self._keys.add(key)
        self._bytes += len(offer.body)
        return True

    def take(self) -> Batch:
        """Return the parts of the next batch; empty if none is queued."""
        batch: Batch = []
        size_bytes = 0
        while self._waiting and size_bytes < BATCH_BYTES and len(batch) < BATCH_PARTS:
            batch.append(self._waiting.popleft())
            size_bytes += len(batch[-1][1].body)
        return batch

    def done(self, batch: Batch) -> None:
        """Remove the parts of a batch that was written or abandoned."""
        self._keys.difference_update(key for key, _ in batch)
        self._bytes -= sum(len(offer.body) for _, offer in batch)
