"""Which inlined objects are moved, and how their batches lie in one stored object.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, cast

from tidegate_coordination.events.cluster import RUN_FINAL, RUN_LOG_APPEND_TIME, Run
from tidegate_coordination.rules.records.inlining import MAX_UNMOVED_BYTES, MoveInlined, Stretch
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import ObjectTable, WalName
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_protocol.batches import walk
from tidegate_protocol.errors import InvalidBatch
from tidegate_storage.objects.corrupt import CorruptObject
from tidegate_storage.objects.runs import run_check
from tidegate_storage.objects.wal import (
    OpenWal,
    PlacedBatch,
    SealedWal,
    WalContents,
    WalIdentity,
    read_wal,
)

MOVE_SECONDS: Final = 10.0
"""An object waits for so long in the log, or until a stored object is well filled."""
ENOUGH_BYTES: Final = 4 << 20
MAX_OBJECTS: Final = 1_000
"""Of one move, which is planned in one step of the loop."""
LATE_SECONDS: Final = 60.0
"""After this time another gateway moves an object, and after each further time the next one.

While the log is moved, which waits for this, they follow after MOVE_SECONDS.
"""
BYTES_PER_RUN: Final = 80
"""The most bytes that a moved run takes in the log entry."""
_NEVER_JOINED: Final = RUN_LOG_APPEND_TIME | RUN_FINAL


@dataclass(frozen=True, slots=True)
class MovedRun:
    """A run of an inlined object; its name; the CRCs of its batches, and their bytes."""

    partition: Partition
    row: RunRow
    source: WalName
    crcs: tuple[int, ...]
    region: memoryview


@dataclass(frozen=True, slots=True)
class Move:
    """A stored object to be, and the runs that it takes over."""

    wal: SealedWal
    stretches: tuple[Stretch, ...]

    def proposal(self) -> MoveInlined:
        """Return the proposal to make once the object is stored."""
        identity = self.wal.identity
        name = WalName(identity.incarnation, identity.counter)
        return MoveInlined(name, len(self.wal.body), self.stretches)


class Waits:
    """Knows for how long the oldest inlined objects have been in the log, at least.

    It goes by this gateway's own clock: log time stands still while it is ahead of all clocks.
    """

    def __init__(self) -> None:
        self._looks: dict[int, tuple[int, float]] = {}  # the next number at an earlier look

    def look(self, objects: ObjectTable, now: float) -> dict[int, float]:
        """Return by author for how many seconds its oldest object has been in the log."""
        before, self._looks = self._looks, {}
        for author in objects.inlined.authors():
            next_number, _ = look = before.get(author, (0, now))
            was_there = next(objects.inlined.of_author(author)) < next_number
            self._looks[author] = look if was_there else (objects.next_number, now)
        return {author: now - since for author, (_, since) in self._looks.items()}


def due(state: ClusterState, incarnation: int, waits: Mapping[int, float]) -> list[int]:
    """Return the numbers of a gateway's inlined objects that it should move now, oldest first.

    waits: see Waits.
    """
    if incarnation not in waits:
        return []
    inlined = state.objects.inlined
    ours, are_enough = first_of(state, incarnation)
    must = state.log_moves.present is not None or inlined.held_bytes * 2 >= MAX_UNMOVED_BYTES
    return ours if are_enough or must or waits[incarnation] >= MOVE_SECONDS else []


def due_of_others(
    state: ClusterState, incarnation: int, waits: Mapping[int, float]
) -> Iterator[tuple[int, list[int]]]:
    """Yield other authors, and the numbers of inlined objects that a gateway should move for them.

    The author has ended, or does not reach the store.  One gateway after the other tries.
    """
    live = state.gateways.live
    turn_seconds = LATE_SECONDS if state.log_moves.present is None else MOVE_SECONDS
    serving = [each.incarnation for each in state.gateways.serving()]
    for author, seconds in waits.items():
        others = [each for each in serving if each != author]
        if author == incarnation or incarnation not in others:
            continue
        gateways_before = (others.index(incarnation) - author) % len(others)
        if seconds >= turn_seconds * (gateways_before + (author in live)):
            yield author, first_of(state, author)[0]


def first_of(state: ClusterState, author: int) -> tuple[list[int], bool]:
    """Return the oldest objects of an incarnation, and whether they are enough for one move."""
    found: list[int] = []
    size_bytes = 0
    for number in state.objects.inlined.of_author(author):
        found.append(number)
        size_bytes += state.objects.size_bytes(number)
        if size_bytes >= ENOUGH_BYTES or len(found) == MAX_OBJECTS:
            return found, True
    return found, False


def live_runs(state: ClusterState, numbers: Iterable[int]) -> Iterator[MovedRun]:
    """Yield the live runs of inlined objects, by partition and in the order of their offsets.

    Objects whose bytes are damaged in memory, and runs that do not fit their checks, are left out.
    """
    contents = {number: found for number in numbers if (found := _contents(state, number))}
    if not contents:
        return
    since_ms = min(state.objects.committed_at_ms(number) for number in contents)
    for partition in _partitions(state, contents.values()):
        for row in _rows_since(state, partition, since_ms):
            found = None if row.is_marker else contents.get(row.object_number)
            if found is None:
                continue
            region = found.body[row.position : row.position + row.length]
            crcs = _crcs(region)
            if run_check(partition.topic_id, partition.index, crcs) == row.check:
                source = cast(WalName, state.objects.name(row.object_number))
                yield MovedRun(partition, row, source, crcs, region)


def _contents(state: ClusterState, number: int) -> WalContents | None:
    """Read an inlined object; None if its bytes are absent or damaged."""
    body = state.objects.inlined.body(number)
    try:
        return read_wal(body) if body is not None else None
    except CorruptObject:
        return None


def joined(runs: Iterable[MovedRun], identity: WalIdentity) -> Move:
    """Join runs, of a partition in the order of their offsets, in one object."""
    opened = OpenWal()
    for each in runs:
        row, partition = each.row, each.partition
        place = (partition.topic_id, partition.index)
        records = row.next_offset - row.base_offset
        opened.append(*place, each.region, records, row.max_timestamp, each)
    wal = opened.seal(identity, source_of=lambda token: cast(MovedRun, token).source)
    return Move(wal, tuple(_stretches(wal.batches)))


def _partitions(state: ClusterState, contents: Iterable[WalContents]) -> list[Partition]:
    found: dict[int, Partition] = {}
    for each in chain.from_iterable(one.slices for one in contents):
        topic = state.topics.by_id.get(each.topic_id)
        if topic is not None and each.partition < len(topic.partition_numbers):
            number = topic.partition_numbers[each.partition]
            found[number] = state.partitions[number]
    return list(found.values())


def _rows_since(state: ClusterState, partition: Partition, since_ms: int) -> list[RunRow]:
    """Return the runs from the first one on that was committed at a time or later."""
    rows: list[RunRow] = []
    for at in range(len(partition.runs) - 1, -1, -1):
        row = partition.runs[at]
        if not row.is_marker and state.committed_at_ms(row) < since_ms:
            break
        rows.append(row)
    return rows[::-1]


def _crcs(region: memoryview) -> tuple[int, ...]:
    """Return the CRC fields of the batches; none if they are damaged."""
    try:
        return tuple([header.crc for _, header in walk(region)])
    except InvalidBatch:
        return ()


def _stretches(batches: Sequence[PlacedBatch]) -> Iterator[Stretch]:
    by_partition: dict[int, list[PlacedBatch]] = defaultdict(list)
    for placed in batches:
        by_partition[cast(MovedRun, placed.token).partition.number].append(placed)
    for number, those in by_partition.items():
        for group in _neighbours(those):
            parts = [cast(MovedRun, each.token) for each in group]
            runs = tuple(_run(each) for each in _joinable(group))
            yield Stretch(number, tuple(each.row for each in parts), runs)


def _neighbours(batches: Sequence[PlacedBatch]) -> Iterator[list[PlacedBatch]]:
    """Split the runs of a partition where another run, or a hole, lies between two of them."""
    group: list[PlacedBatch] = []
    for each in batches:
        row = cast(MovedRun, each.token).row
        if group and cast(MovedRun, group[-1].token).row.next_offset != row.base_offset:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _joinable(group: Sequence[PlacedBatch]) -> Iterator[list[PlacedBatch]]:
    """Split neighbours into those that one run can hold.

    A run says one append time for all its batches.
    """
    those: list[PlacedBatch] = []
    for each in group:
        flags = cast(MovedRun, each.token).row.flags
        if those and (flags & _NEVER_JOINED or flags != cast(MovedRun, those[-1].token).row.flags):
            yield those
            those = []
        those.append(each)
    if those:
        yield those


def _run(those: Sequence[PlacedBatch]) -> Run:
    parts = [cast(MovedRun, each.token) for each in those]
    first, partition = parts[0].row, parts[0].partition
    crcs = [crc for each in parts for crc in each.crcs]
    return Run(
        partition.number,
        those[0].start_byte,
        sum(each.size_bytes for each in those),
        first.base_offset,
        parts[-1].row.next_offset - first.base_offset,
        max(each.row.max_timestamp for each in parts),
        run_check(partition.topic_id, partition.index, crcs),
        first.flags,
    )
