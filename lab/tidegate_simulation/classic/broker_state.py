"""The state that the answers of one broker share: its place, its clock, its sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from tidegate_protocol.error_codes import ErrorCode

from .fetch_sessions import FetchSessions
from .model_cluster import ModelCluster
from .model_topics import ModelNode, ModelPartition, ModelTopic
from .refusals import Refused
from .signals import Signals
from .topic_settings import TopicSettings

NO_EPOCH = -1


class ConnectionClosed(Exception):
    """The broker closes the connection without an answer, as Kafka does."""


@dataclass(slots=True, eq=False)
class BrokerState:
    """A broker from its start to its stop.

    nursery: runs followers whose fetches take time.  start_ms: the wall clock at second 0 of Trio's
    clock.
    append_pause: seconds between the checks of a batch and its append; drawn for each batch.
    """

    cluster: ModelCluster
    node_id: int
    nursery: trio.Nursery
    signals: Signals
    sessions: FetchSessions
    start_ms: int
    append_pause: Callable[[], float]

    @property
    def node(self) -> ModelNode:
        """The broker's address and state."""
        return self.cluster.nodes[self.node_id]

    def now(self) -> float:
        """Seconds on Trio's clock."""
        return trio.current_time()

    def now_ms(self) -> int:
        """The wall clock."""
        return self.start_ms + int(trio.current_time() * 1000)

    def settings(self, topic: ModelTopic) -> TopicSettings:
        """Return a topic's settings as this broker sees them now."""
        return topic.configs.settings(self.node_id, self.now())

    def topic(self, name: str) -> ModelTopic:
        """Return a topic.

        Raises:
          Refused: UNKNOWN_TOPIC_OR_PARTITION.
        """
        found = self.cluster.topics.get(name)
        if found is None:
            raise _expected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def partition(self, name: str, index: int) -> ModelPartition:
        """Return a partition that exists, here or not.

        Raises:
          Refused: UNKNOWN_TOPIC_OR_PARTITION.
        """
        found = self.topic(name).partition(index)
        if found is None:
            raise _expected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def hosted(
        self, name: str, index: int, leader_epoch: int = NO_EPOCH, *, leads: bool = True
    ) -> ModelPartition:
        """Return a partition that this broker leads, or (leads=False) has a replica of.

        Raises:
          Refused: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or
            UNKNOWN_LEADER_EPOCH, in Kafka's order.
        """
        found = self.partition(name, index)
        if self.node_id not in found.replicas:
            raise _expected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader_epoch not in (NO_EPOCH, found.leader_epoch):
            is_old = leader_epoch < found.leader_epoch
            raise _expected(
                ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if leads and found.leader != self.node_id:
            raise _expected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def appended(self, partition: ModelPartition) -> None:
        """Let the followers fetch what was appended, now or after their delay."""
        end_offset = partition.log.end_offset
        if partition.replication_seconds and len(partition.isr) > 1:
            self.signals.notify(partition.key)
            self.nursery.start_soon(self._replicate, partition, end_offset)
        else:
            self.cluster.replicated(partition, end_offset)

    async def _replicate(self, partition: ModelPartition, end_offset: int) -> None:
        await trio.sleep(partition.replication_seconds)
        self.cluster.replicated(partition, end_offset)


@dataclass(frozen=True, slots=True)
class Asked:
    """The broker, the version and the client of one request."""

    broker: BrokerState
    version: int
    principal: str
    client_id: str | None

    def may(self, operation: str, resource: str, name: str = "*") -> bool:
        """Return whether the principal may do an operation."""
        return self.broker.cluster.rights.allows(self.principal, operation, resource, name)


def _expected(code: ErrorCode) -> Refused:
    return Refused(code, code.name, tells_log_start=False)
