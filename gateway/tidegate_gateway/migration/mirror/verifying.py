"""Reads mirrored partitions at their source and at a gateway, and compares both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError, Refused
from tidegate_coordination.client.source_bounds import (
    EARLIEST,
    LATEST,
    Place,
    source_offsets,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

from .comparison import SOURCE, Comparison

FETCH_BYTES: Final = 4 << 20
WAIT_MS: Final = 500
MAX_TRIES: Final = 120
EMPTY_TRIES: Final = 3
AGAIN_SECONDS: Final = 1.0
PLACES_A_PORTION: Final = 200
"""Partitions whose ends are asked together; of many the last ones would be old by their turn."""
AT_ONCE: Final = 4
"""Partitions that are compared at a time: each holds the answers of two fetches."""
_NO_SESSION: Final = -1


@dataclass(frozen=True, slots=True)
class Sides:
    """A source and a cluster with its copies; the metadata of both include the topics.

    on_bytes: called with the number of bytes read from the source.
    """

    source: ClassicCluster
    copy: ClassicCluster
    by_record: bool
    on_bytes: Callable[[int], None]

    async def compared(self, places: Sequence[Place]) -> list[Comparison]:
        """Compare each partition up to the offset that both sides have now.

        If a side cannot be read, the comparison's difference says this.
        """
        found: list[Comparison] = []
        for at in range(0, len(places), PLACES_A_PORTION):
            found += await self._portion(places[at : at + PLACES_A_PORTION])
        return found

    async def _portion(self, places: Sequence[Place]) -> list[Comparison]:
        bounds: list[Mapping[Place, int | str]] = []
        for which in (EARLIEST, LATEST):
            for cluster in (self.source, self.copy):
                bounds.append(await source_offsets(cluster, places, which))
        found = [self._begun([each[place] for each in bounds]) for place in places]
        waiting = iter(zip(places, found, strict=True))

        async def work() -> None:
            for place, comparison in waiting:
                await self._compare(place, comparison)

        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(work)
        return found

    def _begun(self, bounds: Sequence[int | str]) -> Comparison:
        """Return a new comparison of a partition.  bounds: both start and both end offsets."""
        known = [each for each in bounds if isinstance(each, int)]
        if len(known) < len(bounds):
            texts = [each for each in bounds if isinstance(each, str)]
            return Comparison(0, 0, self.by_record, difference=texts[0])
        return Comparison(max(known[:2]), min(known[2:]), self.by_record)

    async def _compare(self, place: Place, comparison: Comparison) -> None:
        sides = (self.source, self.copy)
        try:
            while (side := comparison.side) is not None:
                data = await fetched(sides[side], *place, comparison.position(side))
                records = cast("memoryview", data.records) if data.records else memoryview(b"")
                comparison.take(side, records)
                if side == SOURCE:
                    self.on_bytes(len(records))
        except ClassicError as error:
            comparison.difference = str(error)


async def fetched(
    cluster: ClassicCluster,
    topic: str,
    index: int,
    offset: int,
    *,
    max_bytes: int = FETCH_BYTES,
) -> PartitionData:
    """Return the records of a partition from an offset on; none at the partition's end.

    max_bytes: of records; the first batch may exceed it.

    Raises:
      ClassicError: the partition's leader does not answer, or refuses.
    """
    known = cluster.metadata.topics.get(topic)
    if known is None:
        raise BrokerUnreachable(f"the source does not name {topic}.")
    partition = FetchPartition(index, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic, known.topic_id or bytes(16), [partition])]
    request = FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=_NO_SESSION,
        topics=topics,
    )
    for attempt in range(MAX_TRIES):
        response: FetchResponse = await cluster.call_leader(topic, index, "Fetch", request)
        parts = [each for found in response.responses for each in found.partitions]
        if not parts:  # the broker throttles
            await trio.sleep(AGAIN_SECONDS)
            continue
        if parts[0].error_code:
            raise Refused(f"{topic}-{index} at offset {offset}", parts[0].error_code)
        is_late = not parts[0].records and parts[0].high_watermark > offset
        # an empty answer may mean that the broker waits for tiered storage
        if not is_late or attempt >= EMPTY_TRIES:
            return parts[0]
    raise Refused(f"{topic}-{index} at offset {offset}", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
