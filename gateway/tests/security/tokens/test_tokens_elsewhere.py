"""Delegation tokens at a gateway that has not read of them yet."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.security.tokens.test_delegation_tokens import (
    create,
    describe,
    log_in_by,
    token_world,
    user,
)
from tidegate_coordination.events.security import DelegationTokenSet, DelegationTokensRemoved
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_delegation_token as cdt
from tidegate_protocol.messages import expire_delegation_token as edt
from tidegate_protocol.messages import renew_delegation_token as rdt
from tidegate_storage.stores.memory_store import MemoryObjectStore


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
    """Another gateway has acknowledged the renewal, so the token is valid.

    It does not matter how much of the log this gateway has read.
    """
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
