"""The store and the log alone: the time of one small PUT and of one small append, one by one.

An acknowledgement's time above their sum belongs to the gateway.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore

from ..measure.figures import percentile

TIMES: Final = 100
SMALL_BYTES: Final = 300
SECONDS: Final = 20.0


def put_and_append_ms(store_url: str, log_url: str) -> tuple[float, float]:
    """Return the medians of a PUT to the store and of an append to a fresh log of the same kind."""
    return trio.run(_both, store_url, log_url)


def append_ms(log_url: str) -> float:
    """Return the median of an append to a fresh log of the same kind."""
    return trio.run(_append_ms_of, log_url)


async def _both(store_url: str, log_url: str) -> tuple[float, float]:
    store = open_store(store_url)
    try:
        put_ms = await _put_ms(store)
    finally:
        await store.aclose()
    return put_ms, await _append_ms_of(log_url)


async def _put_ms(store: ObjectStore) -> float:
    took: list[float] = []
    with trio.move_on_after(SECONDS):
        for _ in range(TIMES):
            begun = time.perf_counter()
            await store.put(f"bare/{secrets.token_hex(8)}", bytes(SMALL_BYTES))
            took.append(time.perf_counter() - begun)
    return percentile(took, 0.5) * 1e3


async def _append_ms_of(log_url: str) -> float:
    """For a log in a file, measure another file in the same folder.  For other logs return 0."""
    scheme, _, path = log_url.partition(":")
    if scheme not in ("sqlite", "memory"):
        return 0.0
    with tempfile.TemporaryDirectory(dir=Path(path).parent if path else None) as folder:
        log = await open_log(f"sqlite:{folder}/bare.db" if scheme == "sqlite" else "memory:")
        try:
            return await _append_ms(log)
        finally:
            await log.aclose()


async def _append_ms(log: MetadataLog) -> float:
    took: list[float] = []
    for position in range(1, TIMES + 1):
        begun = time.perf_counter()
        _ = await log.append(position, bytes(SMALL_BYTES))
        took.append(time.perf_counter() - begun)
    return percentile(took, 0.5) * 1e3
