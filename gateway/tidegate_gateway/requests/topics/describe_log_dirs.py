"""DescribeLogDirs: versions 1-5.

One directory, which stands for the object store.  A gateway lists the partitions of which Metadata
shows it as a replica, so tools that add up all brokers count a partition as often as Metadata says.
Sizes are the bytes of all live batches; the store's capacity is unknown (-1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import describe_log_dirs as wire
from tidegate_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

from ...network.call import Call
from ...network.turns import PLACED_PARTITION, Turns
from ...zones.cluster_view import ClusterView

LOG_DIR = "/object-store"


@dataclass(frozen=True, slots=True)
class DescribeLogDirsHandler:
    """node_id: this gateway's."""

    coordinator: Coordinator
    cluster_view: ClusterView
    node_id: int
    api_key: ClassVar[int] = ApiKey.DESCRIBE_LOG_DIRS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Answer from the local state; partitions that do not exist are left out, as in Kafka."""
        turns = Turns()
        rows: list[DescribeLogDirsTopic] = []
        by_name = self.coordinator.state.topics.by_name
        for name, asked in self._asked(request):
            topic = by_name.get(name)
            if topic is None:
                continue
            indexes = range(len(topic.partition_numbers)) if asked is None else asked
            partitions = self._partitions(topic, indexes, call.peer.listener)
            if partitions:
                rows.append(DescribeLogDirsTopic(name, partitions))
            await turns.count(1 + PLACED_PARTITION * len(topic.partition_numbers))
        result = DescribeLogDirsResult(log_dir=LOG_DIR, topics=rows)
        return DescribeLogDirsResponse(results=[result])

    def _asked(self, request: DescribeLogDirsRequest) -> list[tuple[str, list[int] | None]]:
        """Return names and partitions; None for all of them."""
        if request.topics is None:
            return [(name, None) for name in self.coordinator.state.topics.by_name]
        return [(each.topic, each.partitions) for each in request.topics]

    def _partitions(
        self, topic: Topic, indexes: Iterable[int], listener: str
    ) -> list[DescribeLogDirsPartition]:
        placements = self.cluster_view.of(listener).placements(topic)
        partitions = self.coordinator.state.partitions
        return [
            DescribeLogDirsPartition(index, partitions[topic.partition_numbers[index]].size_bytes)
            for index in indexes
            if 0 <= index < len(placements) and self.node_id in placements[index].replicas
        ]
