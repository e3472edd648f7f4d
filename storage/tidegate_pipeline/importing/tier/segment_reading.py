"""Finds the batch with an offset in a segment of tiered storage, and reads from there on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from struct import Struct
from typing import Final

from tidegate_protocol.batches import HEADER_BYTES, read_header
from tidegate_storage.stores.object_store import ObjectStore

from .chunks import Secret, chunk_of, decrypted
from .manifests import INDEXES, LOG, BadTier, Manifest

PORTION_BYTES: Final = 8 << 20
_ENTRY: Final = Struct(">ii")


class SegmentReading:
    """A segment that is open for reading; key: of its objects, without ending."""

    def __init__(
        self, store: ObjectStore, key: str, manifest: Manifest, secret: Secret | None
    ) -> None:
        self.manifest = manifest
        self._store = store
        self._key = key
        self._secret = secret
        self._starts = [0, *accumulate(manifest.sizes)]
        self._index: bytes | None = None

    async def portion(self, offset: int) -> memoryview:
        """Return about PORTION_BYTES, starting with the batch that holds an offset or the next one.

        The last batch may be cut short.  Empty if the segment has no such batch.

        Raises:
          BadTier, StoreUnavailable, NoSuchObject: it cannot be read.
        """
        at = await self._hint(offset)
        while at < self.manifest.file_bytes:
            data = memoryview(await self._bytes(at, PORTION_BYTES))
            begin, is_found = first_from(data, offset)
            if is_found and not _is_cut(data, begin):
                return data[begin:]
            if is_found:  # the batch is larger than a portion
                return memoryview(await self._bytes(at + begin, _size_at(data, begin)))
            if begin == 0:
                raise BadTier(f"{self._key}{LOG} ends within a batch")
            at += begin
        return memoryview(b"")

    async def _hint(self, offset: int) -> int:
        """Return a byte of the broker's file at or before the batch with an offset."""
        if self._index is None:
            self._index = await self._read_index()
        return indexed(self._index, offset - self.manifest.start)

    async def _read_index(self) -> bytes:
        extent = self.manifest.index
        if not extent.size:
            return b""
        key = self._key + INDEXES
        data = await self._store.get_range(key, extent.position, extent.size)
        return self._said(key, lambda: decrypted(bytes(data), self._secret))

    async def _bytes(self, start: int, size: int) -> bytes:
        """Return the broker's bytes from `start` on: at least `size`, or all that are left."""
        chunk_bytes = self.manifest.chunk_bytes
        first = start // chunk_bytes
        stop = min(-(-(start + size) // chunk_bytes), len(self.manifest.sizes))
        begin = self._starts[first]
        key = self._key + LOG
        data = await self._store.get_range(key, begin, self._starts[stop] - begin)
        chunks = [
            self._chunk(n, bytes(data[self._starts[n] - begin : self._starts[n + 1] - begin]))
            for n in range(first, stop)
        ]
        return b"".join(chunks)[start - first * chunk_bytes :]

    def _chunk(self, number: int, data: bytes) -> bytes:
        manifest = self.manifest
        left = manifest.file_bytes - number * manifest.chunk_bytes
        size = min(manifest.chunk_bytes, left)
        return self._said(
            f"{self._key}{LOG}, chunk {number}",
            lambda: chunk_of(data, self._secret, size, is_compressed=manifest.is_compressed),
        )

    def _said(self, what: str, call: Callable[[], bytes]) -> bytes:
        try:
            return call()
        except BadTier as error:
            raise BadTier(f"{what}: {error}") from None


def indexed(index: bytes, relative: int) -> int:
    """Return the byte of the last entry at or below a relative offset; 0 if there is none."""
    low, high, found = 0, len(index) // _ENTRY.size, 0
    while low < high:
        middle = (low + high) // 2
        entry, at = _ENTRY.unpack_from(index, middle * _ENTRY.size)
        if entry > relative or (not at and middle):  # zeros may follow the entries
            high = middle
        else:
            low, found = middle + 1, at
    return found


def first_from(data: memoryview, offset: int) -> tuple[int, bool]:
    """Return where the first batch that ends at or after an offset begins, and True.

    If there is none, return where the first cut-off batch begins, or the data's end, and False.
    """
    at = 0
    while len(data) - at >= HEADER_BYTES:
        header = read_header(data, at)
        if header.size_bytes < HEADER_BYTES or header.last_offset >= offset:
            return at, True  # the task says what is damaged
        if at + header.size_bytes > len(data):
            break
        at += header.size_bytes
    return at, False


def _is_cut(data: memoryview, at: int) -> bool:
    return at + _size_at(data, at) > len(data)


def _size_at(data: memoryview, at: int) -> int:
    return read_header(data, at).size_bytes
