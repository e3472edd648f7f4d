"""Objects by their dense number: their writers, and how many live runs they still hold.

An object without live runs is dead from that log time on; it may be collected after a grace period,
and an event then removes its row from the state.  A WAL id is committed, abandoned or unknown; each
incarnation has a counter and its exceptions.  A segment is identified by its place.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from ..broken import StateBroken, expect
from ..long_values import LongList, LongValue, sorted_keys, sorted_slices
from .inlined import InlinedObjects
from .object_rows import ObjectRows


class WalStatus(Enum):
    """The status of a WAL id in the log."""

    UNKNOWN = "unknown"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


class WalName(NamedTuple):
    """The parts of a WAL id."""

    incarnation: int
    counter: int


class SegmentName(NamedTuple):
    """The name of a segment.  attempt: unique among all segments of an incarnation's tasks."""

    incarnation: int
    attempt: int
    topic_id: bytes
    partition: int
    base_offset: int


ObjectName: TypeAlias = WalName | SegmentName


@dataclass(slots=True)
class WalCounters:
    """WAL ids of one incarnation: all below `next` are committed but for the exceptions.

    proof: as next, but of the ids alone that show whether the gateway reaches the store.
    """

    next: int = 0
    missing: set[int] = field(default_factory=set[int])
    abandoned: set[int] = field(default_factory=set[int])
    proof: int = 0
    _proof_before: int = 0

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
        self._proof_before, self.proof = self.proof, max(self.proof, counter + 1)
        if abandoned:
            self.abandoned.add(counter)

    def take_back_proof(self) -> None:
        """Note that the last settled object is not in the store, so it proves nothing."""
        self.proof = self._proof_before


# Incarnation, counter, size, committed at, live runs. For a segment, the counter is its attempt,
# and a partition's number and a base offset follow.
_COLUMNS = "IQIqIIq"
# Snapshots up to format 5 have fewer bits for counters, and for the objects' own numbers.
_NARROW_COLUMNS = "IIIqIIq"
_NARROW_NUMBER = "I"
_SIZE, _COMMITTED_AT, _LIVE, _PARTITION = 2, 3, 4, 5
_NO_PARTITION = (1 << 32) - 1


class _Home(NamedTuple):
    """A partition with segments, perhaps of a deleted topic."""

    topic_id: bytes
    partition: int
    segments: int = 0


class ObjectTable:
    """All objects the log knows; numbers rise with the log."""

    def __init__(self) -> None:
        self._rows = ObjectRows(_COLUMNS)
        self._counters: dict[int, WalCounters] = {}
        self._homes: dict[int, _Home] = {}
        self._superseded: set[int] = set()
        self.inlined: Final = InlinedObjects()
        self.dead: dict[int, int] = {}

    @property
    def next_number(self) -> int:
        """Return the number of the next object."""
        return self._rows.next_number

    def __len__(self) -> int:
        return len(self._rows)

    def wal_status(self, name: WalName) -> WalStatus:
        """Return the status of a WAL id of a live incarnation."""
        counters = self._counters.get(name.incarnation)
        return counters.status(name.counter) if counters else WalStatus.UNKNOWN

    def next_counter(self, incarnation: int) -> int:
        """Return the first counter above the settled counters of the incarnation."""
        counters = self._counters.get(incarnation)
        return counters.next if counters else 0

    def next_proof(self, incarnation: int) -> int:
        """Return the first counter above those that show whether the gateway reaches the store."""
        counters = self._counters.get(incarnation)
        return counters.proof if counters else 0

    def is_newest_abandoned(self, incarnation: int) -> bool:
        """Return whether the WAL id before next_proof() of an incarnation is abandoned."""
        counters = self._counters.get(incarnation)
        return counters is not None and counters.proof - 1 in counters.abandoned

    def abandoned_count(self, incarnation: int) -> int:
        """Return how many WAL ids of an incarnation are abandoned; no walk over its counters."""
        counters = self._counters.get(incarnation)
        return len(counters.abandoned) if counters else 0

    @property
    def segment_count(self) -> int:
        """Return how many of the objects are segments."""
        return sum(home.segments for home in self._homes.values())

    def name(self, number: int) -> ObjectName:
        """Return the name of an object; KeyError when it was collected."""
        incarnation, counter, _, _, _, partition, base_offset = self._rows.row(number)
        if partition == _NO_PARTITION:
            return WalName(incarnation, counter)
        home = self._homes[partition]
        return SegmentName(incarnation, counter, home.topic_id, home.partition, base_offset)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all objects, rising; some may be collected meanwhile."""
        return self._rows.numbers()

    def name_or_none(self, number: int) -> ObjectName | None:
        """Return the name of an object; None when it was collected."""
        try:
            return self.name(number)
        except KeyError:
            return None

    def size_bytes(self, number: int) -> int:
        """Return the object's size in the store."""
        return self._rows.get(number, _SIZE)

    def committed_at_ms(self, number: int) -> int:
        """Return the log time at which the object was committed."""
        return self._rows.get(number, _COMMITTED_AT)

    def fold_committed(self, name: WalName, size_bytes: int, runs: int, log_time_ms: int) -> int:
        """Add an object with that many live runs; return its number."""
        self._settle(name, abandoned=False)
        return self._add(name, size_bytes, runs, log_time_ms)

    def fold_abandoned(self, name: WalName, log_time_ms: int) -> int:
        """Refuse the WAL id for ever; its object, stored or not, is dead."""
        self._settle(name, abandoned=True)
        return self._add(name, 0, 0, log_time_ms)

    def _settle(self, name: WalName, *, abandoned: bool) -> None:
        counters = self._counters.get(name.incarnation)
        if counters is None:
            counters = self._counters[name.incarnation] = WalCounters()
        if counters.status(name.counter) is not WalStatus.UNKNOWN:
            raise StateBroken(f"{name} is settled already")
        counters.settle(name.counter, abandoned=abandoned)

    def fold_inlined(self, name: WalName, position: int, body: bytes) -> None:
        """The newest object's body is in the entry at a position, and not in the store."""
        number = self.next_number - 1
        expect(self.name(number) == name, f"{name} is inlined, but the newest object is another")
        self.inlined.add(number, name.incarnation, position, body)
        self._counters[name.incarnation].take_back_proof()

    def fold_segment(
        self, name: SegmentName, partition: int, size_bytes: int, committed_at_ms: int
    ) -> int:
        """Add a segment of a partition, by its number: one live run; return the object's number.

        committed_at_ms: log time of its newest records.
        """
        home = self._homes.get(partition) or _Home(name.topic_id, name.partition)
        self._homes[partition] = home._replace(segments=home.segments + 1)
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
        number = self._rows.append((*name, size_bytes, log_time_ms, runs, *place))
        if not runs:
            self.dead[number] = log_time_ms
        return number

    def supersede(self, number: int, log_time_ms: int) -> None:
        """Fold that a segment replaces one run of the object."""
        self._superseded.add(number)
        self.release(number, log_time_ms)

    def is_superseded(self, number: int) -> bool:
        """Return whether a restored older state may still need unexpired records of the object."""
        return number in self._superseded

    def release(self, number: int, log_time_ms: int) -> None:
        """Fold that one run of the object is no longer live."""
        live = self._rows.get(number, _LIVE)
        expect(live > 0, f"object {number} has no live runs left")
        self._rows.set(number, _LIVE, live - 1)
        if live == 1:
            self.dead[number] = log_time_ms
            self.inlined.forget(number)

    def fold_collected(self, numbers: Iterable[int]) -> None:
        """Forget dead objects."""
        collected = list(numbers)
        for number in collected:
            expect(number in self.dead, f"object {number} is not dead")
            del self.dead[number]
            self._leave_home(self._rows.get(number, _PARTITION))
            self._superseded.discard(number)
        self.inlined.collected(collected)
        self._rows.remove(collected)

    def _leave_home(self, partition: int) -> None:
        home = self._homes.get(partition)
        if home is None:
            return
        if home.segments > 1:
            self._homes[partition] = home._replace(segments=home.segments - 1)
        else:
            del self._homes[partition]

    def end_incarnation(self, incarnation: int) -> None:
        """Forget the counters of an incarnation that may commit no more."""
        self._counters.pop(incarnation, None)

    def encode(self, *, is_wide: bool) -> LongValue:
        """Return all present objects; is_wide: with 64 bits for numbers that only rise."""
        rows, dead, homes = self._rows, self.dead.copy(), self._homes.copy()
        superseded = self._superseded.copy()
        return LongValue.of_map(
            {
                **(rows.encode() if is_wide else rows.encode(_NARROW_COLUMNS, _NARROW_NUMBER)),
                "counters": [
                    [
                        incarnation,
                        each.next,
                        sorted(each.missing),
                        sorted(each.abandoned),
                        *([each.proof] if each.proof != each.next else []),
                    ]
                    for incarnation, each in sorted(self._counters.items())
                ],
                "dead": LongList(len(dead), sorted_slices(dead, _dead_row)),
                "superseded": LongList(len(superseded), sorted_keys(superseded)),
                "homes": LongList(len(homes), sorted_slices(homes, _home_row)),
                **self.inlined.encode(),
            }
        )

    def decode(self, table: Mapping[str, Any], *, is_wide: bool) -> None:
        """Fill an empty table from encode()'s answer."""
        if "first" in table:
            self._decode_rows_without_gaps(table)
        elif is_wide:
            self._rows.decode(table)
        else:
            self._rows.decode(table, _NARROW_COLUMNS, _NARROW_NUMBER)
        for incarnation, following, missing, abandoned, *proof in table["counters"]:
            numbers = (following, set(missing), set(abandoned), *(proof or [following]))
            self._counters[incarnation] = WalCounters(*numbers)
        self.dead = {number: since for number, since in table["dead"]}
        self._superseded = set(table.get("superseded", ()))
        for number, topic_id, index, segments in table.get("homes", ()):
            self._homes[number] = _Home(topic_id, index, segments)
        self.inlined.decode(table)

    def _decode_rows_without_gaps(self, table: Mapping[str, Any]) -> None:
        """Decode rows of formats up to 3, which keep a row until all earlier ones are removed."""
        columns: list[array[int]] = [array(code) for code in _NARROW_COLUMNS]
        for column, data in zip(columns, table["columns"], strict=False):
            column.frombytes(data)
        first, count = table["first"], len(columns[0])
        if len(table["columns"]) < len(columns):  # format 2 knew no segments
            columns[_PARTITION].extend([_NO_PARTITION] * count)
            columns[-1].extend([0] * count)
        numbers = array("Q", range(first, first + count))
        wide = [array(code, column) for code, column in zip(_COLUMNS, columns, strict=True)]
        self._rows.fill(first + count, numbers, wide, table["collected"])


def _dead_row(number: int, since: int) -> list[object]:
    return [number, since]


def _home_row(number: int, home: _Home) -> list[object]:
    return [number, *home]
