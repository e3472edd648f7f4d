"""When a link fetches tokens, and how often it asks the provider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.unsigned_tokens import jwt_of
from tidegate_coordination.client.errors import (
    AuthenticationFailed,
    BadProperties,
    ClassicError,
    TokenRefused,
    TokenUnavailable,
)
from tidegate_coordination.client.properties.bearer_credentials import BearerCredentials
from tidegate_coordination.client.properties.token_times import TokenTimes, renew_after
from tidegate_coordination.client.tokens.bearer import BearerToken
from tidegate_coordination.client.tokens.source import MAX_SOURCES, TokenSource, TokenSources
from tidegate_runtime.secret import Secret

CREDENTIALS = BearerCredentials(
    "https://idp.example/token",
    "app",
    Secret("hunter2"),
    times=TokenTimes(window_jitter=0.0),
)
STARTED = 1_700_000_000.0
"""Seconds since 1970 when the clock of a test is at 0."""


class Endpoint:
    """A token provider. asked_at: the times of its calls. takes_seconds: how long an answer takes.

    life_seconds: lifetime of its tokens.  error: raised instead of an answer, if set.
    """

    def __init__(self, life_seconds: float = 1000.0) -> None:
        self.asked_at: list[float] = []
        self.life_seconds = life_seconds
        self.takes_seconds = 0.0
        self.error: ClassicError | None = None

    async def fetch(self, _: BearerCredentials) -> str:
        self.asked_at.append(trio.current_time())
        await trio.sleep(self.takes_seconds)
        if self.error is not None:
            raise self.error
        expires_at = wall_clock() + self.life_seconds
        return jwt_of({"exp": expires_at, "jti": len(self.asked_at)})

    def source(self, credentials: BearerCredentials = CREDENTIALS) -> TokenSource:
        return TokenSources(Random(1), self.fetch, wall_clock).of(credentials)


def wall_clock() -> float:
    return STARTED + trio.current_time()


TIMES = TokenTimes(0.8, 0.05, 60.0, 300.0)


@pytest.mark.parametrize(
    ("life_seconds", "share", "seconds"),
    [
        (10_000, 0.0, 8000),
        (10_000, 1.0, 8500),
        (1000, 0.0, 700),  # the buffer before expiry decides
        (1000, 1.0, 700),
        (360, 0.0, 60),  # buffer and minimum period just fit
        (359, 0.0, 359 * 0.8),
        (5, 1.0, 5 * 0.85),
    ],
)
def test_a_token_is_renewed_when_kafka_would(
    life_seconds: float, share: float, seconds: float
) -> None:
    assert renew_after(life_seconds, TIMES, share) == pytest.approx(seconds)


async def test_a_token_is_renewed_at_its_end_at_the_latest(autojump_clock: MockClock) -> None:
    """Kafka's properties allow a renewal at up to 1.25 of a token's lifetime."""
    times = TokenTimes(window_factor=1.0, window_jitter=0.25)
    source = Endpoint(300.0).source(replace(CREDENTIALS, times=times))
    await source.get()
    await trio.sleep(300)
    assert (await source.get()).expires_at == STARTED + 600


async def test_one_token_serves_until_it_is_renewed(autojump_clock: MockClock) -> None:
    endpoint = Endpoint()
    source = endpoint.source()
    first = await source.get()
    assert first.expires_at == STARTED + 1000
    await trio.sleep(699)
    assert await source.get() is first
    await trio.sleep(2)
    second = await source.get()
    assert second is not first
    assert endpoint.asked_at == [0, 701]


async def test_all_connections_wait_for_the_same_fetch(autojump_clock: MockClock) -> None:
    endpoint = Endpoint()
    endpoint.takes_seconds = 3.0
    source = endpoint.source()
    found: list[BearerToken] = []

    async def get() -> None:
        found.append(await source.get())

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(get)
    assert endpoint.asked_at == [0]
    assert len(found) == 100
    assert all(each is found[0] for each in found)


async def test_others_go_on_with_the_token_that_is_being_renewed(
    autojump_clock: MockClock,
) -> None:
    endpoint = Endpoint()
    source = endpoint.source()
    first = await source.get()
    endpoint.takes_seconds = 5.0
    await trio.sleep(800)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.get)
        await trio.testing.wait_all_tasks_blocked()
        assert await source.get() is first
        assert trio.current_time() == 800
    assert await source.get() is not first
    assert endpoint.asked_at == [0, 800]


async def test_a_fetch_that_is_cancelled_is_done_by_the_next(autojump_clock: MockClock) -> None:
    endpoint = Endpoint()
    endpoint.takes_seconds = 3.0
    source = endpoint.source()
    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:

        async def given_up() -> None:
            with scope:
                await source.get()

        nursery.start_soon(given_up)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(source.get)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
    assert endpoint.asked_at == [0, 0]


async def test_a_token_serves_to_its_end_if_there_is_no_other(autojump_clock: MockClock) -> None:
    endpoint = Endpoint()
    source = endpoint.source()
    first = await source.get()
    endpoint.error = TokenUnavailable("the provider is away")
    await trio.sleep(999)
    assert await source.get() is first
    await trio.sleep(1)
    with pytest.raises(TokenUnavailable, match="is away"):
        await source.get()
    endpoint.error = None
    await trio.sleep(11)
    assert await source.get() is not first


@pytest.mark.parametrize("kind", [AuthenticationFailed, TokenUnavailable, BadProperties])
async def test_a_provider_that_gives_none_is_left_alone_for_a_while(
    kind: Callable[[str], ClassicError], autojump_clock: MockClock
) -> None:
    endpoint = Endpoint()
    endpoint.error = kind("no token")
    source = endpoint.source()
    while trio.current_time() < 100:
        with pytest.raises(ClassicError, match="no token"):
            await source.get()
        await trio.sleep(0.05)
    gaps = [b - a for a, b in zip(endpoint.asked_at, endpoint.asked_at[1:], strict=False)]
    assert gaps[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.051)
    assert gaps[-1] == pytest.approx(10.0, abs=0.051)
    assert len(endpoint.asked_at) < 18


async def test_a_provider_has_a_deadline(autojump_clock: MockClock) -> None:
    endpoint = Endpoint()
    endpoint.takes_seconds = 1e9
    with pytest.raises(TokenUnavailable, match=r"idp\.example gives no token within 10 s"):
        await endpoint.source().get()
    assert trio.current_time() == 10


async def test_a_refused_token_is_replaced_with_longer_and_longer_pauses(
    autojump_clock: MockClock,
) -> None:
    endpoint = Endpoint()
    source = endpoint.source()
    for _ in range(12):
        token = await source.get()
        source.refused(token, TokenRefused("the source refuses it"))
        with pytest.raises(AuthenticationFailed, match="the source refuses it"):
            await source.get()
        await trio.sleep(10.001)
    assert len(endpoint.asked_at) == 12
    token = await source.get()
    source.accepted()
    source.refused(token, TokenRefused("late"))
    await trio.sleep(0.11)
    assert await source.get() is not token


async def test_the_refusal_of_an_older_token_says_nothing_of_the_newer(
    autojump_clock: MockClock,
) -> None:
    endpoint = Endpoint()
    source = endpoint.source()
    first = await source.get()
    await trio.sleep(900)
    second = await source.get()
    source.refused(first, TokenRefused("expired"))
    assert await source.get() is second


@pytest.mark.parametrize(
    ("life_seconds", "said"), [(0.0, "has expired already"), (-5.0, "compare the clocks")]
)
async def test_a_token_that_has_expired_is_named(
    life_seconds: float, said: str, autojump_clock: MockClock
) -> None:
    with pytest.raises(AuthenticationFailed, match=said):
        await Endpoint(life_seconds).source().get()


async def test_a_token_that_is_none_is_named(autojump_clock: MockClock) -> None:
    async def fetch(_: BearerCredentials) -> str:
        return "opaque"

    source = TokenSources(Random(1), fetch, wall_clock).of(CREDENTIALS)
    with pytest.raises(AuthenticationFailed, match=r"^the token of idp\.example is no JWT\.$"):
        await source.get()


async def test_tokens_of_a_few_seconds_are_renewed_before_they_expire(
    autojump_clock: MockClock,
) -> None:
    endpoint = Endpoint(4.0)
    endpoint.takes_seconds = 0.1
    source = endpoint.source()
    while trio.current_time() < 60:
        token = await source.get()
        assert token.expires_at > wall_clock()
        await trio.sleep(0.05)
    assert 60 / 4 < len(endpoint.asked_at) < 60 / 2


def test_the_same_credentials_have_one_source_and_few_are_kept() -> None:
    sources = TokenSources(Random(1))
    known = [
        BearerCredentials("https://idp.example/token", f"app-{number}", Secret("s"))
        for number in range(MAX_SOURCES + 1)
    ]
    first, second = sources.of(known[0]), sources.of(known[1])
    assert sources.of(BearerCredentials("https://idp.example/token", "app-0", Secret("s"))) is first
    for each in known[2:MAX_SOURCES]:
        sources.of(each)
    assert sources.of(known[0]) is first
    sources.of(known[MAX_SOURCES])
    assert sources.of(known[0]) is first
    assert sources.of(known[1]) is not second
