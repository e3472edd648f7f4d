"""Records of a compacted topic: they have keys, and some are tombstones.

Which is told by the value alone (history.py), so that the checker knows, too.  A tombstone's value
stands in a header.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate_protocol.records import Record

VALUE_HEADER: Final = "value"


class Keyed(NamedTuple):
    """How the records of a partition are made: the key of a value is its rest by `keys`, and it is
    a tombstone if it can be divided by `tombstones`, 0 for never."""

    keys: int
    tombstones: int

    def is_tombstone(self, value: int) -> bool:
        """Tell whether the record of a value is one."""
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
    """Return the value that a record was made of."""
    if record.value is not None:
        return int(record.value)
    return int(dict(record.headers).get(VALUE_HEADER) or b"-1")
