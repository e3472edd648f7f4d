"""With many partitions, fetches of a mirror do not wait at the source: the mirror waits instead."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tidegate_gateway.migration.mirror import fetch_round, link
from tidegate_gateway.migration.mirror.link import LinkMirror
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import fetch as fe
from tidegate_simulation.classic.answers.fetch import answer_fetch
from tidegate_simulation.classic.broker_state import Asked
from tidegate_simulation.classic.model_broker import _APIS  # pyright: ignore[reportPrivateUsage]

from .test_mirrors import World, becomes, mirroring
from .test_switches import switched

BROKERS = 2
WAIT_SECONDS = 0.1
"""See SETTINGS of test_mirrors.py."""


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[fe.FetchRequest]:
    """Poll all partitions; return the requests that the source gets."""
    monkeypatch.setattr(fetch_round, "MAX_WAITING_PARTITIONS", 0)
    seen: list[fe.FetchRequest] = []

    async def noted(asked: Asked, request: fe.FetchRequest) -> fe.FetchResponse:
        seen.append(request)
        return await answer_fetch(asked, request)

    monkeypatch.setitem(_APIS, ApiKey.FETCH, _APIS[ApiKey.FETCH]._replace(answer=noted))
    return seen


def mirror_of(world: World) -> LinkMirror:
    found = world.gateways[0].gateway.links.running["src"].mirror
    assert found is not None
    return found


async def test_the_source_waits_for_nothing(
    fetches: list[fe.FetchRequest], autojump_clock: MockClock
) -> None:
    async with mirroring() as world:
        await world.link()
        world.write(3)
        world.write(5, index=1)
        for index in (0, 1):
            await world.copied(index)
        await trio.sleep(1)
        fetches.clear()
        await trio.sleep(10)
        assert {each.max_wait_ms for each in fetches} == {0}
        most = BROKERS * 10 / WAIT_SECONDS
        assert most / 2 < len(fetches) <= most
        world.write(1)
        await world.copied()


async def test_a_backlog_is_read_without_pauses(
    fetches: list[fe.FetchRequest], autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mirroring() as world:
        for _ in range(20):
            world.write(1)
        size = len(world.log().batches[0].raw)
        monkeypatch.setattr(fetch_round, "MAX_BYTES", size)
        monkeypatch.setattr(link, "MIN_BYTES", size)
        await world.link()
        await becomes(lambda: (copy := world.copy()) is not None and copy.next_offset > 0)
        begun = trio.current_time()
        await world.copied()
        assert trio.current_time() - begun < 10 * WAIT_SECONDS


async def test_a_switch_wakes_a_mirror_that_waits(
    fetches: list[fe.FetchRequest], autojump_clock: MockClock
) -> None:
    async with mirroring() as world:
        await world.link()
        world.write(1)
        await world.copied()
        mirror_of(world)._wait_seconds = 60.0
        await trio.sleep(1)
        world.write(5)
        begun = trio.current_time()
        await switched(world)
        assert trio.current_time() - begun < 2
        copy = world.copy()
        assert copy is not None
        assert copy.next_offset == 6
