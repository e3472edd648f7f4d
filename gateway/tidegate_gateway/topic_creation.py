"""Creating topics in proposals that fit in an entry of the metadata log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.rules.topics import Created, CreateTopics, NewTopic, Refused

from .broker_settings import BrokerSettings
from .looks import Look, is_changed

ENTRY_SHARE = 4
"""Proposals take at most this part of an entry, since they travel together."""


async def create_topics(
    coordinator: Coordinator,
    settings: BrokerSettings,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool = False,
) -> list[Created | Refused]:
    """Create topics, or only say what would be.  result[i] belongs to topics[i].

    Raises:
      CoordinatorUnavailable: the outcome is unknown.
      ProposalFailed: the rest was not created.
    """
    look = Look(coordinator)
    look.check()

    def proposal(some: Sequence[NewTopic], seen: int) -> CreateTopics:
        return CreateTopics(
            some,
            default_partition_count=settings.int("num.partitions"),
            default_replication_factor=settings.int("default.replication.factor"),
            validate_only=validate_only,
            seen=seen,
        )

    answers: list[Created | Refused] = []
    for some in _parts(topics, coordinator.max_entry_bytes // ENTRY_SHARE):
        answers += await look.propose(some, proposal, is_changed)
    return answers


def _parts(topics: Sequence[NewTopic], max_bytes: int) -> Iterator[list[NewTopic]]:
    part: list[NewTopic] = []
    size_bytes = 0
    for topic in topics:
        each_bytes = _encoded_bytes(topic)
        if part and size_bytes + each_bytes > max_bytes:
            yield part
            part, size_bytes = [], 0
        part.append(topic)
        size_bytes += each_bytes
    if part:
        yield part


def _encoded_bytes(topic: NewTopic) -> int:
    """Return no less than what the topic takes in an entry; a character takes at most 4 bytes."""
    texts = sum(len(name) + len(text or "") + 4 for name, text in topic.configs.items())
    return 64 + 4 * (len(topic.name) + texts)
