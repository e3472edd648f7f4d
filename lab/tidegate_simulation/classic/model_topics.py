"""Topics, partitions and brokers of the model: plain data.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from .config_history import ConfigHistory
from .log.model_log import ModelLog

NO_LEADER: Final = -1


class PartitionKey(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int


@dataclass(slots=True, eq=False)
class ModelPartition:
    """A partition: one log for all replicas, of which the high watermark shows what all have.

    replication_seconds: how long followers need for a batch; 0 moves the high watermark at once.
    is_held: the high watermark stays until release_watermark().
    """

    key: PartitionKey
    replicas: list[int]
    isr: list[int]
    leader: int
    log: ModelLog = field(default_factory=ModelLog)
    replication_seconds: float = 0.0
    is_held: bool = False

    @property
    def leader_epoch(self) -> int:
        """The epoch in metadata."""
        return self.log.leader_epoch

    def set_leader(self, node_id: int) -> None:
        """Begin a new leader epoch."""
        self.leader = node_id
        self.log.begin_epoch(self.leader_epoch + 1)


@dataclass(slots=True, eq=False)
class ModelTopic:
    """A topic.  A topic of the same name that is made later has another id."""

    name: str
    topic_id: bytes
    configs: ConfigHistory
    partitions: list[ModelPartition] = field(default_factory=list[ModelPartition])
    is_internal: bool = False

    def partition(self, index: int) -> ModelPartition | None:
        """Return a partition, or None if there is none of this number."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(slots=True, eq=False)
class ModelNode:
    """A broker's address and state.  config_delay_seconds: how late it sees a change of configs."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_up: bool = True
    config_delay_seconds: float = 0.0


class CommittedOffset(NamedTuple):
    """The offset that a group committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str
