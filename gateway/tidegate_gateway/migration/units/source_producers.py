"""Asks the leaders of a source which producers they know (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import Refused, Unsupported
from tidegate_coordination.client.source_bounds import Place, places_by_leader
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)


async def source_producers(
    source: ClassicCluster, places: Iterable[Place]
) -> dict[Place, list[ProducerState]]:
    """Return the producers that the leaders of partitions know.

    The metadata must include the topics.

    Raises:
      Unsupported: the source is older than Kafka 2.8.
      ClassicError: the source does not say.
    """
    by_leader, without = places_by_leader(source, places)
    if without:
        raise Refused(f"{without[0][0]}-{without[0][1]}", ErrorCode.LEADER_NOT_AVAILABLE)
    found: dict[Place, list[ProducerState]] = {}
    for node_id, theirs in by_leader.items():
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for name, index in theirs:
            by_topic[name].append(index)
        request = DescribeProducersRequest([TopicRequest(*each) for each in by_topic.items()])
        answer: DescribeProducersResponse = await source.call_broker(
            node_id, "DescribeProducers", request
        )
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise Refused(f"producers of {topic.name}", each.error_code)
                found[topic.name, each.partition_index] = each.active_producers
    return found


async def open_at_source(source: ClassicCluster, places: Iterable[Place]) -> str:
    """Return which partition has an open transaction, for a person; "" if none has one.

    A copy does not show an open transaction whose records are below the log start.  A source before
    Kafka 2.8 does not show any.

    Raises:
      ClassicError: the source does not say.
    """
    try:
        producers = await source_producers(source, places)
    except Unsupported:
        return ""
    for (topic, index), known in producers.items():
        if any(each.current_txn_start_offset >= 0 for each in known):
            return f"{topic}-{index} has an open transaction at the source"
    return ""
