"""The producers' acknowledgements, and whether the read records agree with them.  No I/O here.

A record is identified by its stream (a partition with one producer) and its number.  Its content
can be made again from both, except its time stamp, which the ledger keeps.  A record without an
answer may be in the log or not.  Once it was read, it counts like an acknowledged one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.records import Expected, Headers, Records

NUMBER = "n"
KEYS = 150
# One in TOMBSTONES records of a compacted topic is a tombstone.
TOMBSTONES = 6

_RECORDS = Records()


class Found(NamedTuple):
    """A record as a consumer got it."""

    offset: int
    record: Expected


@dataclass(slots=True)
class Ledger:
    """The known records of one stream.

    is_compacted: keys repeat, some with tombstones.  is_exact: its producer is idempotent, so no
    record may be there twice, or in another order.  timestamps: by number, those of all records
    that were sent.  at: offset -> number, of acknowledged and of read records.  unknown: numbers
    without a known offset.
    """

    topic: str
    partition: int
    codec: str
    is_exact: bool
    is_compacted: bool = False
    timestamps: list[int] = field(default_factory=list[int], init=False)
    at: dict[int, int] = field(default_factory=dict[int, int], init=False)
    unknown: set[int] = field(default_factory=set[int], init=False)
    acknowledged: int = field(default=0, init=False)

    @property
    def name(self) -> str:
        """Topic and partition, for people."""
        return f"{self.topic}/{self.partition}"

    def record(self, number: int) -> Expected:
        """Return the record with this number."""
        plain = _RECORDS.of(self.partition, number)
        headers: Headers = [(NUMBER, b"%d" % number)]
        key, value = plain.key, plain.value
        if self.is_compacted:
            mixed = (number * 2_654_435_761 + self.partition) % 2**32
            key = b"key-%d" % (mixed % KEYS)
            if mixed // KEYS % TOMBSTONES == 0:
                value = None
        return Expected(key, value, self.timestamps[number], headers)

    def acknowledge(self, number: int, offset: int) -> None:
        """Note an acknowledgement.  If the offset is negative, the record's offset is unknown."""
        self.acknowledged += 1
        if offset < 0:
            self.unknown.add(number)
        else:
            self.at[offset] = number

    def key_of(self, number: int) -> bytes | None:
        """Return a record's key."""
        return self.record(number).key

    def is_tombstone(self, number: int) -> bool:
        """Return whether a record deletes its key."""
        return self.record(number).value is None


def number_of(record: Expected) -> int:
    """Return the number in a record's header; -1 if it has none."""
    headers = record.headers
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    for name, text in pairs:
        if name == NUMBER and isinstance(text, bytes) and text.isdigit():
            return int(text)
    return -1


class Judge:
    """Follows one reading of one stream, record by record.

    problems: sentences.  gaps: (first, next) of offsets that were left out.  The caller decides
    which gaps are allowed.
    """

    def __init__(self, ledger: Ledger, start: int) -> None:
        self._ledger = ledger
        # Copy it, since the producer's thread changes it.
        self._numbers = {number: offset for offset, number in ledger.at.copy().items()}
        self._known = dict(self._numbers)
        self._highest = -1
        self.start = start
        self.next_offset = start
        self.records = 0
        self.problems: list[str] = []
        self.gaps: list[tuple[int, int]] = []
        self.found: dict[int, int] = {}

    def take(self, found: Found) -> None:
        """Judge the next record."""
        problem = self._problem(found)
        if problem:
            self.problems.append(f"{self._ledger.name} offset {found.offset}: {problem}")
        if found.offset > self.next_offset:
            self.gaps.append((self.next_offset, found.offset))
        self.next_offset = max(self.next_offset, found.offset + 1)
        self.records += 1

    def _problem(self, found: Found) -> str:
        ledger, number = self._ledger, number_of(found.record)
        if found.offset < self.next_offset:
            return f"comes after {self.next_offset - 1}"
        if not 0 <= number < len(ledger.timestamps):
            return f"holds a record that no producer wrote: {found.record}"
        if found.record != ledger.record(number):
            return f"record {number} is {found.record}, not {ledger.record(number)}"
        if ledger.at.get(found.offset, number) != number:
            return f"holds {number}, but {ledger.at[found.offset]} was acknowledged there"
        self.found[found.offset] = number
        return self._order_problem(found.offset, number) if ledger.is_exact else ""

    def _order_problem(self, offset: int, number: int) -> str:
        before = self._numbers.get(number, offset)
        if before != offset:
            return f"record {number} is at offset {before}, too"
        self._numbers[number] = offset
        if number <= self._highest:
            return f"record {number} comes after {self._highest}"
        self._highest = number
        return ""

    def adopt(self) -> None:
        """Add the read records to the ledger."""
        for offset, number in self.found.items():
            self._ledger.at.setdefault(offset, number)

    def missing(self, end: int) -> Iterator[int]:
        """Yield the offsets between start and end that were known before but were not read."""
        known = set(self._known.values())
        return iter(sorted(each for each in known - self.found.keys() if self.start <= each < end))

    def lost_keys(self, end: int) -> Iterator[str]:
        """Yield the records that a compacted partition should have and has not.

        The newest record of each key must be there, or a later one.  Only a tombstone may be
        missing, if all older records of its key are missing, too.  end: the end of this reading.
        """
        ledger = self._ledger
        newest: dict[bytes | None, int] = {}
        for offset in sorted(self._known.values()):
            if offset < end:
                newest[ledger.key_of(ledger.at[offset])] = offset
        seen: dict[bytes | None, int] = {}
        for offset, number in self.found.items():
            key = ledger.key_of(number)
            seen[key] = max(offset, seen.get(key, -1))
        for key, offset in newest.items():
            there = seen.get(key, -1)
            is_tombstone = ledger.is_tombstone(ledger.at[offset])
            if there >= offset or (is_tombstone and there < 0):
                continue
            wanted = "tombstone" if is_tombstone else "value"
            yield f"{ledger.name}: key {key!r} shows offset {there}, not its {wanted} at {offset}"
