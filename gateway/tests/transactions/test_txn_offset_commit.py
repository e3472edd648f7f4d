"""TxnOffsetCommit: which members and producers may commit, and the code of each partition."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from tests.worlds.group_world import NONE, Clock, Gateway, cluster
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.rules.consumer_groups.offset_expiry import ExpireOffsets
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import txn_offset_commit as tc

Row = tuple[str, int]
transactional_cluster = partial(cluster, level=NEWEST)


async def init(gateway: Gateway) -> tuple[int, int]:
    answer = await gateway.ask(ip, ip.InitProducerIdRequest("x", 60_000), 5)
    assert answer.error_code == NONE
    return answer.producer_id, answer.producer_epoch


async def stage(
    gateway: Gateway,
    producer: tuple[int, int],
    *rows: Row,
    version: int = 5,
    name: str = "x",
    group: str = "g",
    metadata: str = "",
    **member: Any,
) -> list[int]:
    """Commit offset 7 of some partitions; return their codes."""
    topics = [
        tc.TxnOffsetCommitRequestTopic(
            topic, [tc.TxnOffsetCommitRequestPartition(index, 7, committed_metadata=metadata)]
        )
        for topic, index in rows or [("orders", 0)]
    ]
    request = tc.TxnOffsetCommitRequest(name, group, *producer, **member, topics=topics)
    answer = await gateway.ask(tc, request, version)
    return [part.error_code for topic in answer.topics for part in topic.partitions]


async def test_each_partition_has_its_own_code(autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        producer = await init(gateway)
        rows = [("orders", 0), ("orders", 9), ("unknown", 0)]
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        assert await stage(gateway, producer, *rows) == [NONE, unknown, unknown]
        large = E.OFFSET_METADATA_TOO_LARGE
        codes = await stage(gateway, producer, *rows, metadata="m" * 4_097)
        assert codes == [large, unknown, unknown]


async def test_a_refusal_leaves_unknown_partitions_their_code(autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        producer = await init(gateway)
        rows = [("unknown", 0), ("orders", 0)]
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        generation: dict[str, Any] = {"member_id": "m", "generation_id": 3}
        assert await stage(gateway, producer, *rows, **generation) == [
            unknown,
            E.ILLEGAL_GENERATION,
        ]
        assert await stage(gateway, producer, rows[0], **generation) == [unknown]


async def test_a_commit_of_unknown_partitions_takes_no_claim(autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        await stage(gateway, await init(gateway), ("unknown", 0))
        assert gateway.coordinator.state.claims.get("group/g") is None


@pytest.mark.parametrize("version", range(6))
async def test_a_group_needs_a_name(version: int, autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        codes = await stage(gateway, await init(gateway), version=version, group="")
        assert codes == [E.INVALID_GROUP_ID]


@pytest.mark.parametrize("version", range(6))
async def test_producers_that_may_not_commit(version: int, autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        producer_id, epoch = await init(gateway)
        assert await stage(gateway, (producer_id, epoch), version=version, name="") == [
            E.INVALID_REQUEST
        ]
        for producer, name in (((producer_id, epoch), "y"), ((producer_id + 1, epoch), "x")):
            codes = await stage(gateway, producer, version=version, name=name)
            assert codes == [E.INVALID_PRODUCER_ID_MAPPING]
        codes = await stage(gateway, (producer_id, epoch + 1), version=version)
        assert codes == [E.INVALID_PRODUCER_EPOCH]
        not_added = {4: E.TRANSACTION_ABORTABLE, 5: NONE}.get(version, E.INVALID_TXN_STATE)
        assert await stage(gateway, (producer_id, epoch), version=version) == [not_added]


async def test_members_are_checked_and_no_member_is_taken(autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        producer = await init(gateway)
        member, generation = await gateway.stable(group_instance_id="i")
        present: dict[str, Any] = {
            "member_id": member,
            "generation_id": generation,
            "group_instance_id": "i",
        }

        async def code(**fields: Any) -> int:
            [found] = await stage(gateway, producer, **(present | fields))
            return found

        assert await code() == NONE
        assert await code(member_id="m", group_instance_id=None) == E.UNKNOWN_MEMBER_ID
        assert await code(group_instance_id="j") == E.UNKNOWN_MEMBER_ID
        assert await code(member_id="m") == E.FENCED_INSTANCE_ID
        for other in (generation - 1, generation + 1):
            assert await code(generation_id=other) == E.ILLEGAL_GENERATION
        # A producer that names no member may commit although the group has members.
        assert await stage(gateway, producer) == [NONE]


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_the_producer_is_checked_before_the_member(
    version: int, autojump_clock: Clock
) -> None:
    async with transactional_cluster() as [gateway]:
        producer_id, epoch = await init(gateway)
        stranger: dict[str, Any] = {"member_id": "m", "generation_id": 1, "version": version}
        codes = await stage(gateway, (producer_id, epoch + 1), **stranger)
        assert codes == [E.INVALID_PRODUCER_EPOCH]
        codes = await stage(gateway, (producer_id, epoch), name="y", **stranger)
        assert codes == [E.INVALID_PRODUCER_ID_MAPPING]
        codes = await stage(gateway, (producer_id, epoch), **stranger)
        not_added = {3: E.INVALID_TXN_STATE, 4: E.TRANSACTION_ABORTABLE}
        assert codes == [not_added.get(version, E.ILLEGAL_GENERATION)]
        request = ao.AddOffsetsToTxnRequest("x", producer_id, epoch, "g")
        assert (await gateway.ask(ao, request, 3)).error_code == NONE
        assert await stage(gateway, (producer_id, epoch), **stranger) == [E.ILLEGAL_GENERATION]


@pytest.mark.parametrize(
    "refused", [{"member_id": "m", "generation_id": 1}, {"metadata": "m" * 5_000}]
)
async def test_a_refused_commit_of_version_5_has_added_its_group(
    refused: dict[str, Any], autojump_clock: Clock
) -> None:
    async with transactional_cluster() as [gateway]:
        producer = await init(gateway)
        assert await stage(gateway, producer, **refused) != [NONE]
        transaction = gateway.coordinator.state.transactions.open_of("x")
        assert transaction is not None
        assert list(transaction.groups) == ["g"]
        assert (await gateway.ask(et, et.EndTxnRequest("x", *producer, True), 5)).error_code == NONE


async def test_an_unknown_group_has_no_generation(autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        member: dict[str, Any] = {"member_id": "m", "generation_id": 1}
        assert await stage(gateway, await init(gateway), **member) == [E.ILLEGAL_GENERATION]


async def test_a_rebalance_that_completes_hinders_no_commit(autojump_clock: Clock) -> None:
    async with transactional_cluster() as [gateway]:
        producer = await init(gateway)
        member = (await gateway.join()).member_id
        generation = (await gateway.join(member)).generation_id
        assert (await gateway.describe()).group_state == "CompletingRebalance"
        named: dict[str, Any] = {"member_id": member, "generation_id": generation}
        assert await stage(gateway, producer, **named) == [NONE]


async def test_only_the_gateway_with_the_claim_stages(autojump_clock: Clock) -> None:
    async with transactional_cluster(1, 2) as [one, two]:
        producer = await init(one)
        assert await stage(one, producer) == [NONE]
        await two.coordinator.catch_up()
        assert await stage(two, producer) == [E.NOT_COORDINATOR]


@pytest.mark.parametrize("committed", [True, False])
async def test_a_group_whose_offsets_were_aborted_goes_like_any_empty_one(
    committed: bool, autojump_clock: Clock
) -> None:
    async with transactional_cluster() as [gateway]:
        producer = await init(gateway)
        state = gateway.coordinator.state
        await stage(gateway, producer)
        assert (await gateway.describe()).group_state == "Empty"
        request = et.EndTxnRequest("x", *producer, committed)
        await gateway.ask(et, request, 5)
        for minutes, is_there in ((9, True), (2, committed)):
            await trio.sleep(60 * minutes)
            await gateway.coordinator.propose(ExpireOffsets("g", 10**9))
            assert (state.groups.get("g") is not None) is is_there
            assert (state.claims.get("group/g") is not None) is is_there
