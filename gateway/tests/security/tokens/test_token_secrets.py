"""How often the secret of a delegation token is computed, and where it must not appear."""

from __future__ import annotations

import hmac
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.security.tokens.test_delegation_tokens import (
    HOUR_MS,
    KEY,
    create,
    log_in_by,
    token_world,
    user,
)
from tests.worlds.canaries.canaries import leaks
from tidegate_coordination.events.security import DelegationTokenSet, DelegationTokensRemoved
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.security.tokens import TokenTable
from tidegate_gateway.security.audit_log import open_audit_log
from tidegate_gateway.security.tokens import secrets as secrets_module
from tidegate_gateway.security.tokens.secrets import TokenFinder, TokenSecrets, new_token_id
from tidegate_gateway.work.blocking import Inline
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import expire_delegation_token as edt
from tidegate_protocol.messages import renew_delegation_token as rdt
from tidegate_runtime.secret import Secret


async def test_a_credential_is_computed_once(autojump_clock: MockClock) -> None:
    async with token_world() as world:
        token = await create(await user(world))
        runs: list[str] = []
        inline = world.gateway._ground.environment.pools.logins

        class Counting(Inline):
            async def run(self, function: Any) -> Any:
                runs.append(str(function))
                return await inline.run(function)

        logins = world.gateway.logins.token_logins
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

        object.__setattr__(world.gateway.logins.token_logins, "_blocking", Slow())
        codes: list[int] = []

        async def machine(wanted: Any) -> None:
            codes.append((await log_in_by(world.connect(), wanted)).error_code)

        async with trio.open_nursery() as nursery:
            # This request gives up halfway, and another request then computes the secret.
            with trio.move_on_after(1):
                key = "SCRAM-SHA-256", token.token_id
                nursery.start_soon(machine, other)
                for _ in range(10):
                    nursery.start_soon(machine, token)
                await world.gateway.logins.token_logins._make(*key)
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
    """The key may come from an environment variable."""
    odd = Secret(b"\xff".decode(errors="surrogateescape"))
    assert TokenSecrets(odd).of("a") == hmac.digest(b"\xff", b"a", "sha512")


def test_no_id_begins_with_a_dash() -> None:
    drawn = iter([b"\xf8" + bytes(15), b"\1" * 16])
    assert new_token_id(lambda _: next(drawn)) == "AQEBAQEBAQEBAQEBAQEBAQ"
