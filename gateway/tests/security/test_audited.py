"""What a gateway writes to its audit log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from trio.testing import MockClock

from tests.worlds.sasl_client import (
    LISTENER,
    authenticate,
    handshake,
    log_in,
    plain_token,
    sasl_settings,
)
from tests.worlds.wire_client import Closed, records_batch, wire_world
from tidegate_gateway.blocking import Inline
from tidegate_gateway.security.audit_chain import verify
from tidegate_gateway.security.audit_log import open_audit_log
from tidegate_gateway.security.authority import MAX_LINES
from tidegate_gateway.security.authorizer_settings import STANDARD
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import metadata as md

SETTINGS = {
    **sasl_settings({"alice": "alices-secret", "bob": "bobs-secret"}),
    "authorizer.class.name": STANDARD,
    "super.users": "User:alice",
}


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
