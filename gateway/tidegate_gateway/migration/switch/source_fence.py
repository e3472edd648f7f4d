"""The fence at the source: max.message.bytes=0, so that no leader takes a write to a topic.

The leader checks this limit for every produced batch, but not for batches that followers fetch.  A
probe shows whether the fence holds.  The probe is a batch with a wrong CRC: the leader answers
CORRUPT_MESSAGE while the topic is open, and MESSAGE_TOO_LARGE once it is fenced.  In both cases the
leader does not write the batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError, Refused
from tidegate_coordination.client.source_bounds import NO_LEADER, Place, places_by_leader
from tidegate_coordination.rules.configs import ResourceType
from tidegate_protocol.batches import CRC_POSITION
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidegate_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidegate_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidegate_protocol.records import Record, build_batch

from ..mirror.source_topics import own_configs

LIMIT: Final = "max.message.bytes"
FENCED_LIMIT: Final = "0"
TOPICS_A_REQUEST: Final = 200
PROBE_TIMEOUT_MS: Final = 1_000
_SET: Final = 0
_DELETE: Final = 1
_ACKS: Final = 1
_MIN_PRODUCE_VERSION: Final = 3


async def limits_of(cluster: ClassicCluster, names: Sequence[str]) -> dict[str, str]:
    """Return the max.message.bytes that is set for each topic itself; "" if it is not set.

    Topics that the source does not describe are left out.

    Raises:
      ClassicError: the source does not say.
    """
    found: dict[str, str] = {}
    for at in range(0, len(names), TOPICS_A_REQUEST):
        resources = [
            DescribeConfigsResource(ResourceType.TOPIC.value, each, [LIMIT])
            for each in names[at : at + TOPICS_A_REQUEST]
        ]
        answer = await cluster.call_any("DescribeConfigs", DescribeConfigsRequest(resources))
        found |= {name: own.get(LIMIT, "") for name, own in own_configs(answer).items()}
    return found


async def set_limits(
    cluster: ClassicCluster, limits: Mapping[str, str], *, is_trial: bool = False
) -> None:
    """Set max.message.bytes of topics; "" removes it.  is_trial: only check the rights.

    Raises:
      ClassicError: the source refused for at least one topic, or the outcome is unknown.  The
        caller may try again.
    """
    names, refused = list(limits), list[Refused]()
    for at in range(0, len(names), TOPICS_A_REQUEST):
        part = {each: limits[each] for each in names[at : at + TOPICS_A_REQUEST]}
        request = IncrementalAlterConfigsRequest(_resources(part), is_trial)
        answer: IncrementalAlterConfigsResponse = await cluster.call_any(
            "IncrementalAlterConfigs", request
        )
        refused += [
            Refused(f"the change of {LIMIT} of {each.resource_name}", each.error_code)
            for each in answer.responses
            if each.error_code
        ]
    if refused:
        raise refused[0]


def _resources(limits: Mapping[str, str]) -> list[AlterConfigsResource]:
    return [
        AlterConfigsResource(
            ResourceType.TOPIC.value,
            name,
            [AlterableConfig(LIMIT, _SET if limit else _DELETE, limit or None)],
        )
        for name, limit in limits.items()
    ]


async def unfenced(cluster: ClassicCluster, places: Iterable[Place]) -> dict[Place, str]:
    """Return the partitions that do not yet prove to be fenced, with their leaders' answers.

    The metadata must include the topics.
    """
    by_leader, without = places_by_leader(cluster, places)
    open_places = dict.fromkeys(without, NO_LEADER)
    for node_id, theirs in by_leader.items():
        try:
            open_places |= await _probed(cluster, node_id, theirs)
        except ClassicError as error:
            open_places |= dict.fromkeys(theirs, str(error))
    return open_places


async def _probed(
    cluster: ClassicCluster, node_id: int, places: Sequence[Place]
) -> dict[Place, str]:
    names = {topic.topic_id: name for name, topic in cluster.metadata.topics.items()}
    answer: ProduceResponse = await cluster.call_broker(
        node_id, "Produce", _probe(cluster, places), min_version=_MIN_PRODUCE_VERSION
    )
    found = dict.fromkeys(places, "its leader did not answer")
    for topic in answer.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for each in topic.partition_responses:
            is_fenced = each.error_code == ErrorCode.MESSAGE_TOO_LARGE
            found[name, each.index] = "" if is_fenced else _answered(each.error_code)
    return {place: text for place, text in found.items() if text}


def _answered(code: int) -> str:
    if code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE):
        return "its leader takes writes"
    return str(Refused("the probe", code))


def _probe(cluster: ClassicCluster, places: Sequence[Place]) -> Any:
    by_topic: defaultdict[str, list[PartitionProduceData]] = defaultdict(list)
    for name, index in places:
        by_topic[name].append(PartitionProduceData(index, PROBE))
    topics = [
        TopicProduceData(name, cluster.metadata.topics[name].topic_id or bytes(16), partitions)
        for name, partitions in by_topic.items()
    ]
    return ProduceRequest(None, _ACKS, PROBE_TIMEOUT_MS, topics)


def _corrupt_batch() -> memoryview:
    """Return a batch that no broker writes.  Its base offset is 0, to avoid INVALID_RECORD."""
    batch = bytearray(build_batch([Record(0, 0, None, b"probe", ())]))
    batch[CRC_POSITION] ^= 0xFF
    return memoryview(bytes(batch))


PROBE: Final = _corrupt_batch()
