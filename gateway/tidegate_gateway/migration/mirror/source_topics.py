"""Compares the topics of a link with those of its source.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tidegate_coordination.client.metadata import ClusterMetadata, topic_id_of
from tidegate_coordination.client.metadata import Topic as SourceTopic
from tidegate_coordination.events.links import LinkedTopic
from tidegate_coordination.name_patterns import BadPattern, NamePattern
from tidegate_coordination.state.migration.links import Link
from tidegate_protocol.messages.describe_configs import DescribeConfigsResponse

from ...topics.internal_topics import INTERNAL_TOPICS

DYNAMIC_TOPIC_CONFIG: Final = 1
DEFAULT_CONFIG: Final = 5


class TopicPatterns:
    """The patterns of a link; a topic is mirrored if one matches its whole name.

    Kafka's internal topics are never mirrored.

    Raises:
      BadPattern: names the pattern.
    """

    def __init__(self, texts: tuple[str, ...]) -> None:
        for each in texts:
            _check(each)
        joined = "|".join(f"(?:{each})" for each in texts)
        self._pattern = _check(joined) if texts else None

    def matches(self, topic: str) -> bool:
        """Return whether a topic of the source is to be mirrored."""
        if topic in INTERNAL_TOPICS or self._pattern is None:
            return False
        return self._pattern.matches(topic)


def _check(text: str) -> NamePattern:
    try:
        return NamePattern(text)
    except BadPattern as error:
        raise BadPattern(f"{text!r} is no pattern of topics: {error}") from None


def wanted(link: Link, metadata: ClusterMetadata) -> list[SourceTopic]:
    """Return the topics of the source that the link mirrors, in the order of their names."""
    patterns = TopicPatterns(link.topics)
    found = (each for name, each in sorted(metadata.topics.items()) if patterns.matches(name))
    return [each for each in found if not each.is_internal and not each.error_code]


def linked_topics(
    link: Link, topics: Iterable[SourceTopic], configs: Mapping[str, dict[str, str]]
) -> Iterator[LinkedTopic]:
    """Return the topics in the form that the rules take.  configs: the set configs, by topic."""
    for topic in topics:
        if topic.name not in configs or not topic.partitions:
            continue
        replicas = max(len(each.replicas) for each in topic.partitions.values())
        yield LinkedTopic(
            topic_id_of(topic, link.cluster_id),
            topic.name,
            len(topic.partitions),
            max(replicas, 1),
            configs[topic.name],
        )


def set_configs(response: DescribeConfigsResponse) -> dict[str, dict[str, str]]:
    """Return the configs of each topic without an error, but not Kafka's defaults.

    The result includes configs that a topic has from the source's brokers, since this cluster's
    broker configs may differ.
    """
    return _configs(response, lambda source: source != DEFAULT_CONFIG)


def own_configs(response: DescribeConfigsResponse) -> dict[str, dict[str, str]]:
    """Return the configs that are set for each topic itself, for topics without an error."""
    return _configs(response, lambda source: source == DYNAMIC_TOPIC_CONFIG)


def _configs(
    response: DescribeConfigsResponse, takes: Callable[[int], bool]
) -> dict[str, dict[str, str]]:
    return {
        result.resource_name: {
            each.name: each.value
            for each in result.configs
            if takes(each.config_source) and each.value is not None
        }
        for result in response.results
        if not result.error_code
    }
