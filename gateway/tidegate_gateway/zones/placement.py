"""Chooses the gateways that Metadata names as a partition's leader and as its replicas.

Any gateway serves any partition, so the choice only spreads the load and keeps traffic in its zone.
For a client, Metadata names the gateway recommended to the client's zone as leader.  If that zone
has no gateway, or is not known, Metadata names the gateway recommended to all zones.

Gateways are recommended by rendezvous hashing with bounded load.  In the order of its partitions,
each partition of a topic gets the gateway that scores highest for it and has room.  A gateway has
room while it leads less than 1.25 times the mean, rounded up.  So few partitions move when a
gateway comes or goes.  The bound applies to each topic separately, so a new topic does not change
the leaders of other topics.

Replicas and in-sync replicas are the same list of distinct live gateways: the leader, one gateway
of each other zone, then the remaining gateways in the order of node ids, from the leader's on.  The
list is cut to the replication factor of the request that created the topic.  This factor is only a
label, and Kafka's clients accept no duplicates.  So if fewer gateways live, the list is shorter;
`kafka-topics` then shows the smaller number as ReplicationFactor.  Both lists always have the same
length, so no partition looks under-replicated.  CreateTopics answers the factor of its request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, TypeVar

from tidegate_coordination.placement.rendezvous import choose

NO_LEADER = -1
_Item = TypeVar("_Item", int, str)


class Placement(NamedTuple):
    """The node ids that Metadata names for a partition.

    leader: NO_LEADER if there is no gateway.  replicas: the leader first; do not change the list.
    to_produce: all gateways of the client's zone, the leader first; empty if its zone has none.
    """

    leader: int
    replicas: list[int]
    to_produce: list[int]


def recommend(topic_id: bytes, partition_count: int, node_ids: Sequence[int]) -> list[int]:
    """Return the gateway for each partition of a topic; NO_LEADER if there is no gateway."""
    return list(recommend_each(topic_id, partition_count, node_ids))


def recommend_each(topic_id: bytes, partition_count: int, node_ids: Sequence[int]) -> Iterator[int]:
    """Yield the same as recommend(), for a caller that lets other tasks run meanwhile."""
    if not node_ids:
        yield from repeat(NO_LEADER, partition_count)
        return
    bound = most_of(partition_count, len(node_ids))
    held: Counter[int] = Counter()
    with_room = list(node_ids)
    for index in range(partition_count):
        node_id = choose(topic_id + index.to_bytes(4, "big"), with_room)
        yield node_id
        held[node_id] += 1
        if held[node_id] == bound:
            with_room.remove(node_id)


def most_of(partition_count: int, gateway_count: int) -> int:
    """Return how many partitions of a topic one gateway leads at most.

    That is 1.25 times the mean, rounded up.
    """
    return -(-5 * partition_count // (4 * gateway_count))


def place(
    leader: int,
    of_zones: Mapping[str, int],
    zone_of: Mapping[int, str],
    replication_factor: int,
    *,
    to_produce: Sequence[int],
) -> Placement:
    """Place one partition.

    of_zones: zone -> the gateway recommended to it, sorted by zone.  zone_of: node id -> zone, of
    all possible replicas, sorted by node id.  Nodes that are not in the values of of_zones may be
    gateways that do not answer.  to_produce: the gateways of the client's zone, sorted by node id.
    """
    if leader == NO_LEADER:
        return Placement(NO_LEADER, [], [])
    elsewhere = _from_on(list(of_zones), zone_of[leader])[1:]
    node_ids = _from_on(list(zone_of), leader)
    in_order = dict.fromkeys([leader, *(of_zones[zone] for zone in elsewhere), *node_ids])
    nearby = _from_on(list(to_produce), leader) if to_produce else []
    return Placement(leader, list(in_order)[:replication_factor], nearby)


def _from_on(items: list[_Item], first: _Item) -> list[_Item]:
    position = items.index(first)
    return items[position:] + items[:position]
