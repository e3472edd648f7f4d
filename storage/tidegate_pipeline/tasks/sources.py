"""Reads a task's sources: runs of WAL objects and segments, verified as by a fetch.

One GET reads all sources that lie close together in one object.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import trio

from tidegate_protocol.control_batches import control_batch
from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.prepared_runs import (
    CommittedRun,
    CorruptBatches,
    PreparedRun,
    prepare_chunk,
    prepare_wal_run,
)
from tidegate_storage.objects.segment_format import (
    HEADER_BYTES,
    AbortedTransaction,
    SegmentIndex,
    read_tail,
)
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

from .error_texts import unexpected_text
from .retries import with_retries
from .work import Source

# The largest gap between two runs that one GET bridges, and the most bytes of one GET.
MAX_GAP_BYTES = 64 << 10
MAX_GET_BYTES = 16 << 20
CONCURRENT_GETS = 16
# If less than this share of a GET is wanted, the wanted bytes are copied, so that all others are
# freed.
LEAST_WANTED = 0.75


class UnitFailed(Exception):
    """A unit cannot be done now; the text names the object."""


Place: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class Stored:
    """The bytes of a source; gets: its share of the requests."""

    data: memoryview
    gets: float
    error: str = ""


_MARKER = Stored(memoryview(b""), 0)


def place(source: Source) -> Place:
    """Return the identity of a source in an object."""
    return source.key, source.position


def stored_of(read: Mapping[Place, Stored], source: Source) -> Stored:
    """Return the bytes that were read of a source; a marker has none."""
    return _MARKER if source.marker is not None else read[place(source)]


def _start(source: Source) -> int:
    return HEADER_BYTES if source.index_length else source.position


def _end(source: Source) -> int:
    return _start(source) + source.length + source.index_length


class SourceReader:
    """Reads sources; sources that lie close together in one object share a GET."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._slots = trio.Semaphore(CONCURRENT_GETS)
        self._found: dict[Place, Stored] = {}

    async def read(self, sources: Sequence[Source]) -> dict[Place, Stored]:
        """Return for each source its bytes, or the error of reading it."""
        async with trio.open_nursery() as nursery:
            for group in groups(sources):
                await self._slots.acquire()
                nursery.start_soon(self._read, group)
        return self._found

    async def _read(self, group: list[Source]) -> None:
        key, start, end = group[0].key, _start(group[0]), max(map(_end, group))
        try:
            body = memoryview(
                await with_retries(lambda: self._store.get_range(key, start, end - start))
            )
        except (NoSuchObject, StoreMisconfigured, StoreUnavailable) as error:
            self._fail(group, str(error) or "it is gone")
            return
        except Exception as error:
            self._fail(group, unexpected_text(error))
            return
        finally:
            self._slots.release()
        wanted = sum(_end(source) - _start(source) for source in group)
        for source in group:
            data = body[_start(source) - start : _end(source) - start]
            if wanted < len(body) * LEAST_WANTED:
                data = memoryview(bytes(data))
            self._found[place(source)] = Stored(data, 1 / len(group))

    def _fail(self, group: list[Source], reason: str) -> None:
        for source in group:
            text = f"object {source.key}: {reason}"
            self._found[place(source)] = Stored(memoryview(b""), 0, text)


def groups(sources: Sequence[Source]) -> list[list[Source]]:
    """Group the sources that one GET reads."""
    by_key: defaultdict[str, list[Source]] = defaultdict(list)
    for source in sources:
        if source.marker is None:
            by_key[source.key].append(source)
    found: list[list[Source]] = []
    for same in by_key.values():
        same.sort(key=_start)
        group = [same[0]]
        for source in same[1:]:
            is_near = _start(source) - _end(group[-1]) <= MAX_GAP_BYTES
            if is_near and _end(source) - _start(group[0]) <= MAX_GET_BYTES:
                group.append(source)
            else:
                found.append(group)
                group = [source]
        found.append(group)
    return found


def runs_of(
    topic_id: bytes, partition: int, source: Source, stored: Stored
) -> Iterator[PreparedRun]:
    """Yield the verified content of a source of a partition.

    Raises:
      UnitFailed: the source could not be read, or its bytes are not the committed ones.
    """
    if stored.error:
        raise UnitFailed(stored.error)
    try:
        if source.marker is not None:
            yield _marker_run(source, *source.marker)
        elif source.index_length:
            yield from _chunks(source, stored.data)
        else:
            # Copied, since offsets are written into it.  So brief a copy stays in the CPU's caches.
            region = memoryview(bytearray(stored.data))
            run = prepare_wal_run(region, _committed(topic_id, partition, source))
            yield replace(run, bound_ms=source.bound_ms) if source.bound_ms >= 0 else run
    except (CorruptBatches, CorruptObject, UnknownVersion) as error:
        raise UnitFailed(f"object {source.key}: {error}") from error


def _marker_run(source: Source, producer_id: int, epoch: int, committed: bool) -> PreparedRun:
    """Return the control batch of a marker, as a fetch makes it."""
    batch = control_batch(
        base_offset=source.base_offset,
        leader_epoch=source.leader_epoch,
        timestamp_ms=source.newest_at_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=committed,
    )
    offsets, starts = array("q", [source.base_offset]), array("q", [0, len(batch)])
    return PreparedRun(memoryview(batch), offsets, starts, source.next_offset, source.next_offset)


def aborted_of(source: Source, stored: Stored) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions of a source; runs_of() must have verified it."""
    return _index(source, stored.data).aborted if source.index_length else ()


def _index(source: Source, data: memoryview) -> SegmentIndex:
    index = read_tail(data[source.length :], source.position)
    if index.check != source.check:
        raise CorruptObject("its index is not the one that was published")
    return index


def _chunks(source: Source, data: memoryview) -> Iterator[PreparedRun]:
    """Yield the chunks of a segment that was read from its first batch to its end."""
    start = HEADER_BYTES
    for chunk in _index(source, data).chunks:
        region = data[chunk.position - start : chunk.position - start + chunk.length]
        run = prepare_chunk(region, chunk)
        yield replace(run, bound_ms=chunk.max_timestamp) if source.bound_ms >= 0 else run


def _committed(topic_id: bytes, partition: int, source: Source) -> CommittedRun:
    return CommittedRun(
        topic_id,
        partition,
        source.base_offset,
        source.next_offset,
        source.length,
        source.check,
        source.append_time,
        source.leader_epoch,
        source.is_final,
        source.is_headed,
    )
