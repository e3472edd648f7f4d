"""Readers, sessions, groups and metadata under requests of hostile clients."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import trio
import trio.testing
from crc32c import crc32c

from tests.fetch.test_list_offsets import at
from tests.worlds.admin_world import admin_world
from tests.worlds.fetch_world import NOW_MS, batch, fetch_world
from tests.worlds.group_world import cluster
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.log.metadata_log import LogEntry, Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_gateway.fetch.fetch_sessions import FetchContext, FetchSessions, SessionProblem
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.requests.configs.describe_configs import DescribeConfigsHandler
from tidegate_gateway.requests.configs.gateway_loggers import GatewayLoggers
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_protocol.batches import CRC_POSITION, CRC_START
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tidegate_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidegate_runtime.log_levels import LogLevels

Clock = trio.testing.MockClock
BROKER, GROUP = 4, 32


def poisoned() -> bytes:
    """Return a batch of codec snappy, whose data begins with a length that never ends."""
    body = bytearray(batch("v", codec=Codec.SNAPPY)[:61] + b"\xff" * 10)
    struct.pack_into(">i", body, 8, len(body) - 12)
    struct.pack_into(">I", body, CRC_POSITION, crc32c(bytes(body[CRC_START:])))
    return bytes(body)


async def test_a_poisoned_batch_does_not_end_searches_by_time() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, poisoned()))
        found = await at(world, NOW_MS)
        largest = await at(world, -3)

    assert found == largest == (0, NOW_MS)


# ---- fetch sessions


def fetch(session_id: int, epoch: int, indexes: range, forgotten: range = range(0)) -> FetchRequest:
    partitions = [FetchPartition(index) for index in indexes]
    request = FetchRequest(session_id=session_id, session_epoch=epoch)
    request.topics = [FetchTopic("t", partitions=partitions)]
    request.forgotten_topics_data = [ForgottenTopic("t", partitions=list(forgotten))]
    return request


def ask(sessions: FetchSessions, request: FetchRequest, now: float = 0.0) -> int | SessionProblem:
    context = sessions.begin(request, 12, now)
    if not isinstance(context, FetchContext):
        return context
    answers = [PartitionData(each.request.partition) for each in context.wanted]
    finished = sessions.finish(context, answers, version=12, now=now)
    assert not isinstance(finished, SessionProblem)
    return finished[0]


def test_sessions_hold_so_many_partitions_together() -> None:
    sessions = FetchSessions(Random(1), max_partitions=10)
    first = ask(sessions, fetch(0, 0, range(6)))
    assert first
    assert ask(sessions, fetch(0, 0, range(5))) == 0
    second = ask(sessions, fetch(0, 0, range(4)))
    assert second
    # Idle sessions are removed, one after the other, to make room for a session that fits.
    assert ask(sessions, fetch(0, 0, range(11)), now=500.0) == 0
    assert len(sessions) == 0
    assert ask(sessions, fetch(0, 0, range(10)), now=500.0)


def test_a_session_that_grows_past_the_bound_ends() -> None:
    sessions = FetchSessions(Random(1), max_partitions=10)
    session = ask(sessions, fetch(0, 0, range(6)))
    assert isinstance(session, int)
    assert ask(sessions, fetch(session, 1, range(6, 10))) == session
    assert ask(sessions, fetch(session, 2, range(10, 12), forgotten=range(2))) == session
    assert ask(sessions, fetch(session, 3, range(2))) is SessionProblem.NOT_FOUND
    assert ask(sessions, fetch(0, 0, range(10)))


def test_closed_sessions_and_forgotten_partitions_are_not_counted() -> None:
    sessions = FetchSessions(Random(1), max_partitions=10)
    session = ask(sessions, fetch(0, 0, range(10)))
    assert isinstance(session, int)
    assert ask(sessions, fetch(session, 1, range(0), forgotten=range(10))) == 0
    session = ask(sessions, fetch(0, 0, range(10)))
    assert isinstance(session, int)
    assert ask(sessions, fetch(session, -1, range(0))) == 0
    assert ask(sessions, fetch(0, 0, range(10)))


# ---- groups


async def test_ids_given_out_count_as_memory(autojump_clock: Clock) -> None:
    settings = GroupSettings(initial_rebalance_delay_ms=0, max_hosted_bytes=20_000)
    async with cluster(settings=settings) as [gateway]:
        codes = [(await gateway.join(group_id=f"g{index}")).error_code for index in range(10)]
        assert codes[0] == ErrorCode.MEMBER_ID_REQUIRED
        assert codes[-1] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await trio.sleep(15)
        assert gateway.groups._groups.hosted_bytes == 0
        assert (await gateway.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_over_the_bound_members_stay_but_none_joins_or_grows(autojump_clock: Clock) -> None:
    settings = GroupSettings(initial_rebalance_delay_ms=0, max_hosted_bytes=12_000)
    async with cluster(settings=settings) as [gateway]:
        member, _ = await gateway.stable()
        asked = await gateway.join(group_id="late")
        while (await gateway.join(group_id="late")).error_code == ErrorCode.MEMBER_ID_REQUIRED:
            pass
        late = await gateway.join(asked.member_id, group_id="late")
        assert late.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = await gateway.join(member)
        assert (again.error_code, again.generation_id) == (0, 2)


async def test_made_up_groups_are_not_remembered(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        for index in range(5):
            await gateway.join(group_id=f"made up {index}")
        await trio.sleep(30)
        assert not gateway.groups._groups._claims.uncertain


class CountingLog(MemoryLog):
    """Counts its reads."""

    reads = 0

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        self.reads += 1
        return await super().read(from_position, max_bytes)


async def test_groups_are_described_after_one_look_at_the_log(autojump_clock: Clock) -> None:
    log = CountingLog()
    async with cluster(log=log) as [gateway]:
        await gateway.stable()
        before = log.reads
        names = ["g", *(f"none {index}" for index in range(50))]
        answer: Any = await gateway.ask(sg, sg.DescribeGroupsRequest(names), 5)
        looks = log.reads - before

        again: Any = await gateway.ask(sg, sg.DescribeGroupsRequest(["g"] * 50), 5)

    assert len(again.groups) == 1
    assert looks <= 2
    assert [each.group_state for each in answer.groups] == ["Stable"] + ["Dead"] * 50


# ---- metadata and configs


async def test_a_topic_asked_for_twice_is_answered_once() -> None:
    async with admin_world() as [gateway]:
        await gateway.create("t")
        asked = [MetadataRequestTopic(name=name) for name in ("t", "u", "t", "u")]
        answer = await gateway.ask(MetadataRequest(asked, allow_auto_topic_creation=False))

    assert [each.name for each in answer.topics] == ["t", "u"]


async def test_the_first_request_for_the_offsets_topic_makes_it_correctly() -> None:
    async with admin_world({"offsets.topic.num.partitions": "7"}) as [gateway]:
        asked = [MetadataRequestTopic(name=OFFSETS_TOPIC)]
        answer = await gateway.ask(MetadataRequest(asked, allow_auto_topic_creation=True))

    [topic] = answer.topics
    assert (len(topic.partitions), topic.is_internal) == (7, True)
    assert gateway.state.topics.by_name[OFFSETS_TOPIC].configs["cleanup.policy"] == "compact"


async def test_a_node_id_of_thousands_of_digits_is_refused() -> None:
    async with admin_world() as [gateway]:
        resource = DescribeConfigsResource(BROKER, "1" * 5_000, None)
        answer = await gateway.ask(DescribeConfigsRequest([resource]))

    assert answer.results[0].error_code == ErrorCode.INVALID_REQUEST


async def test_configs_are_described_once_and_up_to_a_bound() -> None:
    async with admin_world() as [gateway]:
        broker = DescribeConfigsResource(BROKER, "1", None)
        answer = await gateway.ask(DescribeConfigsRequest([broker] * 1000))
        [whole] = answer.results
        assert whole.configs
        groups = [DescribeConfigsResource(GROUP, f"g{index}", None) for index in range(10)]
        settings = BrokerSettings({"node.id": "1"})
        few = DescribeConfigsHandler(
            gateway.coordinator,
            settings,
            gateway.cluster,
            GatewayLoggers(LogLevels(), 1),
            max_rows=len(whole.configs),
        )
        call = Call(4, "client", Peer("host", 1, "A"))
        bounded = await few.handle(call, DescribeConfigsRequest([broker, *groups]))

    codes = [each.error_code for each in bounded.results]
    assert codes == [0] + [ErrorCode.POLICY_VIOLATION] * 10


async def test_all_offsets_of_a_group_are_answered_once_a_request(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.commit({("orders", 0): 5}, generation_id_or_member_epoch=-1)
        named = of.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
        asked = [of.OffsetFetchRequestGroup(group_id="g", topics=None)] * 3
        asked.append(of.OffsetFetchRequestGroup(group_id="g", topics=[named]))
        answer: Any = await gateway.ask(of, of.OffsetFetchRequest(groups=asked), 9)

    found = [each.topics[0].partitions[0].committed_offset for each in answer.groups]
    assert found == [5, 5]
