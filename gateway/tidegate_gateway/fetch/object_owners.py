"""Which gateway of a zone reads an object for all of them.  Pure.

Who wrote a WAL object has it in memory, and is the owner as long as it lives.  A segment belongs to
the gateway that is recommended to the zone's clients for its partition (placement.py): that is
where it is read.  All else is chosen by rendezvous hashing.  So everybody asks the same one without
a word about it.  Gateways may disagree for a while: that costs a GET.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.state.gateways import Gateway, GatewayTable
from tidegate_coordination.state.records.objects import ObjectName, SegmentName, WalName
from tidegate_coordination.state.topics import TopicTable

from ..zones.placement import recommend


def gateways_of(
    gateways: GatewayTable, zone: str, id_of: Callable[[str], str] = str
) -> list[Gateway]:
    """Return the gateways of a zone.  id_of: gives the id of a zone's name, see zone.id.map."""
    return [each for each in gateways.brokers() if id_of(each.zone) == id_of(zone)]


def lenders(gateways: Iterable[Gateway]) -> list[Gateway]:
    """Return those that others can ask."""
    return [each for each in gateways if each.endpoint(PEER_LISTENER) is not None]


class ObjectOwners:
    """The owners of all objects, as long as no gateway comes or goes.

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
        """Return who reads an object; None for nobody.

        is_suspect: tells of an incarnation whether it is left alone.
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
        """Return where the zone's clients read a partition; -1 where its topic is gone."""
        topic = self._topics.by_id.get(name.topic_id)
        if topic is None:
            return -1
        count = len(topic.partition_numbers)
        chosen = self._recommended.get(name.topic_id, [])
        if len(chosen) != count:
            if len(self._recommended) > 2 * len(self._topics.by_id) + 100:
                self._recommended.clear()  # mostly of deleted topics
            node_ids = [each.node_id for each in self._serving]
            chosen = self._recommended[name.topic_id] = recommend(name.topic_id, count, node_ids)
        return chosen[name.partition]
