"""Delegation tokens through a whole gateway: secrets, sessions, removal, other gateways."""

from __future__ import annotations

import hashlib
import hmac
import logging
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
from authentications.cases import NONCE, Scram
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.canaries import leaks
from tests.worlds.sasl_client import LISTENER, handshake, log_in, sasl_settings
from tests.worlds.wire_client import Closed, WireClient, WireWorld, wire_world
from tidegate_coordination.events.metadata_versions import DELEGATION_TOKENS
from tidegate_coordination.events.security import DelegationTokenSet, DelegationTokensRemoved
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules import tokens as rules
from tidegate_coordination.rules.tokens import MAX_RENEWERS
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.tokens import TokenTable
from tidegate_gateway.blocking import Inline
from tidegate_gateway.network.call import Login, Peer
from tidegate_gateway.requests.cluster import delegation_tokens as handlers
from tidegate_gateway.security.audit_log import AuditLog, open_audit_log
from tidegate_gateway.security.sasl.mechanism import NotYet
from tidegate_gateway.security.tokens import logins as logins_module
from tidegate_gateway.security.tokens import secrets as secrets_module
from tidegate_gateway.security.tokens.secrets import TokenFinder, TokenSecrets, new_token_id
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_delegation_token as cdt
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import describe_delegation_token as ddt
from tidegate_protocol.messages import expire_delegation_token as edt
from tidegate_protocol.messages import metadata as me
from tidegate_protocol.messages import renew_delegation_token as rdt
from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_runtime.secret import Secret
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
    """Log in by a token; return the last answer."""
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
        # Between the two messages of a login, too.
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
        # By the rules it is good still: the slower of two clocks counts.
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


async def test_what_the_rule_does_not_remove_is_not_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world() as world:
        await create(await user(world), 10_000)
        await trio.sleep(100)
        monkeypatch.setattr(rules, "_now_ms", lambda _: 0)
        with capture_logs() as lines:
            await world.gateway._make_token_upkeep().remove_once()
        assert len(world.gateway.coordinator.state.tokens.ids) == 1
        assert not [each for each in lines if "were removed" in each["event"]]


async def test_a_token_is_good_up_to_and_with_its_last_millisecond(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world() as world:
        token = await create(await user(world), 10_000)
        table, logins = world.gateway.coordinator.state.tokens, world.gateway.token_logins
        row = table.get(token.token_id)
        assert row is not None
        find = logins.begin()
        with pytest.raises(NotYet) as until:
            find("SCRAM-SHA-256", token.token_id)
        await until.value.wait()
        now_ms = row.expires_ms + 1
        monkeypatch.setattr(logins_module, "judging_ms", lambda *_: now_ms)
        with pytest.raises(NotYet) as until:  # it may have been renewed elsewhere
            find("SCRAM-SHA-256", token.token_id)
        await until.value.wait()
        assert find("SCRAM-SHA-256", token.token_id) is None
        now_ms = row.expires_ms
        assert find("SCRAM-SHA-256", token.token_id) is not None
        answer = await log_in_by(world.connect(), token)
        # 0 would mean that the session has no end.
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 1)


async def test_a_token_of_another_gateway_is_good_at_once(autojump_clock: MockClock) -> None:
    log, store = MemoryLog(), MemoryObjectStore()
    async with (
        token_world(log, store=store) as one,
        token_world(log, node_id=2, store=store) as other,
    ):
        owner, elsewhere = await user(one), await user(other)
        token = await create(owner)
        assert (await log_in_by(other.connect(), token)).error_code == 0
        newer = await create(owner)
        renewal = rdt.RenewDelegationTokenRequest(newer.hmac, -1)
        assert (await elsewhere.call("RenewDelegationToken", 2, renewal)).error_code == 0
        newest = await create(owner)
        assert newest.token_id in await describe(elsewhere)


async def test_a_login_reads_the_log_for_a_token_that_is_not_here_yet(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world() as world:
        token = await create(await user(world))
        coordinator = world.gateway.coordinator
        row = coordinator.state.tokens.get(token.token_id)
        assert row is not None
        coordinator.state.tokens.fold_removed(DelegationTokensRemoved((token.token_id,)))

        async def catch_up() -> None:
            coordinator.state.tokens.fold_set(DelegationTokenSet(row))

        monkeypatch.setattr(coordinator, "catch_up", catch_up)
        assert (await log_in_by(world.connect(), token)).error_code == 0


@pytest.mark.parametrize("renews", [True, False])
async def test_a_renewal_that_is_not_here_yet_counts(
    renews: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another gateway has confirmed it: so the token has not ended, whatever this one has read."""
    async with token_world(delegation_token_expiry_time_ms="10000") as world:
        owner = await user(world)
        token = await create(owner)
        coordinator = world.gateway.coordinator
        old = coordinator.state.tokens.get(token.token_id)
        assert old is not None
        await trio.sleep(8)
        renewal = rdt.RenewDelegationTokenRequest(token.hmac, -1)
        assert (await owner.call("RenewDelegationToken", 2, renewal)).error_code == 0
        renewed = coordinator.state.tokens.get(token.token_id)
        assert renewed is not None
        await trio.sleep(4)
        coordinator.state.tokens.fold_set(DelegationTokenSet(old))

        async def catch_up() -> None:
            coordinator.state.tokens.fold_set(DelegationTokenSet(renewed))

        monkeypatch.setattr(coordinator, "catch_up", catch_up)
        if renews:
            code = (await owner.call("RenewDelegationToken", 2, renewal)).error_code
        else:
            expiry = edt.ExpireDelegationTokenRequest(token.hmac, 1_000)
            code = (await owner.call("ExpireDelegationToken", 2, expiry)).error_code
        assert code == 0


async def test_a_token_that_was_removed_meanwhile_is_not_found(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world(delegation_token_expiry_time_ms="10000") as world:
        owner = await user(world)
        token = await create(owner)
        coordinator = world.gateway.coordinator
        await trio.sleep(11)

        async def catch_up() -> None:
            removed = DelegationTokensRemoved((token.token_id,))
            coordinator.state.tokens.fold_removed(removed)

        monkeypatch.setattr(coordinator, "catch_up", catch_up)
        renewal = rdt.RenewDelegationTokenRequest(token.hmac, -1)
        answer = await owner.call("RenewDelegationToken", 2, renewal)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_a_login_reads_the_log_for_a_token_that_has_ended_here(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world(delegation_token_expiry_time_ms="10000") as world:
        token = await create(await user(world))
        coordinator = world.gateway.coordinator
        row = coordinator.state.tokens.get(token.token_id)
        assert row is not None
        await trio.sleep(11)

        async def catch_up() -> None:
            renewed = msgspec.structs.replace(row, expires_ms=row.expires_ms + 10_000)
            coordinator.state.tokens.fold_set(DelegationTokenSet(renewed))

        monkeypatch.setattr(coordinator, "catch_up", catch_up)
        assert (await log_in_by(world.connect(), token)).error_code == 0


async def test_strangers_have_the_log_read_once_a_second(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with token_world() as world:
        reads: list[float] = []

        async def catch_up() -> None:
            reads.append(trio.current_time())
            await trio.sleep(0.01)

        monkeypatch.setattr(world.gateway.coordinator, "catch_up", catch_up)
        codes: list[int] = []

        async def stranger(number: int) -> None:
            await trio.sleep(number / 100)
            token = cdt.CreateDelegationTokenResponse(token_id=f"no-{number}", hmac=b"x")
            codes.append((await log_in_by(world.connect(), token)).error_code)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(stranger, number)
        assert codes == [58] * 50
        assert len(reads) == 2
        assert reads[1] - reads[0] >= 1.0


async def test_a_credential_is_computed_once(autojump_clock: MockClock) -> None:
    async with token_world() as world:
        token = await create(await user(world))
        runs: list[str] = []
        inline = world.gateway._environment.pools.logins

        class Counting(Inline):
            async def run(self, function: Any) -> Any:
                runs.append(str(function))
                return await inline.run(function)

        logins = world.gateway.token_logins
        object.__setattr__(logins, "_blocking", Counting())
        for _ in range(3):
            assert (await log_in_by(world.connect(), token)).error_code == 0
        assert len(runs) == 1
        assert (await log_in_by(world.connect(), token, "SCRAM-SHA-512")).error_code == 0
        assert len(runs) == 2


async def test_logins_wait_for_the_first_by_the_same_token(autojump_clock: MockClock) -> None:
    async with token_world() as world:
        owner = await user(world)
        token, other = await create(owner), await create(owner)
        runs: list[float] = []

        class Slow(Inline):
            async def run(self, function: Any) -> Any:
                runs.append(trio.current_time())
                await trio.sleep(2)
                return function()

        object.__setattr__(world.gateway.token_logins, "_blocking", Slow())
        codes: list[int] = []

        async def machine(wanted: Any) -> None:
            codes.append((await log_in_by(world.connect(), wanted)).error_code)

        async with trio.open_nursery() as nursery:
            # It gives up halfway: another one then computes in its place.
            with trio.move_on_after(1):
                key = "SCRAM-SHA-256", token.token_id
                nursery.start_soon(machine, other)
                for _ in range(10):
                    nursery.start_soon(machine, token)
                await world.gateway.token_logins._make(*key)
        assert codes == [0] * 11
        assert len(runs) == 3


async def test_neither_key_nor_secrets_are_told(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "audit.log"
    audit = open_audit_log(str(path), Inline(), lambda: 1_700_000_000_000)
    log = MemoryLog()
    with capture_logs() as lines:
        async with token_world(log, audit) as world:
            owner = await user(world)
            token = await create(owner, -1, "bob")
            bob = await user(world, "bob")
            renewal = rdt.RenewDelegationTokenRequest(token.hmac, HOUR_MS)
            assert (await bob.call("RenewDelegationToken", 2, renewal)).error_code == 0
            assert (await log_in_by(world.connect(), token)).error_code == 0
            shown = dc.DescribeConfigsRequest([dc.DescribeConfigsResource(4, "1", None)])
            answer = await world.connect(listener="PLAINTEXT").call("DescribeConfigs", 4, shown)
            configs = {each.name: each for each in answer.results[0].configs}
            secret_key = configs["delegation.token.secret.key"]
            assert (secret_key.value, secret_key.is_sensitive) == (None, True)
            removal = edt.ExpireDelegationTokenRequest(token.hmac, -1)
            assert (await bob.call("ExpireDelegationToken", 2, removal)).error_code == 0
            state = world.gateway.coordinator.state.encode()
            texts = [repr(world.gateway.token_secrets), repr(world.gateway.settings)]
    await audit.flush()
    entries = await log.read(1, 1 << 20)
    assert isinstance(entries, list)
    told = b"".join(each.payload for each in entries) + state + path.read_bytes()
    told += f"{lines}{texts}{answer}{caplog.text}".encode()
    assert token.token_id.encode() in told
    assert leaks({"key": KEY.encode(), "secret": token.hmac}, told, "told") == []
    audited = [msgspec.json.decode(each) for each in path.read_bytes().splitlines()]
    events = [
        (each["event"], each["principal"], each["names"]) for each in audited if "names" in each
    ]
    assert events == [
        ("delegation token created", "User:alice", [token.token_id]),
        ("delegation token renewed", "User:bob", [token.token_id]),
        ("delegation token removed", "User:bob", [token.token_id]),
    ]


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


async def test_the_finder_follows_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_module, "SECRETS_A_TURN", 3)
    async with token_world() as world:
        table = world.gateway.coordinator.state.tokens
        secrets = TokenSecrets(Secret(KEY))
        finder = TokenFinder(table, secrets)
        owner = await user(world)
        tokens = [await create(owner) for _ in range(10)]
        for each in tokens:
            assert await finder.find(each.hmac) == each.token_id
        assert await finder.find(b"") is None
        removal = edt.ExpireDelegationTokenRequest(tokens[4].hmac, -1)
        await owner.call("ExpireDelegationToken", 2, removal)
        assert await finder.find(tokens[4].hmac) is None
        assert len(finder._ids) == len(finder._by_id) == 9
        assert await finder.find(tokens[5].hmac) == tokens[5].token_id


async def test_requests_at_once_make_each_secret_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_module, "SECRETS_A_TURN", 10)
    table, made = TokenTable(), Counter[str]()

    class Counting(TokenSecrets):
        def of(self, token_id: str) -> bytes:
            made[token_id] += 1
            return token_id.encode()

    finder = TokenFinder(table, Counting(Secret(KEY)))
    rows = [DelegationToken(f"{each}", "User:a", "User:a", (), 1, 2, 2) for each in range(100)]
    for row in rows:
        table.fold_set(DelegationTokenSet(row))
    found: list[str | None] = []

    async def ask(number: int) -> None:
        found.append(await finder.find(b"%d" % number))

    async def remove() -> None:
        table.fold_removed(DelegationTokensRemoved(tuple(f"{each}" for each in range(50, 100))))

    async with trio.open_nursery() as nursery:
        for number in range(0, 100, 10):
            nursery.start_soon(ask, number)
        nursery.start_soon(remove)
    assert set(found) >= {"0", "10", "20", "30", "40"}
    assert await finder.find(b"60") is None
    assert finder._by_id.keys() == table.ids == set(finder._ids.values())
    assert set(made.values()) == {1}


def test_a_key_may_hold_bytes_that_are_no_text() -> None:
    """It may come from the environment."""
    odd = Secret(b"\xff".decode(errors="surrogateescape"))
    assert TokenSecrets(odd).of("a") == hmac.digest(b"\xff", b"a", "sha512")


def test_no_id_begins_with_a_dash() -> None:
    drawn = iter([b"\xf8" + bytes(15), b"\1" * 16])
    assert new_token_id(lambda _: next(drawn)) == "AQEBAQEBAQEBAQEBAQEBAQ"
