"""Pools that work in the event loop, for tests that check records themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from outcome import capture

from tidegate_gateway.work.client import Client
from tidegate_gateway.work.fair_pool import ClientPool, OnEnd, Start
from tidegate_gateway.work.pools import inline_pools


def inline_pool() -> ClientPool:
    """Return a pool of one client."""
    return inline_pools().records.of(Client("test"))


def after(wait: Callable[[], Any]) -> Start:
    """Return a function that starts work, which ends after a wait."""

    def start(work: Callable[[], Any], on_end: OnEnd) -> None:
        async def late() -> None:
            await wait()
            on_end(capture(work), 0.0)

        trio.lowlevel.spawn_system_task(late)

    return start
