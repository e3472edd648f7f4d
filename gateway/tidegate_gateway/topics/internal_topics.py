"""Kafka's internal topics.

Tidegate keeps group offsets and transactions in the metadata log, not in topics.  But clients and
tools expect to see `__consumer_offsets` after the first FindCoordinator of a group, and
`__transaction_state` after that of a transactional id.  So the gateway creates them at that time,
as Kafka does.  `__consumer_offsets` can be read (decision 38), and `__transaction_state` stays
empty.  Clients cannot write to either topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.rules.topics import NewTopic, Refused
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC

from ..settings.broker_settings import BrokerSettings
from .topic_creation import create_topics

TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})

_log = structlog.get_logger("tidegate.topics")


def offsets_topic(settings: BrokerSettings, topic_id: bytes) -> NewTopic:
    """Return `__consumer_offsets` as a topic to create."""
    return NewTopic(
        topic_id,
        OFFSETS_TOPIC,
        settings.int("offsets.topic.num.partitions"),
        settings.int("offsets.topic.replication.factor"),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": settings.text("offsets.topic.segment.bytes"),
        },
    )


def transactions_topic(settings: BrokerSettings, topic_id: bytes) -> NewTopic:
    """Return `__transaction_state` as a topic to create."""
    return NewTopic(
        topic_id,
        TRANSACTIONS_TOPIC,
        settings.int("transaction.state.log.num.partitions"),
        settings.int("transaction.state.log.replication.factor"),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": settings.text("transaction.state.log.min.isr"),
            "segment.bytes": settings.text("transaction.state.log.segment.bytes"),
            "unclean.leader.election.enable": "false",
        },
    )


_MAKE: Final = {OFFSETS_TOPIC: offsets_topic, TRANSACTIONS_TOPIC: transactions_topic}


class InternalTopics:
    """Creates an internal topic when it is first needed."""

    def __init__(
        self, coordinator: Coordinator, settings: BrokerSettings, new_topic_id: Callable[[], bytes]
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._new_topic_id = new_topic_id

    async def ensure(self, name: str) -> None:
        """Create the topic if it does not exist.

        A failure is only logged, since no request needs the topic.
        """
        if name in self._coordinator.state.topics.by_name:
            return
        topic = _MAKE[name](self._settings, self._new_topic_id())
        try:
            (answer,) = await create_topics(self._coordinator, self._settings, [topic])
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not make a topic", topic=name, reason=str(error))
            return
        made = name in self._coordinator.state.topics.by_name
        if isinstance(answer, Refused) and not made:
            _log.warning("could not make a topic", topic=name, reason=str(answer))
