"""The headers of the batches in stored bytes, read without the gateway's parser."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

_HEADER: Final = Struct(">qiibIhiqqqhii")
_LENGTH_OVERHEAD: Final = 12
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
# In the record of a control batch: length, attributes, two deltas, length of the key, version.
_TYPE_AT: Final = _HEADER.size + 8


class StoredBatch(NamedTuple):
    """The fields that transactions need.  offset: as stored.  offsets: how many it takes.

    kind: of a control record: 0 to abort, 1 to commit; -1 for a batch of data.
    """

    offset: int
    offsets: int
    records: int
    producer_id: int
    epoch: int
    is_transactional: bool
    kind: int

    @property
    def is_control(self) -> bool:
        """Return whether it is the marker of a transaction."""
        return self.kind >= 0


def walk(data: bytes, start: int, end: int) -> Iterator[StoredBatch]:
    """Yield the batches in data[start:end]."""
    at = start
    while at < end:
        fields = _HEADER.unpack_from(data, at)
        attributes = fields[5]
        yield StoredBatch(
            fields[0],
            fields[6] + 1,
            fields[12],
            fields[9],
            fields[10],
            bool(attributes & _TRANSACTIONAL),
            data[at + _TYPE_AT] if attributes & _CONTROL else -1,
        )
        at += _LENGTH_OVERHEAD + fields[1]
