"""The lines of a gateway's audit log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.worlds.security.sasl_client import (
    LISTENER,
    authenticate,
    handshake,
    log_in,
    plain_token,
    sasl_settings,
)
from tests.worlds.wire_client import Closed, records_batch, request_frame, wire_world
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, LogUnavailable, Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.audit import MAX_ITEMS
from tidegate_gateway.security.audit_chain import verify
from tidegate_gateway.security.audit_log import open_audit_log
from tidegate_gateway.security.authority import MAX_LINES
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_gateway.topics.client_acts import MAX_NAMES
from tidegate_gateway.work.blocking import Inline
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import metadata as md

SETTINGS = {
    **sasl_settings({"alice": "alices-secret", "bob": "bobs-secret"}),
    "authorizer.class.name": STANDARD,
    "super.users": "User:alice",
}

Result = TypeVar("Result")


def now_ms() -> int:
    return 1_700_000_000_000


async def test_logins_denials_and_changes_are_noted_without_secrets(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path = tmp_path / "audit.log"
    audit = open_audit_log(str(path), Inline(), now_ms)
    async with wire_world(SETTINGS, listeners=(LISTENER,), audit=audit) as world:
        alice, bob, stranger = world.connect("a"), world.connect("b"), world.connect("c")
        await log_in(alice, "alice", "alices-secret")
        await log_in(bob, "bob", "bobs-secret")
        await handshake(stranger)
        assert (await authenticate(stranger, plain_token("mallory", "guessed"))).error_code
        with pytest.raises(Closed):
            await stranger.receive()
        topic = ct.CreatableTopic("t", 1, 1)
        answer = await alice.call("CreateTopics", 7, ct.CreateTopicsRequest([topic], 1000))
        assert answer.topics[0].error_code == 0
        row = ca.AclCreation(2, "t", 3, "User:bob", "*", 3, 3)
        await alice.call("CreateAcls", 3, ca.CreateAclsRequest([row]))
        assert (await bob.produce("t", 0, records_batch(b"v"))).error_code
    await audit.flush()
    lines = path.read_bytes().splitlines()
    assert verify(lines).broken == ()
    entries = [msgspec.json.decode(each) for each in lines]
    events = [(each["event"], each.get("principal")) for each in entries]
    assert events == [
        ("logged in", "User:alice"),
        ("logged in", "User:bob"),
        ("login failed", None),
        ("topics created", "User:alice"),
        ("ACLs created", "User:alice"),
        ("denied", "User:bob"),
    ]
    assert entries[4]["names"] == ["ALLOW User:bob from * READ on TOPIC t (LITERAL)"]
    assert (entries[5]["operation"], entries[5]["resource"]) == ("WRITE", "TOPIC:t")
    for secret in (b"alices-secret", b"bobs-secret", b"guessed"):
        assert secret not in path.read_bytes()


class SilentLog(MemoryLog):
    """A log that stores entries, but does not answer while it is silent."""

    is_silent = False

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload)
        self._speak()
        return result

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        self._speak()
        return await super().read(from_position, max_bytes)

    def _speak(self) -> None:
        if self.is_silent:
            raise LogUnavailable("it does not answer")


@pytest.mark.parametrize("end", ["the log does not answer", "the connection breaks"])
async def test_a_change_whose_outcome_no_client_hears_is_noted(
    end: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Otherwise a client could avoid the audit log by a broken connection or in an outage."""
    path, log = tmp_path / "audit.log", SilentLog()
    audit = open_audit_log(str(path), Inline(), now_ms)
    async with wire_world({}, log=log, audit=audit) as world:
        client = world.connect()
        topics = [ct.CreatableTopic("t", 1, 1)]
        asked = md.MetadataRequest([md.MetadataRequestTopic(name="t")], False)
        await client.call("Metadata", 12, asked)
        log.is_silent = True
        request = ct.CreateTopicsRequest(topics, 1000)
        await client.send(request_frame("CreateTopics", 7, request))
        if end == "the connection breaks":
            await trio.sleep(1)
            [connection] = world.gateway.connections
            connection.abort()
        with pytest.raises(Closed):
            await client.receive()
        log.is_silent = False
        await trio.sleep(60)
        assert "t" in world.gateway.coordinator.state.topics.by_name
    await audit.flush()
    [entry] = [msgspec.json.decode(each) for each in path.read_bytes().splitlines()]
    found = [entry[each] for each in ("event", "api", "principal", "client_id")]
    assert found == ["perhaps done", "CreateTopics", "User:ANONYMOUS", "test"]
    assert entry["peer"].startswith("client:")


class Held(Inline):
    """Runs nothing until `may_run` is set."""

    def __init__(self) -> None:
        self.may_run = trio.Event()

    async def run(self, function: Callable[[], Result]) -> Result:
        await self.may_run.wait()
        return await super().run(function)


async def test_a_change_is_answered_once_its_line_is_on_the_disk(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Otherwise a killed gateway could have acknowledged a change of which no line tells."""
    path, held = tmp_path / "audit.log", Held()
    audit = open_audit_log(str(path), held, now_ms)
    async with wire_world({}, audit=audit) as world:
        client, other = world.connect(), world.connect()
        request = ct.CreateTopicsRequest([ct.CreatableTopic("t", 1, 1)], 1000)
        await client.send(request_frame("CreateTopics", 7, request))
        with trio.move_on_after(1) as waited:
            await client.receive()
        assert waited.cancelled_caught
        assert "t" in world.gateway.coordinator.state.topics.by_name
        assert b"topics created" not in path.read_bytes()
        # A produce request waits for no line.
        answer = await other.produce("t", 0, records_batch(b"v"))
        assert answer.error_code == 0
        held.may_run.set()
        await client.receive()
        assert b"topics created" in path.read_bytes()


async def test_all_names_of_a_change_are_noted(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Otherwise a request could hide a change behind many others."""
    path = tmp_path / "audit.log"
    audit = open_audit_log(str(path), Inline(), now_ms)
    async with wire_world({}, audit=audit) as world:
        client = world.connect()
        names = [f"t{number:03}" for number in range(2 * MAX_ITEMS + 1)]
        topics = [ct.CreatableTopic(name, 1, 1) for name in names]
        await client.call("CreateTopics", 7, ct.CreateTopicsRequest(topics, 1000))
        configs = {name: each for name, each in TOPIC_CONFIGS.items() if each.default}
        rows = [ia.AlterableConfig(name, 0, each.default) for name, each in configs.items()]
        change = ia.IncrementalAlterConfigsRequest([ia.AlterConfigsResource(2, "t000", rows)])
        answer = await client.call("IncrementalAlterConfigs", 1, change)
        assert [each.error_code for each in answer.responses] == [0]
    await audit.flush()
    entries = [msgspec.json.decode(each) for each in path.read_bytes().splitlines()]
    noted = [each["names"] for each in entries if each["event"] == "topics created"]
    assert [len(each) for each in noted] == [MAX_ITEMS, MAX_ITEMS, 1]
    assert sorted(name for each in noted for name in each) == names
    altered = [name for each in entries[3:] for name in each["names"]]
    assert all(each.startswith("topic t000: ") for each in altered)
    shown = [name for each in altered for name in each.removeprefix("topic t000: ").split(", ")]
    assert len(shown) > MAX_NAMES
    assert shown == list(configs)


async def test_a_flood_of_denials_is_bounded(tmp_path: Path, autojump_clock: MockClock) -> None:
    path = tmp_path / "audit.log"
    audit = open_audit_log(str(path), Inline(), now_ms)
    settings = {"authorizer.class.name": STANDARD}
    async with wire_world(settings, audit=audit) as world:
        client = world.connect()
        asked = [md.MetadataRequestTopic(name=f"t{number}") for number in range(5 * MAX_LINES)]
        answer = await client.call("Metadata", 12, md.MetadataRequest(asked))
        assert len(answer.topics) == len(asked)
        assert world.gateway.authority is not None
        assert world.gateway.authority.denials == len(asked)
    await audit.flush()
    assert len(path.read_bytes().splitlines()) == MAX_LINES
