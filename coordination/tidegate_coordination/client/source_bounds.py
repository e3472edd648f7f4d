"""Where partitions of the source begin and end: ListOffsets, one request for each leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

from .cluster import ClassicCluster
from .errors import ClassicError, Kind, Refused

TRIES: Final = 5
AGAIN_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.2
EARLIEST: Final = -2
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4
"""Where the part on the leader's own disks begins (KIP-405)."""
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
"""Brokers answer a consumer with the high watermark, and everyone else with the log's end."""
_UNCOMMITTED: Final = 0
_COMMITTED: Final = 1
# From version 1 on the answer is one offset.
_MIN_VERSION: Final = 1
_MIN_LOCAL_VERSION: Final = 8
Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


NO_LEADER: Final = "it has no leader"


class SourceEnd(NamedTuple):
    """Where a partition's log ends at its leader, replicated or not, and the leader's epoch."""

    offset: int
    leader_epoch: int


async def source_offset(cluster: ClassicCluster, topic: str, index: int, which: int) -> int:
    """Return the first offset of a partition, or the offset after its last record.

    which: EARLIEST, LATEST or EARLIEST_LOCAL.

    Raises:
      Unsupported: the source does not know EARLIEST_LOCAL.
      ClassicError: the source does not say.
    """
    least = _MIN_LOCAL_VERSION if which == EARLIEST_LOCAL else _MIN_VERSION
    answer: ListOffsetsResponse = await cluster.call_leader(
        topic, index, "ListOffsets", _request([(topic, index)], which), min_version=least
    )
    parts = [each for found in answer.topics for each in found.partitions]
    if not parts:
        raise Refused(f"{topic}-{index}", ErrorCode.UNKNOWN_SERVER_ERROR)
    data = parts[0]
    if data.error_code:
        raise Refused(f"{topic}-{index}", data.error_code)
    return data.offset


async def source_offsets(
    cluster: ClassicCluster, places: Iterable[Place], which: int
) -> Mapping[Place, int | str]:
    """Return the offset of each partition, or why the source does not say.

    The metadata must know the topics.
    """
    found: dict[Place, int | str] = {}
    for place, answer in (await _asked(cluster, places, which, _CONSUMER)).items():
        found[place] = answer if isinstance(answer, str) else answer.offset
    return found


async def stable_offsets(
    cluster: ClassicCluster, places: Iterable[Place]
) -> Mapping[Place, int | str]:
    """Return where the first open transaction of each partition begins, or its end without one; or
    why the source does not say.

    The metadata must know the topics.
    """
    answers = await _asked(cluster, places, LATEST, _CONSUMER, isolation=_COMMITTED)
    return {
        place: each if isinstance(each, str) else each.offset for place, each in answers.items()
    }


async def ends_for_consumers(
    cluster: ClassicCluster, places: Iterable[Place], *, is_committed: bool
) -> Mapping[Place, SourceEnd | str]:
    """Return where consumers may read to, or why the source does not say.

    is_committed: the last stable offset.  The metadata must know the topics.
    """
    isolation = _COMMITTED if is_committed else _UNCOMMITTED
    return await _asked(cluster, places, LATEST, _CONSUMER, isolation=isolation)


async def source_ends(
    cluster: ClassicCluster, places: Iterable[Place]
) -> Mapping[Place, SourceEnd | str]:
    """Return where each partition ends at its leader, or why the source does not say.

    Any replica answers, with its own end: refresh the metadata before, so that the leader is asked.
    """
    return await _asked(cluster, places, LATEST, _DEBUGGER)


def places_by_leader(
    cluster: ClassicCluster, places: Iterable[Place]
) -> tuple[Mapping[int, list[Place]], list[Place]]:
    """Return the partitions by the broker that leads them, and those without a leader, as far as
    the metadata knows.
    """
    by_leader: defaultdict[int, list[Place]] = defaultdict(list)
    without: list[Place] = []
    for topic, index in places:
        leader = cluster.metadata.leader_of(topic, index)
        if leader is None:
            without.append((topic, index))
        else:
            by_leader[leader].append((topic, index))
    return by_leader, without


async def _asked(
    cluster: ClassicCluster,
    places: Iterable[Place],
    which: int,
    asker: int,
    *,
    isolation: int = _UNCOMMITTED,
) -> Mapping[Place, SourceEnd | str]:
    """Ask the leaders; if one no longer leads a partition, ask its new leader.

    There are up to TRIES tries, but none after AGAIN_SECONDS, because a broker may be silent.
    """
    found: dict[Place, SourceEnd | str] = {}
    left = list(places)
    latest = trio.current_time() + AGAIN_SECONDS
    for _ in range(TRIES):
        answers = await _asked_once(cluster, left, which, asker, isolation)
        left = [place for place, each in answers.items() if _may_have_moved(each)]
        for place, each in answers.items():
            found[place] = str(each) if isinstance(each, ClassicError) else each
        if not left or trio.current_time() >= latest:
            break
        await trio.sleep(PAUSE_SECONDS)
        with trio.move_on_at(latest), suppress(ClassicError):
            await cluster.refresh({topic for topic, _ in left})
    return found


def _may_have_moved(answer: SourceEnd | str | ClassicError) -> bool:
    return isinstance(answer, ClassicError) and answer.kind is Kind.RETRIABLE


async def _asked_once(
    cluster: ClassicCluster, places: Iterable[Place], which: int, asker: int, isolation: int
) -> Mapping[Place, SourceEnd | str | ClassicError]:
    found: dict[Place, SourceEnd | str | ClassicError] = {}
    by_leader, without = places_by_leader(cluster, places)
    found |= dict.fromkeys(without, NO_LEADER)
    for node_id, theirs in by_leader.items():
        request = _request(theirs, which, asker, isolation)
        try:
            connection = await cluster.connection(node_id)
            answer: ListOffsetsResponse = await connection.call(
                "ListOffsets", request, min_version=_MIN_VERSION
            )
        except ClassicError as error:
            found |= dict.fromkeys(theirs, error)
            continue
        for topic_data in answer.topics:
            for data in topic_data.partitions:
                end: SourceEnd | ClassicError = SourceEnd(data.offset, data.leader_epoch)
                if data.error_code:
                    end = Refused("ListOffsets", data.error_code)
                found[topic_data.name, data.partition_index] = end
    return found


def _request(
    places: Iterable[Place], which: int, asker: int = _CONSUMER, isolation: int = _UNCOMMITTED
) -> ListOffsetsRequest:
    by_topic: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, index in places:
        by_topic[topic].append(ListOffsetsPartition(index, timestamp=which))
    topics = [ListOffsetsTopic(name, partitions) for name, partitions in by_topic.items()]
    return ListOffsetsRequest(asker, isolation, topics=topics)
