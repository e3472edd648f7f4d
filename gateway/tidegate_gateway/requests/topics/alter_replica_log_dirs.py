"""AlterReplicaLogDirs: versions 1-2.

Differs from Kafka: DescribeLogDirs names one directory, and all partitions are in it.  So a move to
this directory succeeds at once, and any other directory gets LOG_DIR_NOT_FOUND.  A broker without
the replica answers REPLICA_NOT_AVAILABLE; a gateway never does, since any gateway serves any
partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_replica_log_dirs as wire
from tidegate_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

from ...network.call import Call
from .describe_log_dirs import LOG_DIR
from .known_partitions import partition_exists


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsHandler:
    """Answers AlterReplicaLogDirs requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.ALTER_REPLICA_LOG_DIRS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: AlterReplicaLogDirsRequest
    ) -> AlterReplicaLogDirsResponse:
        """Answer each partition once, with one row per topic, even if a request repeats them."""
        await self.coordinator.catch_up()
        results = [
            AlterReplicaLogDirTopicResult(
                name,
                [
                    AlterReplicaLogDirPartitionResult(index, self._code(name, index, path))
                    for index, path in paths.items()
                ],
            )
            for name, paths in _paths(request).items()
        ]
        return AlterReplicaLogDirsResponse(results=results)

    def _code(self, name: str, index: int, path: str) -> ErrorCode:
        if path != LOG_DIR:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not partition_exists(self.coordinator.state.topics, name, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE


def _paths(request: AlterReplicaLogDirsRequest) -> dict[str, dict[int, str]]:
    """Return the wanted directory of each partition; as in Kafka, the last one counts."""
    paths: dict[str, dict[int, str]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            paths.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, log_dir.path))
    return paths
