"""Chooses the partitions of a link that a gateway mirrors.  Pure.

Gateways divide the partitions by rendezvous hashing, without messages.  While their replicas name
different gateways, two may mirror the same partition.  The rules of the log then accept the batches
of only one (mirrored_batches.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic


def candidates(state: ClusterState, without_store: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """Return the incarnations of the gateways that take new work.

    without_store: incarnations that cannot reach the object store; they are left out.  Gateways may
    learn this at different times.
    """
    found = (each.incarnation for each in state.gateways.brokers() if not each.draining)
    return tuple(sorted(each for each in found if each not in without_store))


def mirrored_by(
    state: ClusterState, link: str, me: int, gateways: tuple[int, ...]
) -> dict[int, tuple[Topic, int]]:
    """Return the partitions that a gateway mirrors, by number: topic and index of each.

    gateways: see candidates(); while all gateways drain, no partition is mirrored.
    """
    if not gateways:
        return {}
    return _share(mirrored_topics(state, link), me, gateways)


def mirrored_topics(state: ClusterState, link: str) -> list[Topic]:
    """Return the topics of a link to mirror; topics that are being returned to the source wait."""
    fence_of = state.switches.fence_of
    return [
        topic
        for topic in state.links.topics_of(link)
        if (fence := fence_of(topic.topic_id)) is None or not fence.is_back
    ]


def reversed_by(
    state: ClusterState, topic_ids: Iterable[bytes], me: int, gateways: tuple[int, ...]
) -> dict[int, tuple[Topic, int]]:
    """Return the partitions that a gateway writes back, by number: topic and index of each.

    topic_ids: of the topics that are written back.
    """
    if not gateways:
        return {}
    found = (state.topics.by_id.get(each) for each in topic_ids)
    return _share([each for each in found if each is not None], me, gateways)


def _share(
    topics: Iterable[Topic], me: int, gateways: tuple[int, ...]
) -> dict[int, tuple[Topic, int]]:
    return {
        number: (topic, index)
        for topic in topics
        for index, number in enumerate(topic.partition_numbers)
        if choose(topic.topic_id + index.to_bytes(4), gateways) == me
    }


def looks_after(link: str, me: int, gateways: tuple[int, ...]) -> bool:
    """Return whether a gateway is the one that compares the link's topics with the source."""
    return bool(gateways) and choose(link.encode(), gateways) == me
