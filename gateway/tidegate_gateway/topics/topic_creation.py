"""Creates topics in proposals that fit in an entry of the metadata log.

The number of partitions has a limit for each request, however many proposals the request takes,
since every gateway and every snapshot holds all topics.  It also has a limit for each proposal, so
that folding the proposal's entry does not hold up clients for long.  But a topic is always created
as a whole, in one proposal (decision 26).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

from ..network.call import Mutations
from ..settings.broker_settings import BrokerSettings
from .looks import Look, is_changed

ENTRY_SHARE = 4
"""A proposal takes at most this part of an entry, since one entry holds several proposals."""
PARTITIONS_PER_PROPOSAL = 1_000


@dataclass(frozen=True, slots=True)
class OverQuota:
    """The answer for a topic that exceeds the client's quota of mutations (KIP-599)."""


_TOO_MUCH = Refused(TopicRefusal.TOO_MUCH, TOO_MANY_PARTITIONS)


async def create_topics(
    coordinator: Coordinator,
    settings: BrokerSettings,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool = False,
) -> list[Created | Refused]:
    """Create topics; result[i] belongs to topics[i].

    The first topic that would exceed MAX_PARTITIONS_PER_REQUEST partitions is refused, and so are
    all later ones.

    Args:
      validate_only: create nothing; return the answers that a creation would get.

    Raises:
      CoordinatorUnavailable: the outcome is unknown.
      ProposalFailed: the remaining topics were not created.
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
            room = 0  # refuse all later topics, too, however small
        answers += [*made, *[_TOO_MUCH] * (len(part) - len(fitting))]
    return answers


async def create_within(
    quota: Mutations | None,
    coordinator: Coordinator,
    settings: BrokerSettings,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool = False,
) -> list[Created | Refused | OverQuota]:
    """Create topics as create_topics() does, but refuse those beyond the client's mutation quota.

    As in Kafka, only topics that can be created count, even if they are only validated.

    Raises:
      CoordinatorUnavailable, ProposalFailed: see create_topics().
    """
    if quota is None:
        return [*await create_topics(coordinator, settings, topics, validate_only=validate_only)]
    checked = await create_topics(coordinator, settings, topics, validate_only=True)
    answers = [
        OverQuota() if isinstance(each, Created) and not quota.take(each.partition_count) else each
        for each in checked
    ]
    if validate_only:
        return answers
    admitted = [at for at, each in enumerate(answers) if isinstance(each, Created)]
    made = await create_topics(coordinator, settings, [topics[at] for at in admitted])
    for at, answer in zip(admitted, made, strict=True):
        answers[at] = answer
    return answers


def _fitting(topics: list[NewTopic], default_count: int, room: int) -> list[NewTopic]:
    """Return the topics that fit, up to the first that does not fit."""
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
    """Return how many partitions a topic asks for; 0 if the rules refuse its number anyway."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.partition_count > MAX_PARTITIONS_PER_REQUEST:
        return 0
    return default_count if topic.partition_count == -1 else max(topic.partition_count, 1)


def _encoded_bytes(topic: NewTopic) -> int:
    """Return an upper bound of a topic's bytes in an entry; a character has at most 4 bytes."""
    texts = sum(len(name) + len(text or "") + 4 for name, text in topic.configs.items())
    return 64 + 4 * (len(topic.name) + texts)
