"""Parts of requests acknowledged without being done; groups and offsets removed too early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.rules.consumer_groups import offset_expiry
from tidegate_coordination.rules.topics import TopicKey
from tidegate_gateway.requests.groups.offset_commit import OffsetCommit
from tidegate_gateway.requests.records.delete_records import DeleteRecordsHandler
from tidegate_gateway.requests.topics.delete_topics import DeleteTopicsHandler
from tidegate_gateway.topics import topic_creation
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.delete_topics import DeletableTopicResult
from tidegate_simulation.plans import beginnings, expiry_plan


def parts_are_small(patch: pytest.MonkeyPatch) -> None:
    """Make parts small in every run that supports it."""
    patch.setattr(beginnings, "PARTS_SHARE", 1.0)


def deletes_the_first_topics(patch: pytest.MonkeyPatch) -> None:
    real = DeleteTopicsHandler._delete

    async def wrong(self: DeleteTopicsHandler, wanted: list[TopicKey], quota: Any) -> Any:
        told = [DeletableTopicResult(name=each.name) for each in wanted[1:]]
        return [*await real(self, wanted[:1], quota), *told]

    patch.setattr(DeleteTopicsHandler, "_delete", wrong)


def creates_the_first_topics(patch: pytest.MonkeyPatch) -> None:
    real = topic_creation.create_topics

    async def wrong(coordinator: Any, settings: Any, topics: Sequence[Any], **more: Any) -> Any:
        made = await real(coordinator, settings, topics[:1], **more)
        return made * len(topics)

    patch.setattr(topic_creation, "create_topics", wrong)


def empties_the_first_partitions(patch: pytest.MonkeyPatch) -> None:
    real = DeleteRecordsHandler._delete

    async def wrong(self: DeleteRecordsHandler, deletions: list[Any]) -> Any:
        answers = await real(self, deletions[:1])
        return answers * len(deletions)

    patch.setattr(DeleteRecordsHandler, "_delete", wrong)


@pytest.mark.parametrize(
    "plant", [deletes_the_first_topics, creates_the_first_topics, empties_the_first_partitions]
)
def test_rows_acknowledged_without_being_done_are_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts_are_small(monkeypatch)
    must_be_found(plant, {"not done"}, 1, monkeypatch)


def commits_the_first_offsets(patch: pytest.MonkeyPatch) -> None:
    parts_are_small(patch)
    real = OffsetCommit._commit

    async def wrong(self: OffsetCommit, request: Any, rows: list[Any], *more: Any) -> Any:
        first, begins = request.topics[0], rows[0].offset
        is_first = begins.topic_id == self._topic_id(first, by_id=not first.name)
        if is_first and begins.partition == first.partitions[0].partition_index:
            return await real(self, request, rows, *more)
        return [ErrorCode.NONE] * len(rows)

    patch.setattr(OffsetCommit, "_commit", wrong)


def test_offsets_acknowledged_without_a_commit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    must_be_found(commits_the_first_offsets, {"stale commit", "vanished commit"}, 1, monkeypatch)


def ends_empty_groups_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offset_expiry, "EMPTY_GROUP_GRACE_MS", 0)


def takes_nobody_for_subscribed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offset_expiry, "group_subscription", lambda _: frozenset[str]())


def counts_from_the_commit(patch: pytest.MonkeyPatch) -> None:
    """The age of offsets counts from their commit, even if the group's members have just left."""
    real: Callable[..., Any] = offset_expiry.expired_offsets

    def expired(state: Any, group: Any, retention_ms: int, log_time_ms: int) -> Any:
        if not group.protocol_type or group.members:
            return real(state, group, retention_ms, log_time_ms)
        kept = offset_expiry._idle_offsets(state, group)
        return [e for _, e in kept if log_time_ms - e.commit_timestamp_ms >= retention_ms]

    patch.setattr(offset_expiry, "expired_offsets", expired)


@pytest.mark.parametrize(
    ("plant", "first_seed"),
    [
        (ends_empty_groups_at_once, 1),
        (takes_nobody_for_subscribed, 12),
        (counts_from_the_commit, 7),
    ],
)
def test_groups_removed_too_early_are_found(
    plant: Plant, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry_plan, "SHARE", 1.0)
    expected = {in_rules("too early"), "gone too early"}
    must_be_found(plant, expected, first_seed, monkeypatch)
