"""A task of an import lets others of its process continue while it walks over records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio

from tests.pipeline.importing.test_import_parts import TASK, UNIT, stored
from tidegate_coordination.client.fetched_batches import FetchedBatch
from tidegate_coordination.client.walked_batches import walked_batches
from tidegate_pipeline.importing import copying
from tidegate_pipeline.importing.copying import run_import
from tidegate_pipeline.importing.readers import Portion, Reader
from tidegate_pipeline.importing.work import Ending, ImportUnit
from tidegate_storage.stores.memory_store import MemoryObjectStore


class Source:
    """Gives all batches of a unit at once."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Reader]:
        yield self

    async def read(self, unit: ImportUnit, position: int, epoch: int) -> Portion:
        return Portion(stored(*range(unit.start, unit.stop, 2)))


async def test_others_get_turns_between_the_batches_of_a_portion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = 0
    turns_before: list[int] = []

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    def walked(batches: Sequence[FetchedBatch], max_bytes: int) -> list[FetchedBatch]:
        turns_before.append(turns)
        return walked_batches(batches, max_bytes)

    monkeypatch.setattr(copying, "walked_batches", walked)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        [done] = await run_import(MemoryObjectStore(), Source(), TASK)
        nursery.cancel_scope.cancel()
    assert (done.ending, done.next_offset) == (Ending.WHOLE, UNIT.stop)
    assert len(turns_before) == (UNIT.stop - UNIT.start) // 2
    # Trio's order of tasks within a round is random, so two rounds may meet in the middle.
    assert all(before < after for before, after in pairwise(turns_before[::2]))
