"""A task of an import: reads batches, checks them, and stores WAL objects.

While an object is stored, the next portion is read.  So a task holds a few portions, and two
objects of about ImportTask.object_bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import trio

from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.fetched_batches import BadBatch, FetchedBatch
from tidegate_coordination.client.walked_batches import walked_batches
from tidegate_coordination.refusals import first_of
from tidegate_storage.stores.object_store import (
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
    put_idempotent,
)

from ..tasks.error_texts import error_text, unexpected_text
from ..tasks.retries import with_retries
from .object_filling import FilledObject, ObjectFiller
from .readers import HistoryDiffers, OffsetGone, Origin, Reader, SourceFailed
from .unit_walk import UnitWalk
from .work import Ending, ImportTask, ImportUnit, UnitDone, WrittenObject

PUTS_AT_ONCE: Final = 2
_EXPECTED: Final = (
    BadBatch,
    ClassicError,
    HistoryDiffers,
    OffsetGone,
    SourceFailed,
    StoreMisconfigured,
    StoreUnavailable,
)


_ENDINGS: Final[dict[type[BaseException], Ending]] = {
    OffsetGone: Ending.GONE,
    HistoryDiffers: Ending.DIVERGED,
}


async def run_import(store: ObjectStore, origin: Origin, task: ImportTask) -> list[UnitDone]:
    """Do all units of a task; the result of a failed one says why."""
    done: list[UnitDone] = []
    try:
        async with origin.opened() as reader:
            for unit in task.units:
                done.append(await _do(store, reader, task, unit))
    except Exception as error:
        text = _sentence(error)
        done += [_failed(each, text) for each in task.units[len(done) :]]
    return done


def _sentence(error: Exception) -> str:
    first = first_of(error)
    if isinstance(first, _EXPECTED):
        return str(first) or error_text(first)
    return unexpected_text(first) if isinstance(first, Exception) else error_text(first)


def _failed(unit: ImportUnit, text: str, ending: Ending = Ending.FAILED) -> UnitDone:
    return UnitDone(unit.number, ending, unit.start, text=text)


async def _do(store: ObjectStore, reader: Reader, task: ImportTask, unit: ImportUnit) -> UnitDone:
    copy = UnitCopy(store, reader, task, unit)
    try:
        await copy.run()
    except Exception as error:
        ending = _ENDINGS.get(type(first_of(error)), Ending.FAILED)
        return _failed(unit, _sentence(error), ending)
    return copy.done()


class UnitCopy:
    """Copies a unit."""

    def __init__(
        self, store: ObjectStore, reader: Reader, task: ImportTask, unit: ImportUnit
    ) -> None:
        self._store = store
        self._reader = reader
        self._unit = unit
        self._decompressed_bytes = task.decompressed_bytes
        self._walk = UnitWalk.begin(unit)
        self._filler = ObjectFiller(task, unit)
        self._slots = trio.Semaphore(PUTS_AT_ONCE)
        self._written: list[WrittenObject] = []

    async def run(self) -> None:
        """Copy to the unit's end.

        Raises:
          ExceptionGroup: of BadBatch, StoreUnavailable and the reader's errors.
        """
        async with trio.open_nursery() as nursery:
            while self._walk.ending is None:
                batches = await self._next()
                fitting = self._filler.fitting(batches)
                self._walk.cut(batches[fitting:])
                await self._put_all(nursery, self._filler.add(batches[:fitting]))
            await self._put_all(nursery, self._filler.rest())

    async def _next(self) -> Sequence[FetchedBatch]:
        walk = self._walk
        portion = await self._reader.read(self._unit, walk.position, walk.epoch)
        if not portion.records:
            walk.ending = Ending.NO_MORE
            return ()
        before = walk.position
        batches = walk.take(portion.records)
        if walk.position == before and walk.ending is None:
            raise SourceFailed(f"offset {before}: the source gives no whole batch")
        found = await self._walked(batches, is_first=before == self._unit.start)
        walk.cut(batches[len(found) :])
        return found

    async def _walked(
        self, batches: Sequence[FetchedBatch], *, is_first: bool
    ) -> Sequence[FetchedBatch]:
        """Return the batches up to a malformed one; the next unit then begins with that.

        A walk may take about a second, so other tasks of the process get turns between batches: the
        driver's lease must not expire.

        is_first: the unit has no batch before them.

        Raises:
          BadBatch: the unit begins with a malformed batch.
        """
        if self._decompressed_bytes is None:
            return batches
        found: list[FetchedBatch] = []
        for each in batches:
            await trio.lowlevel.checkpoint()
            try:
                found += walked_batches((each,), self._decompressed_bytes)
            except BadBatch:
                if is_first and not found:
                    raise
                break
        return found

    async def _put_all(self, nursery: trio.Nursery, objects: Iterable[FilledObject]) -> None:
        for each in objects:
            await self._slots.acquire()
            nursery.start_soon(self._put, each)

    async def _put(self, filled: FilledObject) -> None:
        try:
            await with_retries(lambda: put_idempotent(self._store, filled.key, filled.body))
        except ObjectExists as error:
            # An earlier attempt got other batches from the source, and died.
            raise SourceFailed(f"object {filled.key} exists, with other batches") from error
        finally:
            self._slots.release()
        self._written.append(filled.written)

    def done(self) -> UnitDone:
        """Return the result."""
        walk = self._walk
        objects = tuple(sorted(self._written, key=lambda each: each.counter))
        assert walk.ending is not None
        return UnitDone(self._unit.number, walk.ending, walk.next_offset, objects, walk.read_bytes)
