"""Verifies the bytes of objects before any reader gets them.

Damage in the store or in this gateway's memory is counted and logged.  If the damaged bytes came
from another gateway, they are read again from the store.
"""

from __future__ import annotations

import structlog

from tidegate_coordination.events.cluster import RUN_LOG_APPEND_TIME
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_runtime.line_rates import STRANGERS_LINES
from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.segment_format import SegmentIndex

from .cached_object import CachedObject
from .lending.object_reads import Got
from .prepared_runs import CorruptRun, PreparedRun, prepare_run
from .read_groups import end_of
from .segment_rows import published_index

_log = structlog.get_logger("tidegate.fetch", STRANGERS_LINES)


class RunVerifier:
    """Prepares runs, and reads the indexes of segments.

    corrupt_runs: a counter, for metrics.
    """

    def __init__(self) -> None:
        self.corrupt_runs = 0

    def prepare_copy(
        self, got: Got, row: RunRow, partition: Partition, *, may_fail: bool
    ) -> PreparedRun | None:
        """Copy and prepare a run, so that its eviction releases its memory.

        may_fail: return None for damaged bytes.

        Raises:
          CorruptRun: the bytes are damaged, and may_fail is not set.
        """
        region = memoryview(bytearray(got.part(row.position, row.length)))
        try:
            return prepare_run(region, row, partition, got.ask.key)
        except CorruptRun as error:
            if got.is_from_store:
                self._note_corrupt(error)
            if may_fail:
                return None
            raise

    def prepare_own(
        self, cached: CachedObject, partition: Partition, row: RunRow
    ) -> PreparedRun | None:
        """Prepare a run of an own object; None if its memory is damaged."""
        try:
            region = memoryview(cached.body)[row.position : end_of(row)]
            run = prepare_run(region, row, partition, cached.object_key)
        except CorruptRun as error:
            self._note_corrupt(error)
            return None
        cached.prepared[row.position] = run
        cached.is_stamped |= bool(row.flags & RUN_LOG_APPEND_TIME)
        return run

    def read_index(
        self, got: Got, row: RunRow, partition: Partition, *, may_fail: bool
    ) -> SegmentIndex | None:
        """Read the index of a segment; may_fail: as in prepare_copy().

        Raises:
          CorruptRun: the bytes differ from the published index.
          UnknownVersion: a newer release wrote the object in the store; the text names it.
        """
        try:
            return published_index(tail_of(got, row), row, partition)
        except (CorruptObject, UnknownVersion) as error:
            if got.is_from_store and isinstance(error, UnknownVersion):
                raise UnknownVersion(f"object {got.ask.key}: {error}") from error
            corrupt = CorruptRun(got.ask.key, partition, row.base_offset, str(error))
            if got.is_from_store:
                self._note_corrupt(corrupt)
            if may_fail:
                return None
            raise corrupt from error

    def _note_corrupt(self, error: CorruptRun) -> None:
        self.corrupt_runs += 1
        _log.error("stored records are corrupt; other partitions are not touched", error=str(error))


def tail_of(got: Got, row: RunRow) -> memoryview:
    """Return the bytes after the batches of a segment."""
    return got.body[row.position - got.ask.start :]
