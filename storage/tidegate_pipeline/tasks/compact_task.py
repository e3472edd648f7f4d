"""A unit of compaction: all segments of a partition up to a bound, read, cleaned, and rewritten.

First the task reads the dirty sources and maps each key to its newest offset; if the map becomes
full, the round ends there.  Then it reads all sources in order and rewrites those that lost records
(rewriting.py).  It reads a small unit once.  It reads a large unit source by source, and the dirty
part of that twice, so memory holds one source, one segment and the map.  The task proves that it
lost no other records than the rules removed: records in = records out + removed, and the segment
reads back as it was built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import trio

from tidegate_coordination.events.cluster import Segment
from tidegate_protocol.batches import HEADER, read_header
from tidegate_storage.objects.prepared_runs import PreparedRun
from tidegate_storage.objects.segment_format import AbortedTransaction
from tidegate_storage.objects.segments import FinalBatch
from tidegate_storage.stores.object_store import ObjectStore

from .compaction import AbortedSet, Cleaner, LatestOffsets, Removed
from .rewriting import CleanedSource, NewStretch, Rewriting, follows_hole
from .segment_writing import final_batch, prove, put_segment
from .sources import SourceReader, Stored, UnitFailed, aborted_of, place, runs_of
from .work import Compacted, CompactionRules, MergeTask, MergeUnit, Source, Stretch, UnitResult

# A unit of up to this many bytes is read at once.
READ_AT_ONCE_BYTES = 64 << 20
# This many bytes take some ten milliseconds.
RECORDS_A_TURN = 10_000


class _Held(NamedTuple):
    runs: list[PreparedRun]
    aborted: tuple[AbortedTransaction, ...]


class _Sources:
    """The sources of a unit, verified; gets, read_bytes: the cost of reading them."""

    def __init__(self, store: ObjectStore, unit: MergeUnit) -> None:
        self._store = store
        self._unit = unit
        self._is_small = unit.size_bytes <= READ_AT_ONCE_BYTES
        self._read: dict[tuple[str, int], Stored] = {}
        self.gets = 0.0
        self.read_bytes = 0

    async def read(self, source: Source) -> _Held:
        """Return the content of a source.

        Raises:
          UnitFailed: the source could not be read.
        """
        stored = await self._stored(source)
        runs = list(runs_of(self._unit.topic_id, self._unit.partition, source, stored))
        return _Held(runs, aborted_of(source, stored))

    async def _stored(self, source: Source) -> Stored:
        if place(source) not in self._read:
            wanted = self._unit.sources if self._is_small else (source,)
            self._read = await SourceReader(self._store).read(wanted)
            self.gets += sum(each.gets for each in self._read.values())
            self.read_bytes += sum(each.length for each in wanted)
        return self._read[place(source)]


@dataclass(slots=True)
class _Round:
    """The work of a round so far."""

    segments: list[Segment] = field(default_factory=list[Segment])
    stretches: list[Stretch] = field(default_factory=list[Stretch])
    records: int = 0


async def compact_unit(
    store: ObjectStore, task: MergeTask, unit: MergeUnit, rules: CompactionRules, attempt: int
) -> UnitResult:
    """Do one round of compaction.

    Raises:
      UnitFailed, StoreMisconfigured, StoreUnavailable, ObjectExists: publish nothing.
    """
    sources = _Sources(store, unit)
    latest = await _learn(sources, unit, rules)
    aborted = AbortedSet()
    cleaner = Cleaner(latest, rules.tombstones_below, aborted)
    done = _Round()
    rewriting = Rewriting(unit, rules, chunk_bytes=task.chunk_bytes)
    # The round knows no record after end_offset, so it cannot clean the sources there.
    within = [source for source in unit.sources if source.base_offset < latest.end_offset]
    for at, source in enumerate(within):
        is_end = source is within[-1] or follows_hole(within, at + 1)
        is_last = is_end or source.base_offset < rules.alone_below
        held = await sources.read(source)
        aborted.add(held.aborted)
        cleaned = await _clean(held, cleaner, is_last=is_last)
        new = rewriting.take(at, cleaned)
        if new is not None:
            await _keep(store, task, unit, new, attempt, done)
    new = rewriting.finish(len(within))
    if new is not None:
        await _keep(store, task, unit, new, attempt, done)
    return _result(unit, sources, latest.end_offset, cleaner.removed, done)


def _result(
    unit: MergeUnit, sources: _Sources, end_offset: int, removed: Removed, done: _Round
) -> UnitResult:
    compacted = Compacted(
        tuple(done.stretches),
        end_offset,
        removed.superseded,
        removed.tombstones,
        removed.keyless,
        removed.unreadable,
    )
    return UnitResult(
        unit.number,
        tuple(done.segments),
        done.records,
        0,
        sources.read_bytes,
        sources.gets,
        compacted=compacted,
    )


async def _learn(sources: _Sources, unit: MergeUnit, rules: CompactionRules) -> LatestOffsets:
    """Return the newest offset of each key in the dirty sources, until the map is full.

    The clean part need not be read: after the last round no clean record there is superseded by
    another clean one, even if that round ended within a source.
    """
    latest = LatestOffsets(rules.dirty_from)
    aborted = AbortedSet()
    pause = _Pause()
    for source in unit.sources:
        if source.next_offset <= rules.dirty_from:
            continue
        held = await sources.read(source)
        aborted.add(held.aborted)
        for run in held.runs:
            for batch in _batches(run):
                if read_header(batch).last_offset < rules.dirty_from:
                    continue
                if latest.size_bytes >= rules.map_bytes:
                    return latest
                latest.add(batch, aborted)
                await pause.after(read_header(batch).record_count)
    latest.end_offset = unit.next_offset
    return latest


async def _clean(held: _Held, cleaner: Cleaner, *, is_last: bool) -> CleanedSource:
    """Return a source's remaining batches; is_last: its last offset has to stay."""
    kept: list[FinalBatch] = []
    pause = _Pause()
    entries = [each for each in held.aborted if cleaner.keeps_entry(each)]
    records, removed_before = 0, cleaner.removed.total
    is_changed = len(entries) < len(held.aborted)
    for run in held.runs:
        for at, batch in enumerate(_batches(run)):
            is_end = is_last and run is held.runs[-1] and at == len(run) - 1
            left = cleaner.clean(batch, is_last=is_end)
            count = HEADER.unpack_from(batch)[-1]
            records += count
            is_changed |= left is not batch
            if left is not None:
                kept.append(final_batch(left))
            await pause.after(count)
    gone = cleaner.removed.total - removed_before
    return CleanedSource(kept, records, gone, is_changed, entries)


class _Pause:
    """Lets other tasks of the same process run now and then."""

    def __init__(self) -> None:
        self._left = RECORDS_A_TURN

    async def after(self, records: int) -> None:
        self._left -= records
        if self._left <= 0:
            self._left = RECORDS_A_TURN
            await trio.lowlevel.checkpoint()


def _batches(run: PreparedRun) -> Iterator[memoryview]:
    return map(run.batch, range(len(run)))


async def _keep(
    store: ObjectStore,
    task: MergeTask,
    unit: MergeUnit,
    new: NewStretch,
    attempt: int,
    done: _Round,
) -> None:
    proof = prove(new.sealed.body)
    if proof.records + new.removed != new.records:
        raise UnitFailed(
            f"{new.records} records were read, {new.removed} removed and {proof.records} written"
            f" from offset {new.base_offset} on: nothing was published"
        )
    segment = await put_segment(store, task, unit, new.base_offset, new.sealed, attempt)
    done.segments.append(segment)
    done.records += proof.records
    done.stretches.append(Stretch(new.first, new.stop, proof.records, proof.digest, new.removed))
