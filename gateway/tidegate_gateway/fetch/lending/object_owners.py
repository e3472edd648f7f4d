"""Chooses the gateway of a zone that reads an object for all gateways of the zone.  Pure.

The owner of a WAL object is the gateway that wrote it and has it in memory, as long as this gateway
is live.  The owner of a segment is the gateway that is recommended to the zone's clients for the
partition (placement.py), since these clients read the segment there.  Rendezvous hashing chooses
the owner of all other objects.  So all gateways choose the same owner without messages.  While
their replicas differ, gateways may choose different owners, which only costs a GET.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.state.records.objects import ObjectName, SegmentName, WalName
from tidegate_coordination.state.topics import TopicTable
from tidegate_coordination.state.writers.gateways import Gateway, GatewayTable

from ...zones.placement import recommend


def gateways_of(
    gateways: GatewayTable, zone: str, id_of: Callable[[str], str] = str
) -> list[Gateway]:
    """Return the gateways of a zone.

    id_of: maps a zone's name to its id, see zone.id.map.
    """
    return [each for each in gateways.brokers() if id_of(each.zone) == id_of(zone)]


def lenders(gateways: Iterable[Gateway]) -> list[Gateway]:
    """Return the gateways that other gateways can ask."""
    return [each for each in gateways if each.endpoint(PEER_LISTENER) is not None]


class ObjectOwners:
    """Knows the owners of all objects; valid until a gateway joins or leaves.

    near: see lenders().
    """

    def __init__(self, near: Sequence[Gateway], topics: TopicTable) -> None:
        self.near = near
        self._topics = topics
        self._serving = [each for each in near if not each.draining] or near
        self._recommended: dict[bytes, list[int]] = {}

    def owner(
        self, name: ObjectName, object_key: str, is_suspect: Callable[[int], bool]
    ) -> Gateway | None:
        """Return the gateway that reads an object; None if there is none.

        is_suspect: returns whether an incarnation must not be asked now.
        """
        able = {each.node_id: each for each in self._serving if not is_suspect(each.incarnation)}
        if isinstance(name, WalName):
            for each in self.near:
                if each.incarnation == name.incarnation and not is_suspect(name.incarnation):
                    return each
        elif (found := able.get(self._reader(name))) is not None:
            return found
        return able[choose(object_key.encode(), list(able))] if able else None

    def _reader(self, name: SegmentName) -> int:
        """Return the gateway where the zone's clients read a partition; -1 if its topic is gone."""
        topic = self._topics.by_id.get(name.topic_id)
        if topic is None:
            return -1
        count = len(topic.partition_numbers)
        chosen = self._recommended.get(name.topic_id, [])
        if len(chosen) != count:
            if len(self._recommended) > 2 * len(self._topics.by_id) + 100:
                self._recommended.clear()  # such objects mostly belong to deleted topics
            node_ids = [each.node_id for each in self._serving]
            chosen = self._recommended[name.topic_id] = recommend(name.topic_id, count, node_ids)
        return chosen[name.partition]
