"""Creating topics in proposals that fit in an entry of the metadata log.

What one request may make is bounded for the request, however many proposals it takes: each gateway
holds all topics for good, and so does every snapshot.  And no proposal makes so many partitions
that folding it holds up the others for long; a topic comes to be as a whole, though (decision 26).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY_PARTITIONS,
    Created,
    CreateTopics,
    NewTopic,
    Refused,
    TopicRefusal,
)

from ..settings.broker_settings import BrokerSettings
from .looks import Look, is_changed

ENTRY_SHARE = 4
"""Proposals take at most this part of an entry, since they travel together."""
PARTITIONS_PER_PROPOSAL = 1_000
_TOO_MUCH = Refused(TopicRefusal.TOO_MUCH, TOO_MANY_PARTITIONS)


async def create_topics(
    coordinator: Coordinator,
    settings: BrokerSettings,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool = False,
) -> list[Created | Refused]:
    """Create topics, or only say what would be.  result[i] belongs to topics[i].

    Topics from the one on that would be beyond MAX_PARTITIONS_PER_REQUEST partitions are refused.

    Raises:
      CoordinatorUnavailable: the outcome is unknown.
      ProposalFailed: the rest was not created.
    """
    look = Look(coordinator)
    look.check()
    default_count = settings.int("num.partitions")

    def proposal(some: Sequence[NewTopic], seen: int) -> CreateTopics:
        return CreateTopics(
            some,
            default_partition_count=default_count,
            default_replication_factor=settings.int("default.replication.factor"),
            validate_only=validate_only,
            seen=seen,
        )

    answers: list[Created | Refused] = []
    room = MAX_PARTITIONS_PER_REQUEST
    for part in _parts(topics, coordinator.max_entry_bytes // ENTRY_SHARE, default_count):
        fitting = _fitting(part, default_count, room)
        made = await look.propose(fitting, proposal, is_changed) if fitting else []
        room -= sum(each.partition_count for each in made if isinstance(each, Created))
        if len(fitting) < len(part):
            room = 0  # and none behind it, be it ever so small
        answers += [*made, *[_TOO_MUCH] * (len(part) - len(fitting))]
    return answers


def _fitting(topics: list[NewTopic], default_count: int, room: int) -> list[NewTopic]:
    """Return the first topics: none behind one that the room is too small for."""
    fitting: list[NewTopic] = []
    for topic in topics:
        room -= _partition_count(topic, default_count)
        if room < 0:
            break
        fitting.append(topic)
    return fitting


def _parts(
    topics: Sequence[NewTopic], max_bytes: int, default_count: int
) -> Iterator[list[NewTopic]]:
    part: list[NewTopic] = []
    size_bytes = partitions = 0
    for topic in topics:
        each_bytes, count = _encoded_bytes(topic), _partition_count(topic, default_count)
        is_full = size_bytes + each_bytes > max_bytes
        if part and (is_full or partitions + count > PARTITIONS_PER_PROPOSAL):
            yield part
            part, size_bytes, partitions = [], 0, 0
        part.append(topic)
        size_bytes += each_bytes
        partitions += count
    if part:
        yield part


def _partition_count(topic: NewTopic, default_count: int) -> int:
    """Return what it says; a count that no topic can have is refused by its own text."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.partition_count > MAX_PARTITIONS_PER_REQUEST:
        return 0
    return default_count if topic.partition_count == -1 else max(topic.partition_count, 1)


def _encoded_bytes(topic: NewTopic) -> int:
    """Return no less than what the topic takes in an entry; a character takes at most 4 bytes."""
    texts = sum(len(name) + len(text or "") + 4 for name, text in topic.configs.items())
    return 64 + 4 * (len(topic.name) + texts)
