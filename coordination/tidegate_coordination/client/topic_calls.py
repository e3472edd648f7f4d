"""Calls about topics: those of the commands `tidegate topic`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidegate_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidegate_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidegate_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tidegate_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

from .cluster import ClassicCluster
from .errors import Refused
from .failed import Failed
from .metadata import Topic
from .source_bounds import EARLIEST, LATEST, source_offsets

TIMEOUT_MS: Final = 30_000
BROKERS_CHOICE: Final = -1
"""A number of partitions or replicas that is left to the cluster (KIP-464)."""
_CHOICE_FROM: Final = 4
_BY_ID_FROM: Final = 6
# Kafka's numbers: a type of resource, operations, a source of configs.  rules.configs has them, but
# a command would import much for it.
_TOPIC: Final = 2
_SET: Final = 0
_DELETE: Final = 1
_OF_TOPIC: Final = 1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to make.  partitions, replicas: may be BROKERS_CHOICE."""

    name: str
    partitions: int = BROKERS_CHOICE
    replicas: int = BROKERS_CHOICE
    configs: Mapping[str, str] = field(default_factory=dict[str, str])


class Config(NamedTuple):
    """A config of a topic.  value: None if it is secret.  is_own: the topic's own, no default."""

    name: str
    value: str | None
    is_own: bool


class PartitionFacts(NamedTuple):
    """A partition.

    start, end: its log start offset and end offset; None, and problem set, if the leader does not
    say.
    """

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int | None
    end: int | None
    problem: str = ""


async def create(cluster: ClassicCluster, topic: NewTopic) -> int | None:
    """Make a topic; return how many partitions it has.

    None: the cluster chose, and does not say (before Kafka 2.4, or without DESCRIBE_CONFIGS).

    Raises:
      Failed: the cluster refuses it.
      ClassicError: it does not answer.
    """
    configs = [CreatableTopicConfig(name, value) for name, value in topic.configs.items()]
    asked = CreatableTopic(topic.name, topic.partitions, topic.replicas, configs=configs)
    answer: CreateTopicsResponse = await cluster.call_controller(
        "CreateTopics",
        CreateTopicsRequest([asked], TIMEOUT_MS),
        min_version=_CHOICE_FROM if BROKERS_CHOICE in (topic.partitions, topic.replicas) else 0,
        wait_seconds=TIMEOUT_MS / 1000,
    )
    result = answer.topics[0]
    _check(f"topic {topic.name}", result.error_code, result.error_message)
    counts = (result.num_partitions, topic.partitions)
    return next((each for each in counts if each > 0), None)


def _check(what: str, code: int, message: str | None) -> None:
    if code:
        raise Failed(refusal(what, code, message))


def refusal(what: str, code: int, message: str | None = None) -> str:
    """Return a sentence about an error code.  message: the broker's own text."""
    if not message:
        return str(Refused(what, code))
    name = ErrorCode(code).name if code in set(ErrorCode) else "error"
    return f"{what}: {name} ({code}). {message}"


def no_partition(topic: str, count: int, index: int) -> str:
    """Return a sentence about a partition that a topic does not have."""
    return f"{topic} has {count} partitions, from 0 on: there is no {index}"


async def delete(cluster: ClassicCluster, name: str) -> None:
    """Delete a topic, for good; raises as create()."""

    def request(version: int) -> DeleteTopicsRequest:
        if version >= _BY_ID_FROM:
            return DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=TIMEOUT_MS)
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)

    answer: DeleteTopicsResponse = await cluster.call_controller(
        "DeleteTopics", request, wait_seconds=TIMEOUT_MS / 1000
    )
    result = answer.responses[0]
    _check(f"topic {name}", result.error_code, result.error_message)


async def add_partitions(cluster: ClassicCluster, name: str, count: int) -> None:
    """Give a topic so many partitions; raises as create()."""
    asked = CreatePartitionsTopic(name, count, None)
    answer: CreatePartitionsResponse = await cluster.call_controller(
        "CreatePartitions",
        CreatePartitionsRequest([asked], TIMEOUT_MS),
        wait_seconds=TIMEOUT_MS / 1000,
    )
    result = answer.results[0]
    _check(f"topic {name}", result.error_code, result.error_message)


async def alter_configs(
    cluster: ClassicCluster, name: str, changed: Mapping[str, str], removed: Sequence[str]
) -> None:
    """Set configs of a topic, and remove others, all of them or none; raises as create()."""
    configs = [AlterableConfig(each, _SET, value) for each, value in changed.items()]
    configs += [AlterableConfig(each, _DELETE, None) for each in removed]
    answer: IncrementalAlterConfigsResponse = await cluster.call_controller(
        "IncrementalAlterConfigs",
        IncrementalAlterConfigsRequest([AlterConfigsResource(_TOPIC, name, configs)]),
    )
    result = answer.responses[0]
    _check(f"topic {name}", result.error_code, result.error_message)


async def topic_configs(cluster: ClassicCluster, name: str) -> list[Config]:
    """Return the configs of a topic, by name; raises as create()."""
    answer: DescribeConfigsResponse = await cluster.call_any(
        "DescribeConfigs", DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, name, None)])
    )
    result = answer.results[0]
    _check(f"the configs of topic {name}", result.error_code, result.error_message)
    return sorted(map(_config, result.configs))


def _config(told: DescribeConfigsResourceResult) -> Config:
    return Config(
        told.name, None if told.is_sensitive else told.value, told.config_source == _OF_TOPIC
    )


async def known_topic(cluster: ClassicCluster, name: str) -> Topic:
    """Return a topic that exists.

    Raises:
      Failed: no topic has this name.
      ClassicError: the cluster does not say.
    """
    await cluster.refresh([name])
    found = cluster.metadata.topics.get(name)
    code = found.error_code if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Failed(f"there is no topic {name}; see `tidegate topic list`")
    if found is None or code:
        raise Failed(refusal(f"topic {name}", code))
    return found


async def known_partitions(cluster: ClassicCluster, name: str) -> int:
    """Return how many partitions a topic has; raises as known_topic()."""
    return len((await known_topic(cluster, name)).partitions)


async def partition_facts(cluster: ClassicCluster, topic: Topic) -> list[PartitionFacts]:
    """Return the partitions of a topic that the metadata knows, in order.

    Raises:
      ClassicError: the cluster does not say.
    """
    places = [(topic.name, index) for index in sorted(topic.partitions)]
    starts = await source_offsets(cluster, places, EARLIEST)
    ends = await source_offsets(cluster, places, LATEST)
    found: list[PartitionFacts] = []
    for place in places:
        known, start, end = topic.partitions[place[1]], starts[place], ends[place]
        problem = next((each for each in (start, end) if isinstance(each, str)), "")
        found.append(
            PartitionFacts(
                known.index,
                known.leader_id,
                known.replicas,
                known.isr,
                start if isinstance(start, int) else None,
                end if isinstance(end, int) else None,
                problem,
            )
        )
    return found
