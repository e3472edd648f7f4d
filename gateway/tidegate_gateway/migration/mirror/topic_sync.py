"""Keeps the topics of a link in line with those of its source: names, partitions, configs.

One gateway does this for each link.  If two do it for a while, the log's rules prevent double
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.events.links import LinkedTopic
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.rules.migration.mirrors import MirrorTopics, known_configs
from tidegate_coordination.rules.topics import MAX_PARTITIONS_PER_REQUEST
from tidegate_coordination.state.migration.links import Link
from tidegate_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

from .source_topics import linked_topics, set_configs, wanted

_log = structlog.get_logger("tidegate.links")

CONFIGS_A_REQUEST: Final = 200
PROPOSAL_BYTES: Final = 128 << 10
"""An entry of the log holds more."""
_TOPIC_BYTES: Final = 64


class TopicSync:
    """See the module's head.  refused: why topics of the source are not mirrored, by name."""

    def __init__(self, coordinator: Coordinator, link: Link, cluster: ClassicCluster) -> None:
        self.refused: dict[str, str] = {}
        self._coordinator = coordinator
        self._link = link
        self._cluster = cluster

    async def look(self) -> None:
        """Compare once, and propose the differences.

        Raises:
          ClassicError: the source does not answer.
          CoordinatorUnavailable: the log does not answer.
        """
        metadata = await self._cluster.refresh()
        topics = wanted(self._link, metadata)
        configs = await configs_of(self._cluster, [each.name for each in topics])
        found = [each for each in linked_topics(self._link, topics, configs) if self._is_new(each)]
        refused: dict[str, str] = {}
        for part in _portions(found):
            try:
                answer = await self._coordinator.propose(MirrorTopics(self._link.name, part))
                refused |= {each.name: each.text for each in answer}
            except ProposalFailed as error:
                refused |= {each.name: str(error) for each in part}
        self._tell(refused)

    def _is_new(self, topic: LinkedTopic) -> bool:
        present = self._coordinator.state.topics.by_shown_id.get(topic.source_id)
        if present is None or present.link != self._link.name:
            return True
        grew = len(present.partition_numbers) != topic.partition_count
        return grew or known_configs(topic.configs) != present.configs

    def _tell(self, refused: dict[str, str]) -> None:
        for name, text in refused.items():
            if self.refused.get(name) != text:
                _log.warning(
                    "a topic is not mirrored", link=self._link.name, topic=name, reason=text
                )
        self.refused = refused


async def configs_of(cluster: ClassicCluster, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the configs that are set for topics of the source.

    Raises:
      ClassicError: the source does not answer.
    """
    found: dict[str, dict[str, str]] = {}
    for at in range(0, len(names), CONFIGS_A_REQUEST):
        part = names[at : at + CONFIGS_A_REQUEST]
        resources = [DescribeConfigsResource(ResourceType.TOPIC.value, each) for each in part]
        request = DescribeConfigsRequest(resources)
        found |= set_configs(await cluster.call_any("DescribeConfigs", request))
    return found


def _portions(topics: Sequence[LinkedTopic]) -> list[tuple[LinkedTopic, ...]]:
    """Return the topics in groups, each small enough for one proposal."""
    groups: list[list[LinkedTopic]] = []
    room, bytes_left = 0, 0
    for each in topics:
        texts = [each.name, *each.configs, *each.configs.values()]
        size = _TOPIC_BYTES + sum(len(text.encode()) for text in texts)
        if not groups or each.partition_count > room or size > bytes_left:
            groups.append([])
            room, bytes_left = MAX_PARTITIONS_PER_REQUEST, PROPOSAL_BYTES
        groups[-1].append(each)
        room -= each.partition_count
        bytes_left -= size
    return [tuple(each) for each in groups]
