"""Administrative requests that are decided late do not undo later changes.

The gateway that was asked reads the log, and its appends hang; meanwhile another gateway is asked,
and acknowledges.  See decision 22.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.requests.test_admin_topics import write
from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable
from tidegate_coordination.coordinator.standstill import AFTER_SECONDS
from tidegate_coordination.log_contract.faulty import LogFaults
from tidegate_coordination.rules.gateways import Renew
from tidegate_gateway.requests.configs import config_changes
from tidegate_gateway.requests.records import delete_records
from tidegate_gateway.requests.topics import create_partitions, delete_topics
from tidegate_gateway.topics import topic_creation
from tidegate_gateway.topics.looks import LOOK_SECONDS
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidegate_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidegate_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidegate_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidegate_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

HANGS = LogFaults(lost_append=1.0)
LATE_SECONDS = LOOK_SECONDS + 1

DELETE = DeleteTopicsRequest([DeleteTopicState(name="x")])
GROW = CreatePartitionsRequest([CreatePartitionsTopic("x", 3, None)])
EMPTY = DeleteRecordsRequest([DeleteRecordsTopic("x", [DeleteRecordsPartition(0, -1)])])


def set_retention(value: str, *names: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig("retention.ms", 0, value)
    rows = [AlterConfigsResource(2, name, [config]) for name in names or ("x",)]
    return IncrementalAlterConfigsRequest(rows)


async def delete(gateway: AdminGateway) -> None:
    answer = await gateway.ask(DELETE)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE]


async def make_anew(gateway: AdminGateway) -> None:
    await delete(gateway)
    await gateway.create("x")


@asynccontextmanager
async def hanging(
    request: Any, answers: list[Any], seconds: float
) -> AsyncIterator[tuple[AdminGateway, AdminGateway]]:
    """Have a request decided only after the block, and `seconds` after it was received."""
    async with admin_world({}, {}) as [asked, other], trio.open_nursery() as nursery:
        await other.create("w")
        await other.create("x")
        await write(other, "w", 3, 100, counter=0)
        await write(other, "x", 10, 100)

        async def ask() -> None:
            answers.append(await asked.ask(request))

        asked.line.faults = HANGS
        nursery.start_soon(ask)
        await trio.sleep(seconds)
        yield asked, other
        assert not answers
        asked.line.faults = LogFaults()


async def test_deleting_a_topic_by_name_spares_its_next_life(autojump_clock: MockClock) -> None:
    for seconds in (1.0, LATE_SECONDS):
        answers: list[Any] = []
        async with hanging(DELETE, answers, seconds) as (asked, other):
            await make_anew(other)
        assert answers[0].responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "x" in asked.state.topics.by_name


async def test_deleting_records_spares_what_was_written_since(autojump_clock: MockClock) -> None:
    answers: list[Any] = []
    async with hanging(EMPTY, answers, 1.0) as (asked, other):
        await write(other, "x", 500, 100, counter=2)
    assert answers[0].topics[0].partitions[0].low_watermark == 10
    [number] = asked.state.topics.by_name["x"].partition_numbers
    assert asked.state.partitions[number].next_offset == 510


@pytest.mark.parametrize(
    "request_", [EMPTY, GROW, set_retention("7")], ids=lambda it: type(it).__name__
)
async def test_nothing_is_done_to_a_topics_next_life(
    request_: Any, autojump_clock: MockClock
) -> None:
    answers: list[Any] = []
    async with hanging(request_, answers, 1.0) as (asked, other):
        await make_anew(other)
        await write(other, "x", 500, 100, counter=2)
    assert _codes(answers[0]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    topic = asked.state.topics.by_name["x"]
    assert not topic.configs
    [number] = topic.partition_numbers
    assert asked.state.partitions[number].log_start == 0


def empty(*partitions: tuple[str, int]) -> DeleteRecordsRequest:
    """Return a request to delete all records of some partitions."""
    return DeleteRecordsRequest(
        [
            DeleteRecordsTopic(name, [DeleteRecordsPartition(index, -1)])
            for name, index in partitions
        ]
    )


def _low_watermarks(answer: Any) -> list[int]:
    return [each.low_watermark for topic in answer.topics for each in topic.partitions]


@pytest.mark.usefixtures("one_a_part")
async def test_no_part_deletes_records_that_were_written_since(autojump_clock: MockClock) -> None:
    answers: list[Any] = []
    async with hanging(empty(("w", 0), ("x", 0)), answers, 1.0) as (asked, other):
        await write(other, "x", 500, 100, counter=2)
    assert _low_watermarks(answers[0]) == [3, 10]
    [number] = asked.state.topics.by_name["x"].partition_numbers
    assert asked.state.partitions[number].next_offset == 510


@pytest.mark.usefixtures("one_a_part")
async def test_a_topic_may_go_while_records_are_deleted(autojump_clock: MockClock) -> None:
    answers: list[Any] = []
    async with hanging(empty(("w", 0), ("x", 0)), answers, 1.0) as (_, other):
        await delete(other)
    assert _codes(answers[0]) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.usefixtures("one_a_part")
async def test_a_partition_that_was_not_there_yet_stays_whole(autojump_clock: MockClock) -> None:
    answers: list[Any] = []
    async with hanging(empty(("w", 0), ("x", 1)), answers, 1.0) as (asked, other):
        assert _codes(await other.ask(GROW)) == [ErrorCode.NONE]
        await write(other, "x", 500, 100, counter=2, partition=1)
    assert _low_watermarks(answers[0]) == [3, 0]
    number = asked.state.topics.by_name["x"].partition_numbers[1]
    assert asked.state.partitions[number].log_start == 0


async def test_records_of_unknown_partitions_cannot_be_deleted() -> None:
    async with admin_world() as [gateway]:
        await gateway.create("x")
        codes = _codes(await gateway.ask(empty(("x", -1), ("x", 1), ("nope", 0))))
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3


def _codes(answer: Any) -> list[int]:
    if hasattr(answer, "topics"):
        return [each.error_code for topic in answer.topics for each in topic.partitions]
    rows = answer.results if hasattr(answer, "results") else answer.responses
    return [each.error_code for each in rows]


async def test_an_older_config_does_not_replace_a_newer_one(autojump_clock: MockClock) -> None:
    answers: list[Any] = []
    async with hanging(set_retention("1000"), answers, LATE_SECONDS) as (asked, other):
        assert _codes(await other.ask(set_retention("-1"))) == [ErrorCode.NONE]
    assert _codes(answers[0]) == [ErrorCode.REQUEST_TIMED_OUT]
    assert asked.state.topics.by_name["x"].configs == {"retention.ms": "-1"}


async def test_two_that_set_a_config_at_once_both_succeed(autojump_clock: MockClock) -> None:
    answers: list[Any] = []
    async with hanging(set_retention("1000"), answers, 1.0) as (asked, other):
        assert _codes(await other.ask(set_retention("-1"))) == [ErrorCode.NONE]
    assert _codes(answers[0]) == [ErrorCode.NONE]
    assert asked.state.topics.by_name["x"].configs == {"retention.ms": "1000"}


async def test_a_topic_that_was_deleted_since_is_not_created_late(
    autojump_clock: MockClock,
) -> None:
    answers: list[Any] = []
    create = CreateTopicsRequest([CreatableTopic("y", 1, 1)])
    async with hanging(create, answers, LATE_SECONDS) as (asked, other):
        await other.create("y")
        gone = DeleteTopicsRequest([DeleteTopicState(name="y")])
        assert (await other.ask(gone)).responses[0].error_code == ErrorCode.NONE
    assert answers[0].topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "y" not in asked.state.topics.by_name


# Requests of two parts, whose second part touches what other requests change first.
PARTS: dict[str, Any] = {
    "alter": set_retention("1000", "w", "x"),
    "grow": CreatePartitionsRequest([CreatePartitionsTopic(each, 3, None) for each in "wx"]),
    "delete": DeleteTopicsRequest([DeleteTopicState(name=each) for each in "wx"]),
    "create": CreateTopicsRequest([CreatableTopic(each, 1, 1) for each in "vy"]),
}


@pytest.fixture
def one_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_changes, "RESOURCES_PER_PROPOSAL", 1)
    monkeypatch.setattr(create_partitions, "TOPICS_PER_PROPOSAL", 1)
    monkeypatch.setattr(delete_topics, "TOPICS_PER_PROPOSAL", 1)
    monkeypatch.setattr(topic_creation, "PARTITIONS_PER_PROPOSAL", 1)
    monkeypatch.setattr(delete_records, "PARTITIONS_PER_PROPOSAL", 1)


@pytest.mark.usefixtures("one_a_part")
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("seconds", [1.0, LATE_SECONDS])
async def test_no_part_of_a_request_is_decided_by_what_came_late(
    name: str, seconds: float, autojump_clock: MockClock
) -> None:
    answers: list[Any] = []
    async with hanging(PARTS[name], answers, seconds) as (asked, other):
        assert _codes(await other.ask(set_retention("-1"))) == [ErrorCode.NONE]
        if name == "create":
            await other.create("y")
            gone = DeleteTopicsRequest([DeleteTopicState(name="y")])
            assert _codes(await other.ask(gone)) == [ErrorCode.NONE]
        before = asked.state.topics.by_name["x"]
    late = seconds == LATE_SECONDS
    second = ErrorCode.REQUEST_TIMED_OUT if late else ErrorCode.NONE
    assert sorted(_all_codes(answers[0])) == sorted([ErrorCode.NONE, second])
    after = asked.state.topics.by_name.get("x")
    if late:
        assert after is not None
        assert (after.topic_id, len(after.partition_numbers)) == (before.topic_id, 1)
        assert after.configs == {"retention.ms": "-1"}
        assert "y" not in asked.state.topics.by_name


@pytest.mark.usefixtures("one_a_part")
@pytest.mark.parametrize("name", PARTS)
async def test_a_long_request_changes_nothing_of_its_own_later_parts(
    name: str, autojump_clock: MockClock
) -> None:
    answers: list[Any] = []
    async with hanging(PARTS[name], answers, LATE_SECONDS):
        pass
    assert _all_codes(answers[0]) == [ErrorCode.NONE] * 2


@pytest.mark.usefixtures("one_a_part")
async def test_a_topic_that_stands_twice_in_a_long_request_stays(
    autojump_clock: MockClock,
) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("x")
        topic_id = gateway.state.topics.by_name["x"].topic_id
        rows = [DeleteTopicState(name="x"), DeleteTopicState(name=None, topic_id=topic_id)]
        codes = _codes(await gateway.ask(DeleteTopicsRequest(rows)))
        assert "x" in gateway.state.topics.by_name
    assert codes == [ErrorCode.INVALID_REQUEST]


@pytest.mark.usefixtures("one_a_part")
async def test_entries_that_are_read_after_the_deadline_do_not_count_as_seen(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    answers: list[Any] = []
    async with hanging(set_retention("1000"), answers, 1.0) as (asked, other):
        read = asked.coordinator.catch_up

        async def slow_read() -> None:
            await trio.sleep(LATE_SECONDS)
            assert _codes(await other.ask(set_retention("-1"))) == [ErrorCode.NONE]
            await read()

        assert _codes(await other.ask(set_retention("7"))) == [ErrorCode.NONE]
        monkeypatch.setattr(asked.coordinator, "catch_up", slow_read)
    assert _codes(answers[0]) == [ErrorCode.REQUEST_TIMED_OUT]
    assert asked.state.topics.by_name["x"].configs == {"retention.ms": "-1"}


@pytest.mark.parametrize(
    "request_",
    [DELETE, EMPTY, GROW, set_retention("7"), CreateTopicsRequest([CreatableTopic("y", 1, 1)])],
    ids=lambda it: type(it).__name__,
)
async def test_a_request_after_a_standstill_is_too_old(
    request_: Any, mock_clock: MockClock
) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("x")
        before = gateway.state.encode()
        mock_clock.jump(60.0)
        with pytest.raises(CoordinatorUnavailable, match="too old"):
            await gateway.ask(request_)
        assert gateway.state.encode() == before
        mock_clock.jump(AFTER_SECONDS)
        assert set(_all_codes(await gateway.ask(request_))) == {ErrorCode.NONE}


def _all_codes(answer: Any) -> list[int]:
    if not hasattr(answer, "topics") or hasattr(answer.topics[0], "partitions"):
        return _codes(answer)
    return [each.error_code for each in answer.topics]


@pytest.mark.parametrize("request_", [DELETE, EMPTY], ids=lambda it: type(it).__name__)
async def test_a_request_that_is_decided_too_late_is_to_come_again(
    request_: Any, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("x")
        before = gateway.state.encode()
        monkeypatch.setattr(gateway.coordinator, "_deadline_ms", lambda: 1)
        with pytest.raises(CoordinatorUnavailable, match="the proposal had no effect"):
            await gateway.ask(request_)
        await gateway.coordinator.propose(Renew())  # upkeep has no deadline
        assert gateway.state.encode() != before
        assert "x" in gateway.state.topics.by_name
