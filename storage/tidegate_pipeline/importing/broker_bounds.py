"""Where the partitions of topics begin and end at the brokers of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.classic.metadata import topic_id_of
from tidegate_coordination.classic.source_bounds import EARLIEST, LATEST, Place, source_offsets
from tidegate_coordination.state.topics import Topic


class BrokerBounds:
    """See LookUp.  cluster_id: the source's."""

    def __init__(self, cluster: ClassicCluster, cluster_id: str) -> None:
        self._cluster = cluster
        self._cluster_id = cluster_id

    async def __call__(self, topics: Sequence[Topic]) -> Mapping[Place, tuple[int, int] | str]:
        """Ask; raises ClassicError where no broker answers."""
        if not topics:
            return {}
        await self._cluster.refresh([each.name for each in topics])
        found: dict[Place, tuple[int, int] | str] = {}
        asked: list[Place] = []
        for topic in topics:
            places = [(topic.name, index) for index in range(len(topic.partition_numbers))]
            text = self._obstacle(topic)
            found |= dict.fromkeys(places, text) if text else {}
            asked += [] if text else places
        firsts = await source_offsets(self._cluster, asked, EARLIEST)
        stops = await source_offsets(self._cluster, asked, LATEST)
        return found | {each: _bounds(firsts.get(each), stops.get(each)) for each in asked}

    def _obstacle(self, topic: Topic) -> str:
        known = self._cluster.metadata.topics.get(topic.name)
        if known is None or known.error_code:
            return "the source does not have the topic any more"
        if topic_id_of(known, self._cluster_id) != topic.topic_id:
            return "the source has another topic of this name now"
        return ""


def _bounds(first: int | str | None, stop: int | str | None) -> tuple[int, int] | str:
    if isinstance(first, int) and isinstance(stop, int):
        return first, stop
    return next((each for each in (first, stop) if isinstance(each, str)), "no broker answers")
