"""Finds the broker to which a batch to a mirrored topic is forwarded.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic

from ..links import RunningLink


class Obstacle(Enum):
    """Why a batch cannot be forwarded now; the text is for people."""

    ON_HOLD = "the link is on hold, since the metadata log was restored"
    AWAY = "this gateway does not reach the source of the topic"
    UNKNOWN = "the source does not name a leader"


class Route(NamedTuple):
    """A broker of a source."""

    link: RunningLink
    cluster: ClassicCluster
    node_id: int


def is_forwarded(state: ClusterState, topic: Topic) -> bool:
    """Return whether gateways forward writes to a topic."""
    link = state.links.by_name.get(topic.link) if topic.link else None
    return link is not None and link.forwards


def is_kept_waiting(state: ClusterState, topic: Topic) -> bool:
    """Return whether a fence holds a mirrored topic."""
    return bool(topic.link) and state.switches.fence_of(topic.topic_id) is not None


def is_beyond_switch(state: ClusterState, topic_id: bytes, index: int, offset: int) -> bool:
    """Return whether an offset of the source comes after the switch of its topic.

    This cluster does not have such a record.
    """
    switched = state.switches.switched.get(topic_id)
    return switched is not None and not (
        index < len(switched.ends) and offset < switched.ends[index]
    )


def may_begin(
    state: ClusterState, running: Mapping[str, RunningLink], route: Route, topic_id: bytes
) -> bool:
    """Return whether a batch may still be sent by its route; a fence may have come meanwhile."""
    topic = state.topics.by_id.get(topic_id)
    return (
        topic is not None
        and is_forwarded(state, topic)
        and state.switches.fence_of(topic_id) is None
        and topic.link not in state.switches.on_hold
        and running.get(topic.link) is route.link
        and route.link.forwards_to is route.cluster
    )


def may_write_as(
    state: ClusterState, route: Route, transactional_id: str | None, passes: int
) -> bool:
    """Return whether batches of a transactional id may be sent; True without an id.

    passes: see TransactionForwards.admitted().
    """
    if transactional_id is None:
        return True
    table = state.link_groups
    if table.link_of_id(transactional_id) != route.link.link.name:
        return False
    fence = table.fence_of_id(transactional_id)
    return fence is None or fence.number == passes


def route_to(
    state: ClusterState, running: Mapping[str, RunningLink], topic: Topic, index: int
) -> Route | Obstacle:
    """Return the broker that leads a partition at the source, by the known metadata."""
    if topic.link in state.switches.on_hold:
        return Obstacle.ON_HOLD
    link = running.get(topic.link)
    if link is None or link.forwards_to is None:
        return Obstacle.AWAY
    metadata = link.forwards_to.metadata
    known = metadata.topics.get(topic.name)
    if known is None or topic_id_of(known, link.link.cluster_id) != topic.shown_id:
        return Obstacle.UNKNOWN
    partition = known.partitions.get(index)
    if partition is None or partition.leader_id not in metadata.brokers:
        return Obstacle.UNKNOWN
    return Route(link, link.forwards_to, partition.leader_id)
