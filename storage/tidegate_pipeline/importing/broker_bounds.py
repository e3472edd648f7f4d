"""Where partitions begin and end at the brokers of the source, and the ends of their epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.client.source_bounds import EARLIEST, LATEST, Place, source_offsets
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


class BrokerBounds:
    """See SourceSide.  cluster_id: the source's."""

    def __init__(self, cluster: ClassicCluster, cluster_id: str) -> None:
        self._cluster = cluster
        self._cluster_id = cluster_id

    async def bounds(self, topics: Sequence[Topic]) -> Mapping[Place, tuple[int, int] | str]:
        """See SourceSide; raises ClassicError if no broker answers."""
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

    def obstacle(self, topic: Topic, index: int, end: int) -> str:
        """See SourceSide: brokers have their whole log."""
        return ""

    async def difference(self, topic: Topic, index: int, epoch_ends: Mapping[int, int]) -> str:
        """See SourceSide."""
        for epoch, end in sorted(epoch_ends.items()):
            known, theirs = await self._epoch_end(topic, index, epoch)
            if known >= 0 and (known < epoch or theirs < end):
                return (
                    f"the source lost records from offset {theirs} on in an unclean election, which"
                    " were imported: delete the copy with the link, and mirror anew"
                )
        return ""

    async def _epoch_end(self, topic: Topic, index: int, epoch: int) -> tuple[int, int]:
        """Return the source's highest epoch up to `epoch`, and its end; -1 if not known."""
        request = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic.name, [OffsetForLeaderPartition(index, leader_epoch=epoch)]
                )
            ]
        )
        answer: OffsetForLeaderEpochResponse = await self._cluster.call_leader(
            topic.name, index, "OffsetForLeaderEpoch", request
        )
        parts = [each for found in answer.topics for each in found.partitions]
        if not parts or parts[0].error_code:
            return -1, -1
        return parts[0].leader_epoch, parts[0].end_offset

    def _obstacle(self, topic: Topic) -> str:
        known = self._cluster.metadata.topics.get(topic.name)
        if known is None or known.error_code:
            return "the source does not have the topic any more"
        if topic_id_of(known, self._cluster_id) != topic.shown_id:
            return "the source has another topic of this name now"
        return ""


def _bounds(first: int | str | None, stop: int | str | None) -> tuple[int, int] | str:
    if isinstance(first, int) and isinstance(stop, int):
        return first, stop
    return next((each for each in (first, stop) if isinstance(each, str)), "no broker answers")
