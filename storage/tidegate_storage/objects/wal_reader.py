"""Reading a whole WAL object back: for salvage, for tools, for tests.  Pure.

Fetches do not use this module: they read the ranges that the cluster state names.
"""

from __future__ import annotations

from dataclasses import dataclass

from crc32c import crc32c

from ..stores.object_store import Buffer
from .corrupt import CorruptObject
from .wal_format import Slice, Source, WalIdentity, read_frame


@dataclass(frozen=True, slots=True)
class WalContents:
    """A WAL object whose every byte was checked.

    sources: the inlined objects that held its batches before, for all bytes of the slices in order;
    empty for an object whose batches were not committed before.
    """

    identity: WalIdentity
    slices: list[Slice]
    body: memoryview
    sources: tuple[Source, ...] = ()

    def bytes_of(self, entry: Slice) -> memoryview:
        """Return the record batches of one slice, in the order they were appended."""
        return self.body[entry.start_byte : entry.start_byte + entry.size_bytes]


def read_wal(body: Buffer) -> WalContents:
    """Read a WAL object and verify all of it.

    Raises:
      CorruptObject: says what is wrong.
      UnknownVersion: a newer release wrote the object.
    """
    view = memoryview(body).toreadonly()
    identity, footer = read_frame(view)
    contents = WalContents(identity, footer.slices, view, footer.sources)
    for entry in contents.slices:
        if crc32c(contents.bytes_of(entry)) != entry.crc32c:
            raise CorruptObject(
                f"the CRC of topic {entry.topic_id.hex()} partition {entry.partition},"
                f" {entry.size_bytes} bytes from byte {entry.start_byte}, is wrong"
            )
    return contents
