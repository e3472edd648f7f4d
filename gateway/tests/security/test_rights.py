"""The rights of clients at a gateway with an authorizer, by the bytes that they send."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import (
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    wire_world,
)
from tidegate_coordination.rules.security.acls import CreateAcls, DeleteAcls
from tidegate_coordination.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import metadata as md
from tidegate_runtime.settings_texts import SettingsError

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ANYBODY = "User:ANONYMOUS"
SETTINGS = {"authorizer.class.name": STANDARD}
OPEN = {**SETTINGS, "allow.everyone.if.no.acl.found": "true"}


def acl(
    operation: Operation,
    name: str,
    *,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
    kind: ResourceType = ResourceType.TOPIC,
) -> Acl:
    """Return an ACL of the principal that all clients without a login have."""
    return Acl(kind, PatternType.LITERAL, name, ANYBODY, host, operation, permission)


async def allow(world: WireWorld, *acls: Acl) -> None:
    """Add ACLs."""
    assert await world.gateway.coordinator.propose(CreateAcls(acls)) is None


async def forbid(world: WireWorld, acl_: Acl) -> None:
    """Remove an ACL."""
    wanted = AclFilter(name=acl_.name, operation=acl_.operation, host=acl_.host)
    await world.gateway.coordinator.propose(DeleteAcls([wanted]))


async def produce_code(client: WireClient, topic: str = "t", **more: str) -> int:
    """Produce a record; return the error code."""
    answer = await client.produce(topic, 0, records_batch(b"v"), **more)
    code: int = answer.error_code
    return code


def fetch_request(*topics: str, **more: Any) -> fe.FetchRequest:
    """Return a request to fetch topics from their beginning."""
    asked = fe.FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    wanted = [fe.FetchTopic(topic=each, partitions=[asked]) for each in topics]
    return fe.FetchRequest(max_bytes=1000, topics=wanted, **more)


async def fetched(client: WireClient, **more: Any) -> fe.PartitionData:
    """Fetch without a session."""
    request = fetch_request("t", session_epoch=-1, **more)
    [answer] = (await client.call("Fetch", 12, request)).responses[0].partitions
    assert isinstance(answer, fe.PartitionData)
    return answer


async def test_nothing_is_allowed_without_acls(autojump_clock: MockClock) -> None:
    async with wire_world(SETTINGS) as world:
        client = world.connect()
        assert await produce_code(client) == DENIED
        assert (await fetched(client)).error_code == DENIED


async def test_writing_goes_by_write_on_both_paths(autojump_clock: MockClock) -> None:
    async with wire_world(OPEN) as world:
        await world.create_topic("t", 1)
        client, other = world.connect("friend"), world.connect("stranger")
        for each in (client, client, client):  # the fast path has a route for the third request
            assert await produce_code(each) == 0
        right = acl(Operation.WRITE, "t", host="friend")
        await allow(world, right)
        assert await produce_code(client) == 0
        assert await produce_code(other) == DENIED
        assert await produce_code(client) == 0
        assert await produce_code(other) == DENIED
        await forbid(world, right)
        await allow(world, acl(Operation.READ, "t"))
        assert await produce_code(client) == DENIED


async def test_a_route_is_not_anothers(autojump_clock: MockClock) -> None:
    """Two clients send the same first bytes, and only one of them may write."""
    async with wire_world(OPEN) as world:
        await world.create_topic("t", 1)
        friend, stranger = world.connect("friend"), world.connect("stranger")
        for _ in range(3):  # the first request does not take the fast path
            assert await produce_code(stranger) == 0
        await allow(world, acl(Operation.WRITE, "t", host="friend"))
        for _ in range(3):
            assert await produce_code(friend) == 0
            assert await produce_code(stranger) == DENIED


async def test_a_denied_name_tells_nothing_and_reads_no_log(autojump_clock: MockClock) -> None:
    async with wire_world(SETTINGS) as world:
        client = world.connect()
        reads = 0
        catch_up = world.gateway.coordinator.catch_up

        async def counted() -> None:
            nonlocal reads
            reads += 1
            await catch_up()

        world.gateway.coordinator.catch_up = counted  # type: ignore[method-assign]
        assert await produce_code(client, "missing") == DENIED
        asked = [md.MetadataRequestTopic(name="missing")]
        answer = await client.call("Metadata", 12, md.MetadataRequest(asked))
        assert answer.topics[0].error_code == DENIED
        assert reads == 0


async def test_a_transactional_id_needs_write(autojump_clock: MockClock) -> None:
    async with wire_world(SETTINGS) as world:
        await allow(world, acl(Operation.WRITE, "t"))
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        header = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        batch = records_batch(b"v", attributes=TRANSACTIONAL, **header)
        for _ in range(3):
            answer = await world.connect().produce("t", 0, batch, transactional_id="x")
            assert answer.error_code == code


async def test_topic_ids_are_checked_by_name(autojump_clock: MockClock) -> None:
    async with wire_world(OPEN) as world:
        topic_id = await world.create_topic("t", 1)
        client = world.connect()
        await allow(world, acl(Operation.DESCRIBE, "t"))
        request = produce_request([("", 0, records_batch(b"v"))], topic_id=topic_id)
        [topic] = (await client.call("Produce", 13, request)).responses
        assert topic.partition_responses[0].error_code == DENIED
        asked = fe.FetchTopic(topic_id=topic_id, partitions=[fe.FetchPartition(0)])
        unknown = fe.FetchTopic(topic_id=b"u" * 16, partitions=[fe.FetchPartition(0)])
        wanted = fe.FetchRequest(session_epoch=-1, topics=[asked, unknown])
        answer = await client.call("Fetch", 13, wanted)
        codes = [each.partitions[0].error_code for each in answer.responses]
        assert codes == [DENIED, ErrorCode.UNKNOWN_TOPIC_ID]


async def test_a_session_of_fetches_is_checked_at_each(autojump_clock: MockClock) -> None:
    async with wire_world(OPEN) as world:
        await world.create_topic("t", 1)
        client = world.connect()
        assert await produce_code(client) == 0
        first = await client.call("Fetch", 12, fetch_request("t", session_epoch=0))
        assert first.session_id
        assert first.responses[0].partitions[0].records
        await allow(world, acl(Operation.WRITE, "t"))
        request = fe.FetchRequest(session_id=first.session_id, session_epoch=1, max_bytes=1000)
        [topic] = (await client.call("Fetch", 12, request)).responses
        assert topic.partitions[0].error_code == DENIED
        assert not topic.partitions[0].records


async def test_a_session_of_fetches_is_its_principals(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        owner = world.connect()
        assert await produce_code(owner) == 0
        before = set(world.gateway.connections)
        thief = world.connect()
        assert await produce_code(thief) == 0
        [connection] = world.gateway.connections - before
        connection.peer.principal = "User:thief"
        first = await owner.call("Fetch", 12, fetch_request("t", session_epoch=0))
        stolen = fe.FetchRequest(session_id=first.session_id, session_epoch=1, max_bytes=1000)
        answer = await thief.call("Fetch", 12, stolen)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        await thief.call("Fetch", 12, fetch_request(session_id=first.session_id, session_epoch=-1))
        assert (await owner.call("Fetch", 12, stolen)).error_code == 0


async def test_a_fetch_that_waits_is_checked_again(autojump_clock: MockClock) -> None:
    async with wire_world(OPEN) as world:
        await world.create_topic("t", 1)
        reader, writer = world.connect("reader"), world.connect("writer")
        found: list[fe.PartitionData] = []

        async def wait() -> None:
            found.append(await fetched(reader, max_wait_ms=30_000, min_bytes=1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            await allow(world, acl(Operation.WRITE, "t"))
            assert await produce_code(writer) == 0
        assert found[0].error_code == DENIED
        assert not found[0].records


async def test_a_partition_without_news_is_checked_again(autojump_clock: MockClock) -> None:
    """The fetch waits, and ends when another partition gets a record."""
    async with wire_world(OPEN) as world:
        for name in ("t", "u"):
            await world.create_topic(name, 1)
        reader, writer = world.connect("reader"), world.connect("writer")
        found: list[fe.FetchResponse] = []

        async def wait() -> None:
            request = fetch_request("t", "u", session_epoch=-1, max_wait_ms=30_000, min_bytes=1)
            found.append(await reader.call("Fetch", 12, request))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            await allow(world, acl(Operation.WRITE, "t"))
            assert await produce_code(writer, "u") == 0
        codes = {each.topic: each.partitions[0].error_code for each in found[0].responses}
        assert codes == {"t": DENIED, "u": 0}


async def test_a_topic_is_created_on_the_way_with_create_only(autojump_clock: MockClock) -> None:
    async with wire_world(SETTINGS) as world:
        client = world.connect()
        await allow(world, acl(Operation.DESCRIBE, "new"))
        asked = md.MetadataRequest([md.MetadataRequestTopic(name="new")])
        answer = await client.call("Metadata", 12, asked)
        assert answer.topics[0].error_code == DENIED
        assert not world.gateway.coordinator.state.topics.by_name
        await allow(world, acl(Operation.CREATE, "new"))
        answer = await client.call("Metadata", 12, asked)
        assert answer.topics[0].error_code == 0


async def test_super_users_may_do_everything(autojump_clock: MockClock) -> None:
    async with wire_world({**SETTINGS, "super.users": f"User:admin; {ANYBODY}"}) as world:
        await world.create_topic("t", 1)
        await allow(world, acl(Operation.ALL, "t", permission=Permission.DENY))
        assert await produce_code(world.connect()) == 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"authorizer.class.name": "com.example.Mine"}, "gateways cannot run"),
        ({**SETTINGS, "super.users": "admin"}, "write User:admin"),
    ],
)
async def test_wrong_settings_are_named(settings: dict[str, str], says: str) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(SettingsError, match=says), flatten_subgroups=True):
        async with wire_world(settings):
            pass
