"""Objects by their dense number: who wrote them, and how many live runs they still hold.

An object without live runs is dead from that log time on; it may be collected after a grace period
and is forgotten by the event that says so.  A WAL id is committed, abandoned or unknown, and is
remembered per incarnation as a counter and its exceptions.  A segment is remembered by its place.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from .broken import expect


class WalStatus(Enum):
    """What the log says of a WAL id."""

    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


class WalName(NamedTuple):
    """The parts of a WAL id."""

    incarnation: int
    counter: int


class SegmentName(NamedTuple):
    """What names a segment.  attempt: tells apart all that one incarnation's tasks wrote."""

    incarnation: int
    attempt: int
    topic_id: bytes
    partition: int
    base_offset: int


ObjectName: TypeAlias = WalName | SegmentName


@dataclass(slots=True)
class _Counters:
    """WAL ids of one incarnation: all below `next` are committed but for the exceptions."""

    next: int = 0
    missing: set[int] = field(default_factory=set[int])
    abandoned: set[int] = field(default_factory=set[int])

    def status(self, counter: int) -> WalStatus:
        if counter in self.abandoned:
            return WalStatus.ABANDONED
        if counter >= self.next or counter in self.missing:
            return WalStatus.UNKNOWN
        return WalStatus.COMMITTED

    def settle(self, counter: int, *, abandoned: bool) -> None:
        self.missing.discard(counter)
        self.missing.update(range(self.next, counter))
        self.next = max(self.next, counter + 1)
        if abandoned:
            self.abandoned.add(counter)


# Incarnation, counter, size, committed at, live runs; for a segment its attempt is the counter, and
# its place is a partition's number and a base offset.
_COLUMNS = "IIIqIIq"
_NO_PARTITION = (1 << 32) - 1


@dataclass(slots=True)
class _Home:
    """A partition with segments, which may be those of a topic that is gone."""

    topic_id: bytes
    index: int
    segments: int = 0


class ObjectTable:
    """All objects the log knows; numbers rise with the log."""

    def __init__(self) -> None:
        self._columns: tuple[array[int], ...] = tuple(array(code) for code in _COLUMNS)
        self._first_number = 0
        self._counters: dict[int, _Counters] = {}
        self._collected: set[int] = set()
        self._homes: dict[int, _Home] = {}
        self._superseded: set[int] = set()
        self.dead: dict[int, int] = {}

    @property
    def next_number(self) -> int:
        """Return the number of the next object."""
        return self._first_number + len(self._columns[0])

    def __len__(self) -> int:
        return len(self._columns[0]) - len(self._collected)

    def wal_status(self, name: WalName) -> WalStatus:
        """Return what became of a WAL id of a live incarnation."""
        counters = self._counters.get(name.incarnation)
        return counters.status(name.counter) if counters else WalStatus.UNKNOWN

    @property
    def segment_count(self) -> int:
        """Return how many of the objects are segments."""
        return sum(home.segments for home in self._homes.values())

    def name(self, number: int) -> ObjectName:
        """Return the name of an object; KeyError when it was collected."""
        at = number - self._first_number
        if at < 0 or number in self._collected:
            raise KeyError(number)
        incarnation, counter, partition = (self._columns[each][at] for each in (0, 1, 5))
        if partition == _NO_PARTITION:
            return WalName(incarnation, counter)
        home = self._homes[partition]
        return SegmentName(incarnation, counter, home.topic_id, home.index, self._columns[6][at])

    @property
    def first_number(self) -> int:
        """Return a number that is not above that of any object."""
        return self._first_number

    def name_or_none(self, number: int) -> ObjectName | None:
        """Return the name of an object; None when it was collected."""
        try:
            return self.name(number)
        except KeyError:
            return None

    def size_bytes(self, number: int) -> int:
        """Return the object's size in the store."""
        return self._columns[2][number - self._first_number]

    def committed_at_ms(self, number: int) -> int:
        """Return the log time at which the object was committed."""
        return self._columns[3][number - self._first_number]

    def fold_committed(self, name: WalName, size_bytes: int, runs: int, log_time_ms: int) -> int:
        """Add an object with that many live runs; return its number."""
        expect(self.wal_status(name) is WalStatus.UNKNOWN, f"{name} is settled already")
        self._counters.setdefault(name.incarnation, _Counters()).settle(
            name.counter, abandoned=False
        )
        return self._add(name, size_bytes, runs, log_time_ms)

    def fold_abandoned(self, name: WalName, log_time_ms: int) -> int:
        """Refuse the WAL id for ever; its object, stored or not, is dead."""
        expect(self.wal_status(name) is WalStatus.UNKNOWN, f"{name} is settled already")
        self._counters.setdefault(name.incarnation, _Counters()).settle(
            name.counter, abandoned=True
        )
        return self._add(name, 0, 0, log_time_ms)

    def fold_segment(
        self, name: SegmentName, partition: int, size_bytes: int, committed_at_ms: int
    ) -> int:
        """Add a segment of a partition, by its number: one live run; return the object's number.

        committed_at_ms: log time of its newest records.
        """
        home = self._homes.setdefault(partition, _Home(name.topic_id, name.partition))
        home.segments += 1
        return self._add(
            WalName(name.incarnation, name.attempt),
            size_bytes,
            1,
            committed_at_ms,
            (partition, name.base_offset),
        )

    def _add(
        self,
        name: WalName,
        size_bytes: int,
        runs: int,
        log_time_ms: int,
        place: tuple[int, int] = (_NO_PARTITION, 0),
    ) -> int:
        number = self.next_number
        row = (*name, size_bytes, log_time_ms, runs, *place)
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)
        if not runs:
            self.dead[number] = log_time_ms
        return number

    def supersede(self, number: int, log_time_ms: int) -> None:
        """One run of the object lives on in a segment."""
        self._superseded.add(number)
        self.release(number, log_time_ms)

    def is_superseded(self, number: int) -> bool:
        """Tell whether an older state may still need records of the object that are not expired."""
        return number in self._superseded

    def release(self, number: int, log_time_ms: int) -> None:
        """One run of the object lives no more."""
        live = self._columns[4]
        at = number - self._first_number
        expect(live[at] > 0, f"object {number} has no live runs left")
        live[at] -= 1
        if not live[at]:
            self.dead[number] = log_time_ms

    def fold_collected(self, numbers: Iterable[int]) -> None:
        """Forget dead objects."""
        for number in numbers:
            expect(number in self.dead, f"object {number} is not dead")
            del self.dead[number]
            self._leave_home(self._columns[5][number - self._first_number])
            self._superseded.discard(number)
            self._collected.add(number)
        self._shrink()

    def _leave_home(self, partition: int) -> None:
        home = self._homes.get(partition)
        if home is not None:
            home.segments -= 1
            if not home.segments:
                del self._homes[partition]

    def _shrink(self) -> None:
        front = 0
        while self._first_number + front in self._collected:
            front += 1
        if front > 64 and front * 2 > len(self._columns[0]):
            self._collected.difference_update(range(self._first_number, self._first_number + front))
            self._columns = tuple(column[front:] for column in self._columns)
            self._first_number += front

    def end_incarnation(self, incarnation: int) -> None:
        """Forget the counters of an incarnation that may commit no more."""
        self._counters.pop(incarnation, None)

    def encode(self) -> object:
        """Return all of it as builtins."""
        return {
            "first": self._first_number,
            "columns": [column.tobytes() for column in self._columns],
            "counters": [
                [incarnation, each.next, sorted(each.missing), sorted(each.abandoned)]
                for incarnation, each in sorted(self._counters.items())
            ],
            "collected": sorted(self._collected),
            "dead": [[number, since] for number, since in sorted(self.dead.items())],
            "superseded": sorted(self._superseded),
            "homes": [
                [number, home.topic_id, home.index, home.segments]
                for number, home in sorted(self._homes.items())
            ],
        }

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self._first_number = table["first"]
        for column, data in zip(self._columns, table["columns"], strict=False):
            column.frombytes(data)
        if len(table["columns"]) < len(self._columns):
            # Releases before there were segments wrote none.
            count = len(self._columns[0])
            self._columns[5].extend([_NO_PARTITION] * count)
            self._columns[6].extend([0] * count)
        for incarnation, following, missing, abandoned in table["counters"]:
            self._counters[incarnation] = _Counters(following, set(missing), set(abandoned))
        self._collected = set(table["collected"])
        self.dead = {number: since for number, since in table["dead"]}
        self._superseded = set(table.get("superseded", ()))
        for number, topic_id, index, segments in table.get("homes", ()):
            self._homes[number] = _Home(topic_id, index, segments)
