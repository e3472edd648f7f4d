"""A start that fails: its message, and its effect on the other gateways."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from math import inf

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.app_world import unstarted_gateway
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.loading import load_state
from tidegate_coordination.log.metadata_log import AppendResult, LogUnavailable
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.app import GIVE_UP_SECONDS, Process, Running
from tidegate_gateway.opening import Parts
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.startup import open_patiently
from tidegate_runtime.addresses import ListenerAddress
from tidegate_runtime.listening import Listener, PortInUse, bind_listener, open_listener
from tidegate_runtime.service_manager import service_manager
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreUnavailable

ANY_PORT = ListenerAddress("PLAINTEXT", "127.0.0.1", 0)


async def signals(*times: float) -> AsyncGenerator[int, None]:
    for each in times:
        await trio.sleep_until(each)
        yield signal.SIGTERM
    await trio.sleep_forever()


class NoPuts(MemoryObjectStore):
    """A store that fails each PUT, so a gateway that has registered cannot mark the prefix."""

    async def put(self, key: str, body: Buffer) -> None:
        raise StoreUnavailable("away")


class OneAppend(MemoryLog):
    """A log that fails once a gateway has registered."""

    async def append(self, position: int, payload: bytes) -> AppendResult:
        if position > 1:
            raise LogUnavailable("away")
        return await super().append(position, payload)


def never(_: Running) -> None:
    raise AssertionError("it does not serve")


@asynccontextmanager
async def bound() -> AsyncIterator[Listener]:
    listener = bind_listener(ANY_PORT)
    try:
        yield listener
    finally:
        listener.close()


async def live(log: MemoryLog) -> set[int]:
    return set((await load_state(log, deadline_seconds=inf)).gateways.live)


async def test_a_port_taken_during_the_start_is_an_error_and_ends_the_incarnation() -> None:
    log = MemoryLog()
    builder = unstarted_gateway(log=log)
    async with bound() as listener, bound() as peer:
        rival = open_listener(listener.address)
        parts = Parts(builder, log, (listener,), None, peer, None)
        with (
            trio.fail_after(60),
            pytest.RaisesGroup(
                pytest.RaisesExc(PortInUse, match="is in use by another program"),
                flatten_subgroups=True,
            ),
        ):
            async with aclosing(signals()) as coming:
                await Process(parts, BrokerSettings({}), never, service_manager({}, 1)).run(coming)
        rival.close()
    assert await live(log) == set()
    assert builder.gateway is not None


async def test_peers_may_connect_before_they_hear_of_this_gateway() -> None:
    log = MemoryLog()
    builder = unstarted_gateway(log=log)
    known: list[set[int]] = []

    async def note(coordinator: Coordinator) -> None:
        await trio.lowlevel.checkpoint()
        known.append(set(coordinator.state.gateways.live))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            gateway = await builder.start(nursery, note)
            nursery.cancel_scope.cancel()
    assert known == [set()]
    assert await live(log) == {gateway.coordinator.incarnation}


async def code_of(log: MemoryLog, *times: float) -> int:
    """Start a gateway whose store fails, and send it signals; return its exit code."""
    builder = unstarted_gateway(store=NoPuts(), log=log)
    parts = Parts(builder, log, (), None, None, None)
    with trio.fail_after(60):
        async with aclosing(signals(*times)) as coming:
            return await Process(parts, BrokerSettings({}), never, service_manager({}, 1)).run(
                coming
            )


async def test_a_gateway_that_is_stopped_before_it_serves_leaves_the_cluster(
    autojump_clock: MockClock,
) -> None:
    log = MemoryLog()
    assert await code_of(log, 7) == 0
    assert trio.current_time() < 7 + GIVE_UP_SECONDS
    assert (await load_state(log, deadline_seconds=inf)).gateways.next_incarnation == 2
    assert await live(log) == set()


async def test_leaving_takes_no_longer_than_that_while_the_log_is_away(
    autojump_clock: MockClock,
) -> None:
    log = OneAppend()
    assert await code_of(log, 7) == 0
    assert trio.current_time() == pytest.approx(7 + GIVE_UP_SECONDS)
    assert await live(log) == {1}


async def test_a_second_signal_cuts_that_short(autojump_clock: MockClock) -> None:
    assert await code_of(OneAppend(), 7, 8) == 1
    assert trio.current_time() == pytest.approx(8)


async def test_a_log_that_is_away_is_not_logged_at_each_try(autojump_clock: MockClock) -> None:
    async def away() -> MemoryLog:
        raise LogUnavailable(f"no answer in {trio.current_time()} s")

    with capture_logs() as lines, pytest.raises(LogUnavailable):
        await open_patiently(away)
    assert [each["tries_for_seconds"] for each in lines] == [120, 90, 60, 30]
