"""The segments of a compacted partition: which sources share one, and which stay.  Pure.

Sources come in offset order, each with its remaining batches.  Neighbours become one segment until
it is full; a large source that lost nothing stays as it is.  If a source lost all records, the next
source's segment covers its offsets, so each offset belongs to some segment.

No segment covers a hole: it may hold the marker of a transaction that an index names as aborted,
and an answer to a reader of committed records ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate_storage.objects.segment_format import AbortedTransaction
from tidegate_storage.objects.segments import FinalBatch, SealedSegment, SegmentBuilder

from .work import CompactionRules, MergeUnit, Source


@dataclass(frozen=True, slots=True)
class CleanedSource:
    """A source after cleaning.

    records: how many it had.  removed: how many of them were removed.  is_changed: also true if it
    lost only an empty batch.  aborted: its aborted transactions.
    """

    batches: Sequence[FinalBatch]
    records: int
    removed: int
    is_changed: bool
    aborted: Sequence[AbortedTransaction] = ()


@dataclass(frozen=True, slots=True)
class NewStretch:
    """A segment that replaces sources[first:stop]; records: how many records these sources had."""

    first: int
    stop: int
    base_offset: int
    sealed: SealedSegment
    records: int
    removed: int


def follows_hole(sources: Sequence[Source], at: int) -> bool:
    """Return whether a source does not begin where the one before it ends."""
    return at > 0 and sources[at].base_offset != sources[at - 1].next_offset


@dataclass(slots=True)
class _Open:
    """The segment being filled."""

    first: int
    builder: SegmentBuilder
    oldest_ms: int
    has_batches: bool = False
    is_changed: bool = False
    records: int = 0
    removed: int = 0


class Rewriting:
    """The plan of a partition's new segments, made source by source."""

    def __init__(self, unit: MergeUnit, rules: CompactionRules, *, chunk_bytes: int) -> None:
        self._unit = unit
        self._rules = rules
        self._chunk_bytes = chunk_bytes
        self._open: _Open | None = None

    def take(self, at: int, cleaned: CleanedSource) -> NewStretch | None:
        """Take source number `at`; return the segment that ends before it, if one does."""
        source = self._unit.sources[at]
        is_over = follows_hole(self._unit.sources, at) or self._is_over(source, cleaned)
        ended = self._end(at) if is_over else None
        if self._open is None and self._may_stay(source, cleaned):
            return ended
        self._add(at, source, cleaned)
        return ended

    def finish(self, stop: int) -> NewStretch | None:
        """Return the last segment; stop: the number of sources."""
        return self._end(stop)

    def _may_stay(self, source: Source, cleaned: CleanedSource) -> bool:
        return not cleaned.is_changed and source.length * 2 > self._rules.segment_bytes

    def _is_over(self, source: Source, cleaned: CleanedSource) -> bool:
        """Return whether the open segment must end before a source."""
        gathered = self._open
        if gathered is None or not gathered.has_batches:
            return False
        size_bytes = gathered.builder.length + sum(len(each.data) for each in cleaned.batches)
        span_ms = self._rules.span_ms
        is_too_long = span_ms >= 0 and source.newest_at_ms - gathered.oldest_ms > span_ms
        is_full = size_bytes > self._rules.segment_bytes
        is_alone = self._unit.sources[gathered.first].base_offset < self._rules.alone_below
        return is_full or is_too_long or is_alone or self._may_stay(source, cleaned)

    def _add(self, at: int, source: Source, cleaned: CleanedSource) -> None:
        gathered = self._open
        if gathered is None:
            builder = SegmentBuilder(
                self._unit.topic_id,
                self._unit.partition,
                source.base_offset,
                chunk_bytes=self._chunk_bytes,
            )
            gathered = self._open = _Open(at, builder, self._oldest_ms(at))
        for batch in cleaned.batches:
            gathered.builder.append(batch)
        for transaction in cleaned.aborted:
            gathered.builder.add_aborted(transaction)
        gathered.has_batches |= bool(cleaned.batches)
        gathered.is_changed |= cleaned.is_changed
        gathered.records += cleaned.records
        gathered.removed += cleaned.removed

    def _oldest_ms(self, at: int) -> int:
        """Return about the time of a source's oldest record: the newest of the source before."""
        own = self._unit.sources[at].newest_at_ms
        return min(self._unit.sources[at - 1].newest_at_ms, own) if at else own

    def _end(self, stop: int) -> NewStretch | None:
        """Seal the open segment; return None if it is one unchanged source."""
        gathered, self._open = self._open, None
        if gathered is None or (stop - gathered.first == 1 and not gathered.is_changed):
            return None
        next_offset = self._unit.sources[stop - 1].next_offset
        return NewStretch(
            gathered.first,
            stop,
            self._unit.sources[gathered.first].base_offset,
            gathered.builder.seal(next_offset),
            gathered.records,
            gathered.removed,
        )
