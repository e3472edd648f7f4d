"""Reads a mirrored partition at its source and at a gateway, and compares both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import trio

from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.classic.errors import BrokerUnreachable, ClassicError, Refused
from tidegate_coordination.classic.source_bounds import EARLIEST, LATEST, source_offset
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
_NO_SESSION: Final = -1


async def compared(
    source: ClassicCluster,
    copy: ClassicCluster,
    topic: str,
    index: int,
    *,
    by_record: bool,
    on_bytes: Callable[[int], None],
) -> Comparison:
    """Compare a partition up to where both sides end now; the metadata of both know the topic.

    If one side cannot be read, the difference says so.
    """
    sides = (source, copy)
    try:
        starts = [await source_offset(each, topic, index, EARLIEST) for each in sides]
        ends = [await source_offset(each, topic, index, LATEST) for each in sides]
        comparison = Comparison(max(starts), min(ends), by_record)
        while (side := comparison.side) is not None:
            data = await fetched(sides[side], topic, index, comparison.position(side))
            records = cast("memoryview", data.records) if data.records else memoryview(b"")
            comparison.take(side, records)
            if side == SOURCE:
                on_bytes(len(records))
    except ClassicError as error:
        comparison = Comparison(0, 0, by_record)
        comparison.difference = str(error)
    return comparison


async def fetched(
    cluster: ClassicCluster,
    topic: str,
    index: int,
    offset: int,
    *,
    max_bytes: int = FETCH_BYTES,
) -> PartitionData:
    """Return what a partition has from an offset on; without records at its end.

    max_bytes: of records, but for one batch.

    Raises:
      ClassicError: its leader does not say.
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
        if not is_late or attempt >= EMPTY_TRIES:  # else it may wait for tiered storage
            return parts[0]
    raise Refused(f"{topic}-{index} at offset {offset}", ErrorCode.THROTTLING_QUOTA_EXCEEDED)
