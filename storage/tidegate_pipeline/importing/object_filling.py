"""Batches of one partition become WAL objects.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from tidegate_coordination.client.fetched_batches import FetchedBatch
from tidegate_storage.objects.keys import wal_key
from tidegate_storage.objects.wal import OpenWal, PlacedBatch, SealedWal, WalIdentity

from .work import ImportTask, ImportUnit, WrittenBatch, WrittenObject


class FilledObject(NamedTuple):
    """An object to be stored, and its facts for the driver."""

    key: str
    body: bytearray
    written: WrittenObject


class ObjectFiller:
    """Fills the objects of a unit."""

    def __init__(self, task: ImportTask, unit: ImportUnit) -> None:
        self._task = task
        self._unit = unit
        self._open = OpenWal()
        self._used = 0

    def add(self, batches: Sequence[FetchedBatch]) -> Iterator[FilledObject]:
        """Add batches; yield the objects that are full.

        The caller must make sure that counters are left; see `fitting`.
        """
        for each in batches:
            if self._is_full(len(each.data)):
                yield self._seal()
            self._open.append(
                self._unit.topic_id,
                self._unit.partition,
                each.data,
                each.facts[0],
                each.facts[1],
                each,
            )

    def _is_full(self, more: int) -> bool:
        size = self._open.size_bytes
        is_large = size > 0 and size + more > self._task.object_bytes
        return is_large or self._open.batch_count >= self._task.object_batches

    def fitting(self, batches: Sequence[FetchedBatch]) -> int:
        """Return for how many of the batches there are enough counters."""
        size, count, used = self._open.size_bytes, self._open.batch_count, self._used
        for at, each in enumerate(batches):
            is_large = size > 0 and size + len(each.data) > self._task.object_bytes
            if is_large or count >= self._task.object_batches:
                used, size, count = used + 1, 0, 0
                if used >= len(self._unit.counters):
                    return at
            size, count = size + len(each.data), count + 1
        return len(batches)

    def rest(self) -> Iterator[FilledObject]:
        """Yield the last object, if there is one."""
        if self._open.batch_count:
            yield self._seal()

    def _seal(self) -> FilledObject:
        task, counter = self._task, self._unit.counters[self._used]
        sealed = self._open.seal(WalIdentity(task.node_id, task.incarnation, counter))
        self._open = OpenWal()
        self._used += 1
        key = wal_key(
            task.cluster_id, task.timeline, task.zone, task.node_id, task.incarnation, counter
        )
        return FilledObject(key, sealed.body, _written(sealed))


def _written(sealed: SealedWal) -> WrittenObject:
    batches = tuple(_batch(each) for each in sealed.batches)
    is_walked = all(cast(FetchedBatch, each.token).is_walked for each in sealed.batches)
    return WrittenObject(sealed.identity.counter, len(sealed.body), batches, is_walked)


def _batch(placed: PlacedBatch) -> WrittenBatch:
    fetched = cast(FetchedBatch, placed.token)
    return WrittenBatch(placed.start_byte, placed.size_bytes, fetched.facts, *fetched.mirrored[1:])
