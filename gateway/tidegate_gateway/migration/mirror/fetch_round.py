"""One fetch from a broker of the source: its request, and its answer by partition.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

from .partition import PartitionMirror

MAX_BYTES: Final = 8 << 20
PARTITION_BYTES: Final = 1 << 20
MIN_BYTES: Final = 256 << 10
MAX_WAITING_PARTITIONS: Final = 100
"""A broker looks at all partitions of a fetch that waits whenever one of them gets a batch, and
twice if none does; so it is spared to wait for more.
"""
_EPOCHS_SINCE: Final = 12
"""From this version of Fetch on, a source says where its history parts from the copy's."""
_NO_EPOCH: Final = -1
_NO_SESSION: Final = -1


def record_bytes(response: FetchResponse) -> int:
    """Return the bytes of records in an answer."""
    parts = (data.records for topic in response.responses for data in topic.partitions)
    return sum(len(each) for each in parts if each)


class Asked(NamedTuple):
    """A partition in a fetch.  position: the mirror's position at the time of the request."""

    mirror: PartitionMirror
    position: int

    @property
    def is_stale(self) -> bool:
        """Return whether the answer is useless, since the mirror has another position now."""
        return self.mirror.is_lost or self.mirror.position != self.position


def asked_now(mirrors: Sequence[PartitionMirror]) -> list[Asked]:
    """Return the partitions with their present positions."""
    return [Asked(each, each.position) for each in mirrors]


def is_polled(asked: Sequence[Asked]) -> bool:
    """Return whether to fetch without a wait at the source, and to wait between fetches instead."""
    return len(asked) > MAX_WAITING_PARTITIONS


def fetch_request(
    asked: Sequence[Asked],
    version: int,
    wait_seconds: float,
    max_bytes: int,
    min_bytes: int = MIN_BYTES,
) -> FetchRequest:
    """Return the request for these partitions, in their order.

    version: of Fetch.  max_bytes: of the answer, at most MAX_BYTES; brokers exceed this by at most
    one batch.

    The source answers once it has min_bytes, or after wait_seconds.  The default is MIN_BYTES, so
    that a mirror of slow partitions writes few runs.
    """
    topics: list[FetchTopic] = []
    for mirror, position in asked:
        if not topics or topics[-1].topic_id != mirror.topic.shown_id:
            topics.append(FetchTopic(topic_id=mirror.topic.shown_id, topic=mirror.topic.name))
        partition = FetchPartition(
            mirror.index,
            fetch_offset=position,
            last_fetched_epoch=mirror.epoch if version >= _EPOCHS_SINCE else _NO_EPOCH,
            partition_max_bytes=PARTITION_BYTES,
        )
        topics[-1].partitions.append(partition)
    return FetchRequest(
        max_wait_ms=int(wait_seconds * 1000),
        min_bytes=min_bytes,
        max_bytes=min(max_bytes, MAX_BYTES),
        session_epoch=_NO_SESSION,
        topics=topics,
    )


def answers(
    asked: Sequence[Asked], response: FetchResponse
) -> Iterator[tuple[Asked, PartitionData]]:
    """Yield each partition with its part of the answer; other parts are dropped."""
    is_named = any(topic.topic for topic in response.responses)  # before version 13
    known = {
        (
            each.mirror.topic.name if is_named else each.mirror.topic.shown_id,
            each.mirror.index,
        ): each
        for each in asked
    }
    for topic in response.responses:
        key = topic.topic if is_named else topic.topic_id
        for data in topic.partitions:
            found = known.get((key, data.partition_index))
            if found is not None:
                yield found, data
