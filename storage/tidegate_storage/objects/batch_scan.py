"""A scan of record batches whose bytes arrive in pieces of any size.  Pure.

For tools that show an object's content.  The scan keeps only the header of the current batch, and
the one small record of a control batch, so a stretch may be of any length.  Damage does not end the
scan: a batch with a wrong CRC is reported and skipped.  If bytes cannot be the start of a batch,
all later bytes are skipped, too, since the start of the next batch is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from tidegate_protocol.batches import (
    CRC_START,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    read_header,
)
from tidegate_protocol.control_batches import CONTROL_BATCH_BYTES, commits

from ..stores.object_store import Buffer


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch.  position: the position of its first byte in the object.

    commits: whether a control batch commits its producer's transaction, or aborts it; None for all
      other batches.
    """

    position: int
    header: BatchHeader
    is_whole: bool
    commits: bool | None = None


@dataclass(frozen=True, slots=True)
class NoBatch:
    """No batch can be read from this byte of the object on."""

    position: int
    reason: str


class BatchScan:
    """A scan of one stretch of batches, [position, end_position) of an object.

    crc32c: the CRC of all bytes so far.  batches, records: counts of the whole batches and their
    records.
    """

    def __init__(self, position: int, end_position: int) -> None:
        self._end: Final = end_position
        self._at = position
        self._header = bytearray()
        self._batch: tuple[int, BatchHeader] | None = None
        self._marker = bytearray()
        self._left = 0
        self._crc = 0
        self._is_lost = False
        self._reason = ""
        self.crc32c = 0
        self.batches = 0
        self.records = 0

    def feed(self, data: Buffer) -> Iterator[SeenBatch | NoBatch]:
        """Take the next bytes; yield each batch, or unreadable place, that ends in them."""
        self.crc32c = crc32c(data, self.crc32c)
        view = memoryview(data)
        while len(view) and not self._is_lost:
            taken = self._body(view) if self._batch is not None else self._head(view)
            view = view[taken:]
            if self._batch is not None and not self._left:
                yield self._ended()
            elif self._is_lost:
                yield NoBatch(self._at, self._reason)

    def end(self) -> NoBatch | None:
        """Return NoBatch if the stretch ends within a batch, else None."""
        if self._is_lost or (self._batch is None and not self._header):
            return None
        return NoBatch(self._at, "a batch is cut short")

    def _head(self, view: memoryview) -> int:
        taken = min(HEADER_BYTES - len(self._header), len(view))
        self._header += view[:taken]
        if len(self._header) == HEADER_BYTES:
            header = read_header(self._header)
            self._reason = _why_not(header, self._end - self._at)
            if self._reason:
                self._is_lost = True
            else:
                self._batch = (self._at, header)
                self._left = header.size_bytes - HEADER_BYTES
                self._crc = crc32c(self._header[CRC_START:])
        return taken

    def _body(self, view: memoryview) -> int:
        taken = min(self._left, len(view))
        self._crc = crc32c(view[:taken], self._crc)
        if self._is_marker:
            self._marker += view[:taken]
        self._left -= taken
        return taken

    @property
    def _is_marker(self) -> bool:
        header = self._batch[1] if self._batch is not None else None
        is_small = header is not None and header.size_bytes == CONTROL_BATCH_BYTES
        return is_small and header is not None and header.is_control

    def _ended(self) -> SeenBatch:
        assert self._batch is not None
        position, header = self._batch
        is_whole = self._crc == header.crc
        if is_whole:
            self.batches += 1
            self.records += header.record_count
        self._at = position + header.size_bytes
        ending = commits(bytes(self._marker)) if self._is_marker else None
        self._batch = None
        self._header.clear()
        self._marker.clear()
        return SeenBatch(position, header, is_whole, ending)


def _why_not(header: BatchHeader, left_bytes: int) -> str:
    if header.magic != MAGIC:
        return f"no batch can lie here: its magic is {header.magic}"
    if not HEADER_BYTES <= header.size_bytes <= left_bytes:
        return f"no batch of {header.size_bytes} bytes can lie here, {left_bytes} are left"
    return ""
