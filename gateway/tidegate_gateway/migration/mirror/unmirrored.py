"""Finds the topics of a source that its link matches but does not mirror, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.metadata import Topic, topic_id_of
from tidegate_coordination.rules.migration.mirrors import MirrorTopics
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link

from .source_topics import linked_topics, wanted
from .topic_sync import configs_of

NO_CONFIGS: Final = (
    "the source does not show its configs: give the link's principal DESCRIBE_CONFIGS"
)


async def refused_topics(
    source: ClassicCluster, link: Link, state: ClusterState, names: Sequence[str] = ()
) -> dict[str, str]:
    """Return why topics are not mirrored, by name, according to the rule that gateways use.

    names: only these topics; empty for all that the link matches.  This refreshes the source's
    metadata.

    Raises:
      ClassicError: the source does not answer.
    """
    topics = [
        each
        for each in wanted(link, await source.refresh())
        if not _is_here(state, link, each) and (not names or each.name in names)
    ]
    configs = await configs_of(source, [each.name for each in topics])
    found = tuple(linked_topics(link, topics, configs))
    view = View(state, writer=0, clock_ms=0, log_time_ms=0)
    refused = {each.name: NO_CONFIGS for each in topics if each.name not in configs}
    answer = MirrorTopics(link.name, found).decide(view).answer
    return refused | {each.name: each.text for each in answer}


def _is_here(state: ClusterState, link: Link, topic: Topic) -> bool:
    """Return whether a topic is mirrored, or was switched to this cluster."""
    source_id = topic_id_of(topic, link.cluster_id)
    present = state.topics.by_shown_id.get(source_id)
    is_mirrored = present is not None and present.link == link.name
    topic_id = present.topic_id if present is not None else source_id
    return is_mirrored or topic_id in state.switches.switched
