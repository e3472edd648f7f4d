"""The store alone: how fast it returns the objects of a prefix, one GET after another."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectInfo, ObjectStore

GET_BYTES: Final = 8 << 20
SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The bytes read and the time.  objects: their number."""

    objects: int
    bytes: int
    gets: int
    seconds: float


def read_all(store_url: str, folder: str) -> Reading:
    """Read all objects whose keys hold the folder's name, in order, each in parts of 8 MiB."""
    return trio.run(_read_all, store_url, folder)


async def _read_all(store_url: str, folder: str) -> Reading:
    store = open_store(store_url)
    try:
        found = [each for each in await _listed(store) if folder in each.key]
        size_bytes = gets = 0
        begun = time.perf_counter()
        with trio.fail_after(SECONDS):
            for each in found:
                for start in range(0, each.size_bytes, GET_BYTES):
                    length = min(GET_BYTES, each.size_bytes - start)
                    size_bytes += len(await store.get_range(each.key, start, length))
                    gets += 1
        return Reading(len(found), size_bytes, gets, time.perf_counter() - begun)
    finally:
        await store.aclose()


async def _listed(store: ObjectStore) -> list[ObjectInfo]:
    found: list[ObjectInfo] = []
    while page := await store.list("", start_after=found[-1].key if found else ""):
        found += page
    return found
