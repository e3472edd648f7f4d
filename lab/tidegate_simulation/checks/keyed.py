"""Records of a compacted topic: they have keys, and some are tombstones.

The value alone decides whether a record is a tombstone (history.py), so that the checker can decide
it, too.  A header carries a tombstone's value.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate_protocol.records import Record

VALUE_HEADER: Final = "value"


class Keyed(NamedTuple):
    """The rules for a partition's records.  The record key of a value is its remainder by `keys`.
    A value that `tombstones` divides is a tombstone; 0 for no tombstones.
    """

    keys: int
    tombstones: int

    def is_tombstone(self, value: int) -> bool:
        """Return whether the record of a value is a tombstone."""
        return self.tombstones > 0 and value % self.tombstones == 0

    def record(self, place: int, timestamp: int, value: int) -> Record:
        """Return the record of a value."""
        text = str(value).encode()
        is_tombstone = self.is_tombstone(value)
        return Record(
            place,
            timestamp,
            str(value % self.keys).encode(),
            None if is_tombstone else text,
            [(VALUE_HEADER, text)] if is_tombstone else (),
        )


def value_in(record: Record) -> int:
    """Return the value of a record."""
    if record.value is not None:
        return int(record.value)
    return int(dict(record.headers).get(VALUE_HEADER) or b"-1")
