"""The promises about objects: settled once, replaced as a whole, and dead before they go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events.entries import AnyEvent, Entry
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.partitions import Partition

from .moment import Moment


class ObjectPromises:
    """See the module's head."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._settled: Final[dict[WalName, str]] = {}
        self._published: Final[set[tuple[int, int]]] = set()

    def before(self, entry: Entry) -> None:
        """Judge an entry before its fold."""
        for event in entry.events:
            self._event(event)

    def _event(self, event: AnyEvent) -> None:
        match event:
            case ev.WalCommitted():
                self._settle(WalName(event.incarnation, event.counter), "committed")
            case ev.WalAbandoned():
                self._settle(WalName(event.incarnation, event.counter), "abandoned")
            case ev.SegmentsPublished():
                self._publish(event)
            case ev.ObjectsCollected():
                needed = _needed(self._moment.truth.partitions.values())
                if needed.intersection(event.numbers):
                    self._moment.complain(f"{event} forgets an object that is needed")
            case _:
                pass

    def _settle(self, name: WalName, status: str) -> None:
        before = self._settled.setdefault(name, status)
        is_new = self._moment.truth.objects.wal_status(name).value == "unknown"
        if before != status or not is_new:
            self._moment.complain(f"{name} was {before}, and is {status}")

    def _publish(self, event: ev.SegmentsPublished) -> None:
        if not self._moment.truth.gateways.is_live(event.incarnation):
            self._moment.complain(f"{event.incarnation} has ended, and publishes segments")
        places = [(each.partition, each.base_offset, each.next_offset) for each in event.partitions]
        for at, (number, base, end) in enumerate(places):
            if any(number == n and base < e and b < end for n, b, e in places[:at]):
                self._moment.complain(f"{event} replaces runs twice")
        for each in event.partitions:
            self._replace(each)
            for segment in each.segments:
                if (event.incarnation, segment.attempt) in self._published:
                    self._moment.complain(f"{segment} is published again")
                self._published.add((event.incarnation, segment.attempt))

    def _replace(self, each: ev.SegmentsOfPartition) -> None:
        """Check that segments replace live runs without a gap, and have the same offsets."""
        partition = self._moment.truth.partitions.get(each.partition)
        rows = partition.runs_between(each.base_offset, each.next_offset) if partition else []
        old = [(row.base_offset, row.next_offset) for row in rows]
        new = [(segment.base_offset, segment.next_offset) for segment in each.segments]
        for name, found in (("parents", old), ("segments", new)):
            if not _tile(found, each.base_offset, each.next_offset):
                self._moment.complain(f"{each} has {name} {found}")

    def check(self) -> None:
        """Check that objects are dead if, and only if, no run needs them."""
        state: ClusterState = self._moment.truth
        needed, dead = _needed(state.partitions.values()), state.objects.dead
        if needed & dead.keys() or len(state.objects) != len(needed) + len(dead):
            text = f"{len(needed)} are needed, {len(dead)} dead"
            self._moment.complain(f"of {len(state.objects)} objects {text}")


def _tile(stretches: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    at = start
    for base, following in stretches:
        if base != at:
            return False
        at = following
    return at == end


def _needed(partitions: Iterable[Partition]) -> set[int]:
    return set(_numbers(partitions))


def _numbers(partitions: Iterable[Partition]) -> Iterator[int]:
    for partition in partitions:
        for row in partition.rows():
            if not row.is_marker:
                yield row.object_number
