"""Compares the batches that a source has after an offset with the batches here.

If gateways wrote a topic back to its source, the source may have batches from after the switch that
this cluster has, too.  The log does not know exactly how many.  All other batches of the source
from after the switch are strays.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, cast

import structlog

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError
from tidegate_coordination.client.source_bounds import EARLIEST, Place, source_offset
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    StoreMisconfigured,
    StoreUnavailable,
)

from ...fetch.log_reader import LogReader
from ...fetch.prepared_runs import CorruptRun
from ..mirror.verifying import fetched
from .batches import Diverged, differs, fitting

_log = structlog.get_logger("tidegate.links")

MAY_PASS: Final = (
    ClassicError,
    CoordinatorUnavailable,
    CorruptRun,
    NoSuchObject,
    StoreMisconfigured,
    StoreUnavailable,
    UnknownVersion,
)
FETCHES_A_LOOK: Final = 8


class Compared(NamedTuple):
    """The offset up to which both sides are equal.  difference: the difference there, or ""."""

    until: int
    difference: str


async def batch_here(reader: LogReader, partition: Partition, offset: int) -> memoryview:
    """Return the batch of an offset.

    Raises:
      Diverged: there is no batch at this offset.
      CorruptRun, NoSuchObject, StoreUnavailable: the batch could not be read.
    """
    at = partition.runs.find(offset)
    row = partition.runs[at] if at < len(partition.runs) else None
    if row is None or not row.base_offset <= offset < row.next_offset:
        raise Diverged(f"offset {offset} is not here any more")
    if row.is_marker:
        raise Diverged(f"offset {offset} is the end of a transaction")
    part = (await reader.parts(partition, row, offset))[0]
    run = await reader.run_at(partition, part)
    return run.batch(run.find(offset))


async def compared_once(
    cluster: ClassicCluster,
    reader: LogReader,
    partition: Partition,
    place: Place,
    start: int,
    end: int,
) -> Compared:
    """Compare the batches of one fetch of the source, from an offset on.  end: of the source's log.

    Raises:
      ClassicError: the source does not return these batches.
      CorruptRun, NoSuchObject, StoreUnavailable: a batch here could not be read.
    """
    data = await fetched(cluster, *place, start)
    if data.high_watermark < end:
        raise BrokerUnreachable("the source's replicas have not got all yet")
    following = start
    for raw, header in fitting(memoryview(cast("memoryview | None", data.records) or b""), start):
        # the source may have removed the batches before by compaction
        at = max(following, header.base_offset)
        try:
            is_here = at < partition.next_offset
            own = await batch_here(reader, partition, at) if is_here else None
        except Diverged as error:
            return Compared(at, str(error))
        text = differs(own, raw, header)
        if text:
            return Compared(at, text)
        following = header.last_offset + 1
    if following == start:
        raise BrokerUnreachable(f"the source does not give offset {start}, and ends at {end}")
    return Compared(following, "")


class _Tail(NamedTuple):
    """The comparison of a partition's tail at the source so far.  base: its first offset."""

    base: int
    found: Compared


class SourceTails:
    """Finds the offsets at which strays begin at the sources of topics.

    An offset is compared only once, since logs only grow.
    """

    def __init__(self, state: ClusterState, reader: LogReader, cluster: ClassicCluster) -> None:
        self._state = state
        self._reader = reader
        self._cluster = cluster
        self._known: dict[tuple[bytes, int], _Tail] = {}
        self._problems: dict[Place, str] = {}
        self._fetches = 0

    def begin_look(self, topic_ids: Collection[bytes]) -> None:
        """Allow further fetches.  topic_ids: of all watched topics."""
        self._fetches = FETCHES_A_LOOK
        for key in [each for each in self._known if each[0] not in topic_ids]:
            del self._known[key]

    async def limit(self, topic: Topic, index: int, base: int, end: int) -> int | None:
        """Return the first stray offset of a partition; `end` or more if none; None if unknown.

        base: both sides are known to be equal below this offset.  end: of the source's log.
        """
        key = (topic.topic_id, index)
        tail = self._known.get(key)
        if tail is None or tail.base != base:
            tail = _Tail(base, Compared(base, ""))
        if not tail.found.difference and tail.found.until < end:
            found = await self._compared(topic, index, tail.found.until, end)
            if found is None:
                return None
            tail = tail._replace(found=found)
        self._known[key] = tail
        is_known = tail.found.difference or tail.found.until >= end
        return tail.found.until if is_known else None

    async def _compared(self, topic: Topic, index: int, start: int, end: int) -> Compared | None:
        if not self._fetches:
            return None
        self._fetches -= 1
        place = (topic.name, index)
        try:
            start = max(start, await source_offset(self._cluster, *place, EARLIEST))
            if start >= end:
                return Compared(end, "")
            partition = self._state.partitions.get(topic.partition_numbers[index])
            if partition is None:  # the topic was deleted just now
                return None
            found = await compared_once(self._cluster, self._reader, partition, place, start, end)
        except MAY_PASS as error:
            self._note(place, str(error))
            return None
        self._problems.pop(place, None)
        return found

    def _note(self, place: Place, text: str) -> None:
        if self._problems.get(place) != text:
            self._problems[place] = text
            _log.warning(
                "the end of a source cannot be compared",
                partition=f"{place[0]}-{place[1]}",
                reason=text,
            )
