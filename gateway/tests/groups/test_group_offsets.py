"""Offsets of groups: committed, fetched and deleted, through the handlers."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.worlds.group_world import NONE, Clock, Gateway, MakeTopics, cluster, commit_row, topic_id
from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.groups import OffsetsCommitted
from tidegate_coordination.log.metadata_log import Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_delete as od
from tidegate_protocol.messages import offset_fetch as of


async def test_commit_round_trips_with_metadata_and_leader_epoch(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        codes = await gateway.commit(
            {("orders", 0): (7, 3, "mine"), ("orders", 1): (8, -1, None), ("other", 0): 9}
        )
        assert set(codes.values()) == {NONE}
        answer = await gateway.fetch()
        rows = {
            (topic.name, each.partition_index): (
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
                each.error_code,
            )
            for topic in answer.topics
            for each in topic.partitions
        }
        assert rows == {
            ("orders", 0): (7, 3, "mine", 0),
            ("orders", 1): (8, -1, "", 0),
            ("other", 0): (9, -1, "", 0),
        }


async def test_an_offset_that_was_not_committed_is_minus_one(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        wanted = [
            of.OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 9]),
            of.OffsetFetchRequestTopics(name="unknown", partition_indexes=[0]),
        ]
        answer = await gateway.fetch("nobody", topics=wanted)
        assert answer.error_code == NONE
        rows = [each for topic in answer.topics for each in topic.partitions]
        assert {(r.committed_offset, r.metadata, r.error_code) for r in rows} == {(-1, "", 0)}
        assert (await gateway.fetch("nobody")).topics == []


async def test_offsets_that_cannot_be_read_now_are_asked_for_again(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise CoordinatorUnavailable("the metadata log is away")

    async with cluster() as [gateway]:
        monkeypatch.setattr(gateway.coordinator, "catch_up", away)
        # Java consumers treat all errors as fatal, except this one and
        # COORDINATOR_LOAD_IN_PROGRESS.
        assert (await gateway.fetch()).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(1, 8))
async def test_older_versions_of_offset_fetch(autojump_clock: Clock, version: int) -> None:
    async with cluster() as [gateway]:
        await gateway.commit({("orders", 0): (7, 3, "mine")})
        request = of.OffsetFetchRequest("g", [of.OffsetFetchRequestTopic("orders", [0, 1])])
        answer = await gateway.ask(of, request, version)
        [topic] = answer.topics
        assert [(each.committed_offset, each.metadata) for each in topic.partitions] == [
            (7, "mine"),
            (-1, ""),
        ]
        if version >= 2:
            answer = await gateway.ask(of, of.OffsetFetchRequest("g", None), version)
            assert [each.partition_index for each in answer.topics[0].partitions] == [0]


async def test_topics_by_id(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        codes = await gateway.commit({("orders", 0): 7, ("unknown", 0): 8}, version=10)
        assert codes == {("orders", 0): NONE, ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_ID}
        wanted = [
            of.OffsetFetchRequestTopics(topic_id=topic_id(each), partition_indexes=[0])
            for each in ("orders", "unknown")
        ]
        answer = await gateway.fetch(version=10, topics=wanted)
        rows = [(t.topic_id, t.partitions[0].committed_offset) for t in answer.topics]
        assert rows == [(topic_id("orders"), 7), (topic_id("unknown"), -1)]
        assert answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_bad_partitions_fail_alone(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        codes = await gateway.commit(
            {
                ("orders", 0): 1,
                ("orders", 2): 1,
                ("unknown", 0): 1,
                ("other", 0): (1, -1, "x" * 4097),
                ("other", 1): (1, -1, "x" * 4096),
            }
        )
        assert codes == {
            ("orders", 0): NONE,
            ("orders", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("other", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ("other", 1): NONE,
        }


async def test_a_refused_member_leaves_unknown_partitions_their_code(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        stranger: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 3}
        codes = await gateway.commit({("orders", 0): 1, ("unknown", 0): 1}, **stranger)
        assert list(codes.values()) == [ErrorCode.ILLEGAL_GENERATION, unknown]
        codes = await gateway.commit({("orders", 9): 1}, **stranger)
        assert list(codes.values()) == [unknown]


async def test_commits_of_members_are_checked(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        one = {("orders", 0): 1}

        async def code(member_id: str, generation_id: int, **fields: Any) -> int:
            known: dict[str, Any] = {"member_id": member_id}
            known["generation_id_or_member_epoch"] = generation_id
            return (await gateway.commit(one, **(known | fields)))["orders", 0]

        assert await code(member, generation) == NONE
        assert await code(member, generation + 1) == ErrorCode.ILLEGAL_GENERATION
        assert await code("stranger", generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await code("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await code("m", 3, group_id="unknown") == ErrorCode.ILLEGAL_GENERATION
        assert await code("", -1, group_id="simple") == NONE
        await gateway.join(member)
        assert await code(member, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_commit_that_fits_in_no_entry_is_refused(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        rows = [commit_row(0, (1, -1, "x" * 4000)) for _ in range(300)]
        topics = [oc.OffsetCommitRequestTopic("orders", partitions=rows)]
        answer = await gateway.ask(oc, oc.OffsetCommitRequest("g", topics=topics), 9)
        codes = {each.error_code for each in answer.topics[0].partitions}
        assert codes == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


async def test_commits_of_one_group_share_an_entry(autojump_clock: Clock) -> None:
    log = MemoryLog()
    async with cluster(log=log) as [gateway]:
        await gateway.commit({("orders", 0): 0})
        before = gateway.coordinator.state.position
        async with trio.open_nursery() as nursery:
            for offset in range(20):
                nursery.start_soon(gateway.commit, {("orders", offset % 2): offset})
        entries = await log.read(before + 1, 1 << 20)
        assert not isinstance(entries, Trimmed)
        commits = [
            sum(isinstance(event, OffsetsCommitted) for event in entry.events)
            for entry in (decode_entry(each.payload, each.position) for each in entries)
        ]
        assert sum(commits) == 20
        assert max(commits) >= 10


async def test_deleting_a_topic_forgets_its_offsets(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.commit({("orders", 0): 7, ("other", 0): 8})
        await gateway.coordinator.propose(MakeTopics(("orders",), delete=True))
        assert [each.name for each in (await gateway.fetch()).topics] == ["other"]


async def offset_delete(gateway: Gateway, names: list[str], group: str = "g") -> Any:
    topics = [
        od.OffsetDeleteRequestTopic(each, [od.OffsetDeleteRequestPartition(0)]) for each in names
    ]
    return await gateway.ask(od, od.OffsetDeleteRequest(group, topics), 0)


async def test_offsets_of_subscribed_topics_are_not_deleted(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        await gateway.commit(
            {("orders", 0): 7, ("other", 0): 8},
            member_id=member,
            generation_id_or_member_epoch=generation,
        )
        answer = await offset_delete(gateway, ["orders", "other", "unknown"])
        assert answer.error_code == NONE
        assert [topic.partitions[0].error_code for topic in answer.topics] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [each.name for each in (await gateway.fetch()).topics] == ["orders"]


async def test_offset_delete_refusals(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        answer = await offset_delete(gateway, ["orders"], "unknown")
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await gateway.stable(protocol_type="connect")
        answer = await offset_delete(gateway, ["orders"])
        assert answer.error_code == ErrorCode.NON_EMPTY_GROUP
