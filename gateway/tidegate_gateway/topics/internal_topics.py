"""Topics that Kafka keeps for itself.

Tidegate keeps group offsets in the metadata log, not in a topic.  Clients and tools still expect to
see `__consumer_offsets` once a group was looked for, so it is made then, as in Kafka, and stays
empty; clients may not write to it.
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
    """Return `__consumer_offsets` as it is to be made."""
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
    """Makes `__consumer_offsets` when it is first needed."""

    def __init__(
        self, coordinator: Coordinator, settings: BrokerSettings, new_topic_id: Callable[[], bytes]
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._new_topic_id = new_topic_id

    async def ensure(self) -> None:
        """See that the topic exists.

        Raises:
          CoordinatorUnavailable, ProposalFailed: it may not.
        """
        if OFFSETS_TOPIC in self._coordinator.state.topics.by_name:
            return
        topic = offsets_topic(self._settings, self._new_topic_id())
        (answer,) = await create_topics(self._coordinator, self._settings, [topic])
        made = OFFSETS_TOPIC in self._coordinator.state.topics.by_name
        if isinstance(answer, Refused) and not made:
            _log.warning("could not make a topic", topic=OFFSETS_TOPIC, reason=str(answer))
