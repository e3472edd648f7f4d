"""DescribeLogDirs: versions 1-5.

The answer has one directory, which stands for the object store.  A gateway lists the partitions of
which Metadata shows it as a replica.  So tools that add up all brokers count each partition once
per replica in Metadata.  Sizes are the bytes of all live batches; the store's capacity is unknown
(-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from ...network.turns import Turns
from ...zones.cluster_view import ClusterView
from ...zones.placement import Placement

LOG_DIR = "/object-store"


@dataclass(frozen=True, slots=True)
class DescribeLogDirsHandler:
    """node_id: the node id of this gateway."""

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
        view = self.cluster_view.of(call.peer.listener)
        for name, asked in self._asked(request):
            topic = by_name.get(name)
            if topic is not None:
                placements = await view.placements_in_turns(topic, turns)
                partitions = await self._partitions(topic, asked, placements, turns)
                if partitions:
                    rows.append(DescribeLogDirsTopic(name, partitions))
            await turns.count()
        result = DescribeLogDirsResult(log_dir=LOG_DIR, topics=rows)
        return DescribeLogDirsResponse(results=[result])

    def _asked(self, request: DescribeLogDirsRequest) -> Iterator[tuple[str, list[int] | None]]:
        """Yield topic names with the requested partitions; None stands for all partitions."""
        if request.topics is None:
            return ((name, None) for name in tuple(self.coordinator.state.topics.by_name))
        return ((each.topic, each.partitions) for each in request.topics)

    async def _partitions(
        self,
        topic: Topic,
        asked: list[int] | None,
        placements: Sequence[Placement],
        turns: Turns,
    ) -> list[DescribeLogDirsPartition]:
        """Return the partitions that exist; none if the topic was deleted meanwhile."""
        rows: list[DescribeLogDirsPartition] = []
        for index in range(len(placements)) if asked is None else asked:
            if 0 <= index < len(placements) and self.node_id in placements[index].replicas:
                found = self.coordinator.state.partitions.get(topic.partition_numbers[index])
                if found is None:
                    return []
                rows.append(DescribeLogDirsPartition(index, found.size_bytes))
            await turns.count()
        return rows
