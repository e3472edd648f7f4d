"""Divides names into those of a link and those of this cluster.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidegate_coordination.client.metadata import Topic, topic_id_of
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.migration.source_groups import is_named

from ..carry.acl_notes import OwnNames
from .looking import obstacle_of


class LinkTopics(NamedTuple):
    """The names of a link's topics, including topics that are not mirrored yet or are switched.

    taken: topics of the source that the link cannot mirror, and why.  A topic here with such a name
    is another topic.
    """

    names: frozenset[str]
    taken: dict[str, str]


def link_topics(state: ClusterState, link: Link, theirs: Iterable[Topic]) -> LinkTopics:
    """Return the link's topics.  theirs: the topics of the source that its patterns match."""
    names = {each.name for each in state.links.topics_of(link.name)}
    taken: dict[str, str] = {}
    for topic in theirs:
        obstacle = "" if _is_here(state, link, topic) else obstacle_of(state, link, topic)
        if obstacle:
            taken[topic.name] = obstacle
        else:
            names.add(topic.name)
    return LinkTopics(frozenset(names), taken)


def _is_here(state: ClusterState, link: Link, topic: Topic) -> bool:
    """Return whether the topic itself is here, mirrored by the link or switched."""
    present = state.topics.by_shown_id.get(topic_id_of(topic, link.cluster_id))
    return present is not None and present.name == topic.name and present.link in ("", link.name)


def own_names(state: ClusterState, link: Link, topics: frozenset[str]) -> OwnNames:
    """Return the names here that do not belong to the link.  topics: those of the link."""
    groups = (each.group_id for each in state.groups)
    ids = state.transactions.names()
    return OwnNames(
        sorted(each for each in state.topics.by_name if each not in topics),
        sorted(each for each in groups if not is_named(link.groups, each)),
        sorted(each for each in ids if not is_named(link.transactional_ids, each)),
        link.groups,
        link.transactional_ids,
    )
