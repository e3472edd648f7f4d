"""Kafka's internal topics.

Tidegate keeps group offsets in the metadata log, not in a topic.  But clients and tools expect to
see `__consumer_offsets` after the first FindCoordinator of a group.  So the gateway creates it
then, as Kafka does.  The topic stays empty, and clients may not write to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.topics import NewTopic, Refused

from ..settings.broker_settings import BrokerSettings
from .topic_creation import create_topics

OFFSETS_TOPIC: Final = "__consumer_offsets"
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


class OffsetsTopic:
    """Creates `__consumer_offsets` when it is first needed."""

    def __init__(
        self, coordinator: Coordinator, settings: BrokerSettings, new_topic_id: Callable[[], bytes]
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._new_topic_id = new_topic_id

    async def ensure(self) -> None:
        """Create the topic if it does not exist.

        Raises:
          CoordinatorUnavailable, ProposalFailed: it may not exist.
        """
        if OFFSETS_TOPIC in self._coordinator.state.topics.by_name:
            return
        topic = offsets_topic(self._settings, self._new_topic_id())
        (answer,) = await create_topics(self._coordinator, self._settings, [topic])
        made = OFFSETS_TOPIC in self._coordinator.state.topics.by_name
        if isinstance(answer, Refused) and not made:
            _log.warning("could not make a topic", topic=OFFSETS_TOPIC, reason=str(answer))
