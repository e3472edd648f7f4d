"""Repeats calls to an object store that does not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from tidegate_storage.stores.object_store import StoreUnavailable

ATTEMPTS = 4
# Doubled each time.
FIRST_PAUSE_SECONDS = 0.2

Answer = TypeVar("Answer")


async def with_retries(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make a call that may be repeated, until it succeeds; return its result.

    Raises:
      StoreUnavailable: after the last attempt.
    """
    pause = FIRST_PAUSE_SECONDS
    for _ in range(ATTEMPTS - 1):
        try:
            return await call()
        except StoreUnavailable:
            await trio.sleep(pause)
            pause *= 2
    return await call()
