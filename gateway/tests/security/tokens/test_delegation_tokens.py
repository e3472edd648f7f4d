"""Delegation tokens through a whole gateway: secrets, sessions, removal, other gateways."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
from authentications.scram import NONCE, Scram
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.security.sasl_client import LISTENER, handshake, log_in, sasl_settings
from tests.worlds.wire_client import Closed, WireClient, WireWorld, wire_world
from tidegate_coordination.events.metadata_versions import DELEGATION_TOKENS
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.security import tokens as rules
from tidegate_coordination.rules.security.tokens import MAX_RENEWERS
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.network.call import Login, Peer
from tidegate_gateway.requests.tokens import delegation_tokens as handlers
from tidegate_gateway.requests.tokens.token_upkeep import TokenUpkeep
from tidegate_gateway.security.audit_log import AuditLog, open_audit_log
from tidegate_gateway.security.sasl.mechanism import NotYet
from tidegate_gateway.security.tokens import logins as logins_module
from tidegate_gateway.work.blocking import Inline
from tidegate_protocol.messages import create_delegation_token as cdt
from tidegate_protocol.messages import describe_delegation_token as ddt
from tidegate_protocol.messages import expire_delegation_token as edt
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import renew_delegation_token as rdt
from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_storage.stores.memory_store import MemoryObjectStore

KEY = "canary-of-the-key"
HOUR_MS = 3_600_000
METADATA = me.MetadataRequest([])
SETTINGS = {
    **sasl_settings({"alice": "secret", "bob": "secret"}, "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
    "connection.failed.authentication.delay.ms": "0",
    "delegation.token.secret.key": KEY,
}


@asynccontextmanager
async def token_world(
    log: MemoryLog | None = None,
    audit: AuditLog | None = None,
    node_id: int = 1,
    highest_version: int = DELEGATION_TOKENS,
    store: MemoryObjectStore | None = None,
    start: float | None = None,
    **more: str,
) -> AsyncIterator[WireWorld]:
    given = SETTINGS | {name.replace("_", "."): text for name, text in more.items()}
    async with wire_world(
        given,
        listeners=(LISTENER, "PLAINTEXT"),
        log=log,
        audit=audit,
        node_id=node_id,
        seed=node_id,
        highest_version=highest_version,
        store=store,
        start=start,
    ) as world:
        yield world


async def user(world: WireWorld, name: str = "alice") -> WireClient:
    client = world.connect()
    await log_in(client, name)
    return client


async def create(client: WireClient, lifetime_ms: int = -1, *renewers: str) -> Any:
    rows = [cdt.CreatableRenewers("User", each) for each in renewers]
    request = cdt.CreateDelegationTokenRequest("", "", rows, lifetime_ms)
    answer = await client.call("CreateDelegationToken", 3, request)
    assert answer.error_code == 0
    return answer


async def describe(client: WireClient) -> list[str]:
    request = ddt.DescribeDelegationTokenRequest(None)
    answer = await client.call("DescribeDelegationToken", 3, request)
    assert answer.error_code == 0
    return [each.token_id for each in answer.tokens]


async def log_in_by(
    client: WireClient, token: Any, mechanism: str = "SCRAM-SHA-256"
) -> sa.SaslAuthenticateResponse:
    """Log in with a token; return the last answer."""
    first = f"n,,n={token.token_id},r={NONCE},tokenauth=true"
    scram = Scram(mechanism, first, b64encode(token.hmac).decode())
    await handshake(client, mechanism)
    request = sa.SaslAuthenticateRequest(first.encode())
    answer = await client.call("SaslAuthenticate", 2, request)
    if not answer.error_code:
        request = sa.SaslAuthenticateRequest(scram.final(answer.auth_bytes))
        answer = await client.call("SaslAuthenticate", 2, request)
    found: sa.SaslAuthenticateResponse = answer
    return found


def principals(world: WireWorld) -> list[tuple[str, Login]]:
    return [(each.peer.principal, each.peer.login) for each in world.gateway.connections]


async def test_a_secret_is_the_hmac_of_the_id(autojump_clock: MockClock) -> None:
    async with token_world() as world:
        token = await create(await user(world))
        made = hmac.new(KEY.encode(), token.token_id.encode(), hashlib.sha512).digest()
        assert token.hmac == made


async def test_a_token_logs_its_owner_in_until_it_ends(autojump_clock: MockClock) -> None:
    async with token_world() as world:
        token = await create(await user(world), 300_000)
        client = world.connect()
        answer = await log_in_by(client, token, "SCRAM-SHA-512")
        assert answer.error_code == 0
        assert 295_000 < answer.session_lifetime_ms <= 300_000
        assert ("User:alice", Login.TOKEN) in principals(world)
        assert (await client.call("Metadata", 12, METADATA)).brokers
        await trio.sleep(301)
        with pytest.raises(Closed):
            await client.call("Metadata", 12, METADATA)
        late = await log_in_by(world.connect(), token)
        assert late.error_code == 58


async def test_a_session_ends_at_the_sooner_of_two_times(autojump_clock: MockClock) -> None:
    async with token_world(connections_max_reauth_ms="5000") as world:
        answer = await log_in_by(world.connect(), await create(await user(world)))
        assert answer.session_lifetime_ms == 5_000
        answer = await log_in_by(world.connect(), await create(await user(world), 3_000))
        assert 0 < answer.session_lifetime_ms <= 3_000


async def test_a_renewed_token_logs_in_again_on_the_same_connection(
    autojump_clock: MockClock,
) -> None:
    async with token_world(delegation_token_expiry_time_ms="10000") as world:
        owner = await user(world)
        token = await create(owner)
        client = world.connect()
        assert (await log_in_by(client, token)).session_lifetime_ms <= 10_000
        await trio.sleep(8)
        renewal = rdt.RenewDelegationTokenRequest(token.hmac, -1)
        assert (await owner.call("RenewDelegationToken", 2, renewal)).error_code == 0
        assert (await log_in_by(client, token)).session_lifetime_ms > 9_000
        await trio.sleep(8)
        assert (await client.call("Metadata", 12, METADATA)).brokers


async def test_a_removed_token_lets_nobody_in(autojump_clock: MockClock) -> None:
    async with token_world() as world:
        owner = await user(world)
        token = await create(owner)
        assert (await log_in_by(world.connect(), token)).error_code == 0
        # This holds between the two messages of a login, too.
        client = world.connect()
        await handshake(client, "SCRAM-SHA-256")
        first = f"n,,n={token.token_id},r={NONCE},tokenauth=true"
        request = sa.SaslAuthenticateRequest(first.encode())
        challenge = (await client.call("SaslAuthenticate", 2, request)).auth_bytes
        removal = edt.ExpireDelegationTokenRequest(token.hmac, -1)
        assert (await owner.call("ExpireDelegationToken", 2, removal)).error_code == 0
        scram = Scram("SCRAM-SHA-256", first, b64encode(token.hmac).decode())
        request = sa.SaslAuthenticateRequest(scram.final(challenge))
        assert (await client.call("SaslAuthenticate", 2, request)).error_code == 58
        assert (await log_in_by(world.connect(), token)).error_code == 58


async def test_a_slow_clock_elsewhere_revives_no_token(autojump_clock: MockClock) -> None:
    log, store = MemoryLog(), MemoryObjectStore()
    later = trio.current_time() + 60
    async with (
        token_world(log, store=store, start=later) as slow,
        token_world(log, node_id=2, store=store) as right,
    ):
        owner, bob, elsewhere = await user(right), await user(right, "bob"), await user(slow)
        token = await create(owner, 120_000)
        renewal = rdt.RenewDelegationTokenRequest(token.hmac, -1)
        ending = edt.ExpireDelegationTokenRequest(token.hmac, 1_000)
        assert (await owner.call("RenewDelegationToken", 2, renewal)).error_code == 0
        await trio.sleep(90)
        assert (await owner.call("RenewDelegationToken", 2, renewal)).error_code == 66
        assert (await owner.call("ExpireDelegationToken", 2, ending)).error_code == 66
        assert (await bob.call("ExpireDelegationToken", 2, ending)).error_code == 63
        assert (await log_in_by(right.connect(), token)).error_code == 58
        # The renewal succeeds, because the slower of two clocks counts.
        assert (await elsewhere.call("RenewDelegationToken", 2, renewal)).error_code == 0
        removal = edt.ExpireDelegationTokenRequest(token.hmac, -1)
        assert (await owner.call("ExpireDelegationToken", 2, removal)).error_code == 0


async def test_expired_tokens_are_removed(autojump_clock: MockClock) -> None:
    async with token_world(delegation_token_expiry_check_interval_ms="30000") as world:
        owner = await user(world)
        await create(owner, 40_000)
        lasting = await create(owner)
        await trio.sleep(35)
        assert len(await describe(owner)) == 2
        with capture_logs() as lines:
            await trio.sleep(120)
        removals = [each for each in lines if "were removed" in each["event"]]
        assert [each["removed"] for each in removals] == [1]
        assert await describe(owner) == [lasting.token_id]
        assert list(world.gateway.coordinator.state.tokens.ids) == [lasting.token_id]


def _removal(gateway: Gateway) -> TokenUpkeep:
    may_expire = gateway.keepers.housekeeper.may_expire_here
    return TokenUpkeep(gateway.coordinator, may_expire, gateway.upkeep, 1.0)


async def test_what_the_rule_does_not_remove_is_not_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world() as world:
        await create(await user(world), 10_000)
        await trio.sleep(100)
        monkeypatch.setattr(rules, "_now_ms", lambda _: 0)
        with capture_logs() as lines:
            await _removal(world.gateway).remove_once()
        assert len(world.gateway.coordinator.state.tokens.ids) == 1
        assert not [each for each in lines if "were removed" in each["event"]]


async def test_a_token_is_good_up_to_and_with_its_last_millisecond(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world() as world:
        token = await create(await user(world), 10_000)
        table, logins = world.gateway.coordinator.state.tokens, world.gateway.logins.token_logins
        row = table.get(token.token_id)
        assert row is not None
        find = logins.begin()
        with pytest.raises(NotYet) as until:
            find("SCRAM-SHA-256", token.token_id)
        await until.value.wait()
        now_ms = row.expires_ms + 1
        monkeypatch.setattr(logins_module, "judging_ms", lambda *_: now_ms)
        with pytest.raises(NotYet) as until:  # another gateway may have renewed the token
            find("SCRAM-SHA-256", token.token_id)
        await until.value.wait()
        assert find("SCRAM-SHA-256", token.token_id) is None
        now_ms = row.expires_ms
        assert find("SCRAM-SHA-256", token.token_id) is not None
        answer = await log_in_by(world.connect(), token)
        # 0 would mean that the session never expires.
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 1)


async def test_the_audit_log_tells_logins_by_tokens_from_others(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path = tmp_path / "audit.log"
    audit = open_audit_log(str(path), Inline(), lambda: 1_700_000_000_000)
    async with token_world(audit=audit) as world:
        token = await create(await user(world))
        assert (await log_in_by(world.connect(), token)).error_code == 0
        wrong = cdt.CreateDelegationTokenResponse(token_id=token.token_id, hmac=b"wrong")
        assert (await log_in_by(world.connect(), wrong)).error_code == 58
        unknown = cdt.CreateDelegationTokenResponse(token_id="a-stranger", hmac=token.hmac)
        assert (await log_in_by(world.connect(), unknown)).error_code == 58
    await audit.flush()
    entries = [msgspec.json.decode(each) for each in path.read_bytes().splitlines()]
    logins = [
        (each["event"], each["mechanism"], each.get("token"))
        for each in entries
        if each["event"].startswith("log")
    ]
    assert logins == [
        ("logged in", "PLAIN", None),
        ("logged in", "SCRAM-SHA-256", token.token_id),
        ("login failed", "SCRAM-SHA-256", token.token_id),
        ("login failed", "SCRAM-SHA-256", None),
    ]
    assert b"a-stranger" not in path.read_bytes()


async def test_below_the_level_there_are_no_tokens(autojump_clock: MockClock) -> None:
    async with token_world(highest_version=DELEGATION_TOKENS - 1) as world:
        client = await user(world)
        request = cdt.CreateDelegationTokenRequest(max_lifetime_ms=-1)
        answer = await client.call("CreateDelegationToken", 3, request)
        assert answer.error_code == 35
        assert await describe(client) == []


async def test_long_lists_are_bounded(autojump_clock: MockClock) -> None:
    async with token_world() as world:
        client = await user(world)
        rows = [cdt.CreatableRenewers("User", "")] * (MAX_RENEWERS + 1)
        request = cdt.CreateDelegationTokenRequest("", "", rows, -1)
        assert (await client.call("CreateDelegationToken", 3, request)).error_code == 44
        rows = [cdt.CreatableRenewers("User", "x" * 10_000)]
        request = cdt.CreateDelegationTokenRequest("", "", rows, -1)
        assert (await client.call("CreateDelegationToken", 3, request)).error_code == 44
        token = await create(client)
        owners = [ddt.DescribeDelegationTokenOwner("User", f"u{each}") for each in range(5_000)]
        asked = ddt.DescribeDelegationTokenRequest(owners)
        assert (await client.call("DescribeDelegationToken", 3, asked)).tokens == []
        asked.owners = [*owners, ddt.DescribeDelegationTokenOwner("User", "alice")]
        [found] = (await client.call("DescribeDelegationToken", 3, asked)).tokens
        assert found.token_id == token.token_id


async def test_many_renewers_are_described_in_turns(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world() as world:
        client = await user(world)
        for _ in range(20):
            await create(client, -1, *("",) * MAX_RENEWERS)
        turns: list[float] = []

        async def checkpoint() -> None:
            turns.append(trio.current_time())

        lowlevel = SimpleNamespace(checkpoint=checkpoint)
        monkeypatch.setattr(handlers, "trio", SimpleNamespace(lowlevel=lowlevel))
        request = ddt.DescribeDelegationTokenRequest(None)
        answer = await client.call("DescribeDelegationToken", 3, request)
        assert [len(each.renewers) for each in answer.tokens] == [MAX_RENEWERS] * 20
        assert len(turns) == 10


@pytest.mark.parametrize(
    ("login", "principal", "may"),
    [
        (Login.NONE, "User:ANONYMOUS", False),
        (Login.NONE, "User:CN=alice", True),
        (Login.CREDENTIALS, "User:alice", True),
        (Login.CREDENTIALS, "User:ANONYMOUS", True),
        (Login.TOKEN, "User:alice", False),
    ],
)
def test_who_may_ask_about_tokens(login: Login, principal: str, may: bool) -> None:
    assert Peer("h", 1, "L", principal=principal, login=login).may_have_tokens is may
