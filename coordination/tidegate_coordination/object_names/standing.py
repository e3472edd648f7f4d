"""The standing of an object in the cluster state.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tidegate_storage.objects.keys import parse_segment_key, parse_wal_key

from ..state.cluster import ClusterState
from ..state.records.objects import ObjectName, SegmentName, WalName, WalStatus
from ..state.records.runs import RunRow


class Standing(Enum):
    """Whether the cluster needs an object."""

    LIVE = "live: records of it are read"
    KEPT = "kept: an operator skipped its records, which can be brought back"
    SUPERSEDED = "superseded: its records are read from elsewhere; it will be deleted"
    EXPIRED = "expired: no partition has its records any more; it will be deleted"
    ABANDONED = "abandoned: it never became readable; it will be deleted"
    PENDING = "not committed: its writer is live, and may still commit it"
    ORPHAN = "orphan: the log does not name it, and never will; it will be deleted"
    ELSEWHERE = "of another cluster or timeline: this log does not know it"


@dataclass(frozen=True, slots=True)
class Known:
    """number: the object's number in the state; -1 for none.

    since_ms: since when the object is dead, in log time; -1 if it is not dead, or not in the state.
    runs: its live ones, each with the topic's name and the partition.
    """

    standing: Standing
    number: int = -1
    since_ms: int = -1
    runs: tuple[tuple[str, int, RunRow], ...] = ()


def name_of_key(key: str) -> tuple[str, int, ObjectName] | None:
    """Return cluster id, timeline and name; None unless a WAL object or segment has such a key."""
    try:
        wal = parse_wal_key(key)
    except ValueError:
        pass
    else:
        return wal.cluster_id, wal.timeline, WalName(wal.incarnation, wal.counter)
    try:
        segment = parse_segment_key(key)
    except ValueError:
        return None
    name = SegmentName(
        segment.incarnation,
        segment.attempt,
        segment.topic_id,
        segment.partition,
        segment.base_offset,
    )
    return segment.cluster_id, segment.timeline, name


def standing_of(state: ClusterState, key: str) -> Known | None:
    """Look an object up by its key; None as in name_of_key().  This walks over all objects."""
    found = name_of_key(key)
    if found is None:
        return None
    cluster_id, timeline, name = found
    incarnation = name.incarnation
    if cluster_id != state.cluster_id or timeline != state.timeline_of(incarnation):
        return Known(Standing.ELSEWHERE)
    objects = state.objects
    for number in objects.numbers():
        if objects.name_or_none(number) == name:
            return _known(state, number)
    if isinstance(name, WalName) and objects.wal_status(name) is WalStatus.ABANDONED:
        return Known(Standing.ABANDONED)
    if isinstance(name, WalName) and objects.wal_status(name) is WalStatus.COMMITTED:
        return Known(Standing.EXPIRED)  # a collected row is gone from the state
    may_come = state.gateways.is_live(incarnation) or incarnation in state.timelines.salvageable
    return Known(Standing.PENDING if may_come else Standing.ORPHAN)


def _known(state: ClusterState, number: int) -> Known:
    objects = state.objects
    since_ms = objects.dead.get(number)
    if since_ms is None:
        runs = tuple(_runs(state, number))
        return Known(Standing.LIVE if runs else Standing.KEPT, number, runs=runs)
    if not objects.size_bytes(number):
        return Known(Standing.ABANDONED, number, since_ms)
    is_superseded = objects.is_superseded(number)
    return Known(Standing.SUPERSEDED if is_superseded else Standing.EXPIRED, number, since_ms)


def _runs(state: ClusterState, number: int) -> Iterator[tuple[str, int, RunRow]]:
    for topic in state.topics.by_id.values():
        for partition_number in topic.partition_numbers:
            partition = state.partitions[partition_number]
            for at in range(len(partition.runs)):
                row = partition.runs[at]
                if row.object_number == number and not row.is_marker:
                    yield topic.name, partition.index, row
