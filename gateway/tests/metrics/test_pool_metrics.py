"""The pools of threads on the metrics page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from outcome import capture
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.metrics_page import value_of
from tests.worlds.wire_client import wire_world
from tidegate_gateway.work.client import Client
from tidegate_gateway.work.fair_pool import OnEnd, PoolBusy
from tidegate_gateway.work.pools import RECORD_THREADS, inline_pools

NAMES = ("waiting", "waiting_bytes", "jobs_total", "refused_total", "cpu_seconds_total")


@pytest.mark.parametrize("busy", ["records", "telemetry"])
async def test_the_page_shows_what_each_pool_does(autojump_clock: MockClock, busy: str) -> None:
    begun: list[tuple[Callable[[], Any], OnEnd]] = []

    def start(work: Callable[[], Any], on_end: OnEnd) -> None:
        begun.append((work, on_end))

    pools = inline_pools(start)
    pool = getattr(pools, busy)

    async def one(client: int) -> None:
        with suppress(PoolBusy):
            await pool.run(Client(client), lambda should_stop: None, 7)

    async with wire_world(pools=pools) as world:

        def shown(name: str) -> tuple[float, ...]:
            return tuple(
                value_of(world.gateway, f"tidegate_pool_{each}", pool=name) for each in NAMES
            )

        async with trio.open_nursery() as nursery:
            for client in range(5):
                nursery.start_soon(one, client)
            await wait_all_tasks_blocked()
            running = len(begun)
            assert 1 <= running <= RECORD_THREADS
            assert shown(busy) == (5 - running, 7 * (5 - running), running, 0, 0)
            await trio.sleep(60)
        for work, on_end in begun:
            on_end(capture(work), 1.5)
        assert shown(busy) == (0, 0, running, 5, 1.5 * running)
        idle = "telemetry" if busy == "records" else "records"
        assert shown(idle) == (0, 0, 0, 0, 0)
