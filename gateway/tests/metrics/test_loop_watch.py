"""The watch of the event loop: delays, and the share of idle time."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.app_world import started_gateway
from tests.worlds.metrics_page import value_of
from tidegate_gateway.counting.loop_watch import STEP_SECONDS, LoopWatch


class BusyClock(trio.abc.Clock):
    """Time passes only in a test's steps, and when the loop waits for a deadline."""

    def __init__(self) -> None:
        self.now = 0.0

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        # The loop waits only for deadlines, and each passes at once.
        self.now = max(self.now, deadline)
        return 0.0


def test_the_watch_measures_steps_of_others() -> None:
    clock, used = BusyClock(), 0.0

    async def busy(seconds: float) -> None:
        nonlocal used
        while True:
            await trio.sleep(1.0)
            clock.now += seconds
            used += seconds

    async def main() -> None:
        watch = LoopWatch(lambda: used)
        assert watch.idle_share == 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            nursery.start_soon(busy, 0.5)
            await trio.sleep(90)
            # In each of 60 rounds the watch is due in the middle of a step of 0.5 s.
            assert 0.25 < watch.delays.sum_seconds / 60 < 0.5
            assert watch.idle_share == pytest.approx(1.0 / 1.5, abs=0.02)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)


async def test_an_idle_loop_is_never_late(autojump_clock: trio.testing.MockClock) -> None:
    watch = LoopWatch(None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.sleep(100 * STEP_SECONDS + 0.1)
        assert watch.delays.count == 100
        assert watch.delays.sum_seconds == pytest.approx(0.0, abs=1e-6)
        assert watch.idle_share == 1.0
        nursery.cancel_scope.cancel()


async def test_the_page_shows_it() -> None:
    async with started_gateway() as gateway:
        gateway.loop_watch.delays.add(0.3)
        assert value_of(gateway, "tidegate_loop_delay_seconds_count") == 1
        for name in (
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "kafka_network_socketserver_networkprocessoravgidle_percent",
        ):
            assert value_of(gateway, name) == 1.0
