"""A prefix's objects: incarnations that stored WAL objects, and known objects that are missing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate_storage.objects.keys import (
    backup_prefix,
    parse_segment_key,
    parse_wal_key,
    segment_prefix,
    wal_key,
    wal_prefix,
)
from tidegate_storage.stores.object_store import ObjectInfo, ObjectStore

from ..object_names.keys import object_key
from ..state.cluster import ClusterState
from .shelf import listed


class Life(NamedTuple):
    """The folder of an incarnation."""

    timeline: int
    zone: str
    node_id: int
    incarnation: int

    def folder(self, cluster_id: str) -> str:
        """Return the prefix of its objects."""
        key = wal_key(
            cluster_id, self.timeline, self.zone, self.node_id, self.incarnation, counter=0
        )
        return key[: key.rindex("/") + 1]


@dataclass(slots=True)
class Survey:
    """objects: WAL objects.  strange: keys that name no object of Tidegate; they are not touched.

    last_pipeline: the highest incarnation that stored a segment.
    """

    lives: list[Life] = field(default_factory=list[Life])
    objects: int = 0
    missing: set[int] = field(default_factory=set[int])
    strange: list[str] = field(default_factory=list[str])
    last_pipeline: int = 0

    @property
    def highest_incarnation(self) -> int:
        """Return the highest incarnation that stored anything; 0 if none did."""
        return max([self.last_pipeline, *(each.incarnation for each in self.lives)])


async def survey(store: ObjectStore, state: ClusterState, timelines: range) -> Survey:
    """List the objects of some timelines, and compare them with those the state needs.

    Raises:
      StoreUnavailable: try again later.
    """
    needed = needed_objects(state)
    found = Survey(missing=set(needed.values()))
    lives: dict[Life, None] = {}
    for timeline in timelines:
        async for info in listed(store, wal_prefix(state.cluster_id, timeline)):
            try:
                key = parse_wal_key(info.key)
            except ValueError:
                found.strange.append(info.key)
                continue
            lives[Life(key.timeline, key.zone, key.node_id, key.incarnation)] = None
            found.objects += 1
            found.missing.discard(needed.get(info.key, -1))
        async for info in listed(store, segment_prefix(state.cluster_id, timeline)):
            try:
                incarnation = parse_segment_key(info.key).incarnation
            except ValueError:
                found.strange.append(info.key)
                continue
            found.last_pipeline = max(found.last_pipeline, incarnation)
            found.missing.discard(needed.get(info.key, -1))
    found.lives = list(lives)
    return found


async def is_in_use(store: ObjectStore, cluster_id: str, timelines: range) -> bool:
    """Return whether a restore that opened one of the timelines has completed.

    The first object of the new log in the store is a copy of the log.
    """
    for timeline in timelines:
        for prefix in (backup_prefix(cluster_id, timeline), wal_prefix(cluster_id, timeline)):
            if await store.list(prefix, limit=1):
                return True
    return False


def needed_objects(state: ClusterState) -> dict[str, int]:
    """Return the keys of the objects that hold live runs, with their numbers.

    Inlined objects are not among them: the store does not have these.
    """
    inlined = state.objects.inlined
    numbers = {
        row.object_number
        for partition in state.partitions.values()
        for index in range(len(partition.runs))
        if not (row := partition.runs[index]).is_marker and row.object_number not in inlined
    }
    return {object_key(state, state.objects.name(number)): number for number in numbers}


class ObjectsOfLife:
    """The objects of an incarnation by their counters, a page at a time."""

    def __init__(self, store: ObjectStore, cluster_id: str, life: Life) -> None:
        self._store = store
        self._folder = life.folder(cluster_id)
        self._page: deque[ObjectInfo] = deque()
        self._listed_to = ""

    async def next(self) -> tuple[int, ObjectInfo] | None:
        """Return the next counter and object; None at the end.

        Raises:
          StoreUnavailable: try again later.
        """
        while True:
            if not self._page:
                self._page.extend(await self._store.list(self._folder, start_after=self._listed_to))
            if not self._page:
                return None
            info = self._page.popleft()
            self._listed_to = info.key
            try:
                return parse_wal_key(info.key).counter, info
            except ValueError:
                continue


def cuts(state: ClusterState, missing: set[int]) -> tuple[list[tuple[int, int]], int]:
    """Return (partition number, new log start) past leading runs whose objects are missing.

    These objects were deleted after the backup, by retention or with their topic.  Also return the
    number of later runs whose objects are missing: their records are lost, and the operator must
    know.
    """
    moves: list[tuple[int, int]] = []
    lost = 0
    for partition in state.partitions.values():
        rows = [partition.runs[index] for index in range(len(partition.runs))]
        # At the front of a partition, markers are cut with the runs before them.
        gone = [row.is_marker or row.object_number in missing for row in rows]
        leading = gone.index(False) if False in gone else len(gone)
        gone = [not row.is_marker and row.object_number in missing for row in rows]
        if any(gone[:leading]):
            moves.append((partition.number, partition.runs[leading - 1].next_offset))
        lost += sum(gone[leading:])
    return moves, lost
