"""Which partitions of a link a gateway mirrors.  Pure.

Gateways share them by rendezvous hashing, without talk.  While they know different gateways, two
may mirror the same partition; the rules let only one write (mirrored_batches.py).
"""

from __future__ import annotations

from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic


def candidates(state: ClusterState) -> tuple[int, ...]:
    """Return the incarnations of the gateways that take new work."""
    return tuple(sorted(each.incarnation for each in state.gateways.brokers() if not each.draining))


def mirrored_by(
    state: ClusterState, link: str, me: int, gateways: tuple[int, ...]
) -> dict[int, tuple[Topic, int]]:
    """Return topic and index of the partitions that a gateway mirrors, by number.

    gateways: see candidates(); while all of them drain, no partition is mirrored.
    """
    if not gateways:
        return {}
    return {
        number: (topic, index)
        for topic in state.links.topics_of(link)
        for index, number in enumerate(topic.partition_numbers)
        if choose(topic.topic_id + index.to_bytes(4), gateways) == me
    }


def looks_after(link: str, me: int, gateways: tuple[int, ...]) -> bool:
    """Return whether a gateway compares the link's topics with the source."""
    return bool(gateways) and choose(link.encode(), gateways) == me
