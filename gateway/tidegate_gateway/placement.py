"""Which gateway a partition's clients are sent to, and who is shown as its replicas.

Any gateway serves any partition, so this only spreads the load: rendezvous hashing moves few
partitions when a gateway comes or goes.

Replicas and in-sync replicas are the same list of distinct live gateways: the leader, then those
that follow it in the order of node ids, cut to the replication factor that was asked for.  The
factor is a label, and Kafka's clients take no duplicates, so the list is shorter where fewer
gateways live; `kafka-topics` then shows that smaller number as ReplicationFactor.  No partition
looks under-replicated, since both lists are always as long as each other.  CreateTopics answers the
factor that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegate_coordination.rendezvous import choose

NO_LEADER = -1


class Placement(NamedTuple):
    """leader: NO_LEADER where nobody can be.  replicas: the leader first; do not change it."""

    leader: int
    replicas: list[int]


def place(
    partition: tuple[bytes, int], node_ids: Sequence[int], replication_factor: int
) -> Placement:
    """Place a partition (topic id, index) on gateways.

    node_ids: sorted, of those that take new work.
    """
    if not node_ids:
        return Placement(NO_LEADER, [])
    topic_id, index = partition
    leader = choose(topic_id + index.to_bytes(4, "big"), node_ids)
    first = node_ids.index(leader)
    count = min(replication_factor, len(node_ids))
    return Placement(leader, [node_ids[(first + step) % len(node_ids)] for step in range(count)])
