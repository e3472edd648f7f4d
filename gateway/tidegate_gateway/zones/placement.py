"""Which gateway a partition's clients are sent to, and who is shown as its replicas.

Any gateway serves any partition, so this only spreads the load and keeps traffic in its zone.  The
leader that a client is told is the gateway recommended to its zone; without one there, or for a
client whose zone is not known, the one recommended to all.

Recommendation is rendezvous hashing with bounded load: the partitions of a topic choose one after
the other the gateway that scores highest for them and has room, that is less than 1.25 times the
mean, rounded up.  So few partitions move when a gateway comes or goes.  The bound is one of each
topic: what clients are told of a topic does not change when another one is created.

Replicas and in-sync replicas are the same list of distinct live gateways: the leader, one of each
other zone, then the rest in the order of node ids, cut to the replication factor that was asked
for.  The factor is a label, and Kafka's clients take no duplicates, so the list is shorter where
fewer gateways live; `kafka-topics` then shows that smaller number as ReplicationFactor.  No
partition looks under-replicated, since both lists are always as long as each other.  CreateTopics
answers the factor that was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from tidegate_coordination.placement.rendezvous import choose

NO_LEADER = -1
_Item = TypeVar("_Item", int, str)


class Placement(NamedTuple):
    """leader: NO_LEADER where nobody can be.  replicas: the leader first; do not change it.

    to_produce: all gateways of the client's zone, the leader first; empty if its zone has none.
    """

    leader: int
    replicas: list[int]
    to_produce: list[int]


def recommend(topic_id: bytes, partition_count: int, node_ids: Sequence[int]) -> list[int]:
    """Return the gateway for each partition of a topic; NO_LEADER where there are none."""
    if not node_ids:
        return [NO_LEADER] * partition_count
    bound = most_of(partition_count, len(node_ids))
    held: Counter[int] = Counter()
    with_room = list(node_ids)
    chosen: list[int] = []
    for index in range(partition_count):
        node_id = choose(topic_id + index.to_bytes(4, "big"), with_room)
        chosen.append(node_id)
        held[node_id] += 1
        if held[node_id] == bound:
            with_room.remove(node_id)
    return chosen


def most_of(partition_count: int, gateway_count: int) -> int:
    """Return how many partitions of a topic one gateway leads at most: 1.25 times the mean."""
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

    of_zones: zone -> its recommended gateway, by zone.  zone_of: by node id, of all that may be
    replicas; one that is in no value of of_zones may take no new work.  to_produce: of the client's
    zone, by node id.
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
