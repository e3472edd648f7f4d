"""Patterns in ListTransactions: no client's pattern blocks the gateway."""

from __future__ import annotations

from typing import TypeVar

import pytest
from trio.testing import MockClock

from tests.worlds.transaction_client import init
from tests.worlds.wire_client import NOW_MS, wire_world
from tidegate_coordination.name_patterns import (
    LONG_STEPS,
    MAX_PROGRAM,
    BadPattern,
    NamePattern,
)
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.requests.transactions.list_transactions import ListTransactions
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import list_transactions as lt

Result = TypeVar("Result")
SLOW = "(a?b?){400}"


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        (None, ["", "x-1", "y", "\n"]),
        ("", ["", "x-1", "y", "\n"]),
        ("x", []),
        ("x.*", ["x-1"]),
        ("x|y", ["y"]),
        (r"(?s).*", ["", "x-1", "y", "\n"]),
    ],
)
def test_the_whole_id_must_match(pattern: str | None, matching: list[str]) -> None:
    compiled = NamePattern(pattern)
    assert [each for each in ("", "x-1", "y", "\n") if compiled.matches(each)] == matching


@pytest.mark.parametrize(
    "pattern",
    ["(", "a{1001}", r"\1", "(?=a)", "*", "[z-a]", "\\", SLOW * 3, r"\pL{1000}", "x" * 6_000],
)
def test_patterns_that_are_wrong_or_too_large_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        NamePattern(pattern)


def test_an_alternative_of_a_hundred_ids_is_not_too_large() -> None:
    names = [f"application-{number:04}-of-the-shop-in-europe" for number in range(100)]
    pattern = NamePattern("|".join(names))
    assert all(map(pattern.matches, names))
    assert pattern.steps("x" * 100) < 100 * MAX_PROGRAM


async def test_a_match_that_takes_long_runs_outside_of_the_event_loop(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client = world.connect()
        for name in ("short", "ab" * 16_000):
            await init(client, name)
        pool = inline_pools().records
        gateway = world.gateway
        handler = ListTransactions(
            gateway.coordinator, pool, lambda: NOW_MS, gateway.forwarding.transaction_forwards
        )
        call = Call(2, "test", Peer("client", 1, "PLAINTEXT"))
        for pattern, count, runs in (("short|.*", 2, 1), (f"{SLOW}.*", 2, 2), (".*", 2, 1)):
            before = pool.counters.jobs
            request = lt.ListTransactionsRequest(transactional_id_pattern=pattern)
            answer = await handler.handle(call, request)
            assert len(answer.transaction_states) == count
            assert pool.counters.jobs - before == runs, pattern
        assert NamePattern(SLOW).steps("ab" * 16_000) > LONG_STEPS
        request = lt.ListTransactionsRequest(transactional_id_pattern=SLOW * 10)
        answer = await client.call("ListTransactions", 2, request)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


class Searched(list[int]):
    """A list that counts the searches in it."""

    searches = 0

    def __contains__(self, key: object) -> bool:
        Searched.searches += 1
        return super().__contains__(key)


async def test_many_filters_are_not_searched_one_by_one(autojump_clock: MockClock) -> None:
    """A request may have 100,000 filters, and a cluster may have a million ids."""
    async with wire_world() as world:
        producer_id, _ = await init(world.connect())
        gateway = world.gateway
        handler = ListTransactions(
            gateway.coordinator,
            inline_pools().records,
            lambda: NOW_MS,
            gateway.forwarding.transaction_forwards,
        )
        asked = Searched([producer_id, 7])
        request = lt.ListTransactionsRequest(producer_id_filters=asked)
        answer = await handler.handle(Call(2, "test", Peer("client", 1, "PLAINTEXT")), request)
        assert [each.producer_id for each in answer.transaction_states] == [producer_id]
        assert Searched.searches == 0
