"""The numbers and tables of the cluster state.

The folds (cluster.py, folds/runs.py) and the snapshots (snapshot_head.py) import this module, so it
imports none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..events.cluster import RUN_LOG_APPEND_TIME, RUN_WALKED
from ..events.metadata_versions import FIRST, NEWEST
from .changes import Tables
from .frozen import FrozenState
from .log_moves import LogMoveTable
from .records.objects import ObjectTable
from .records.partition_table import PartitionTable
from .records.producer_ids import ProducerIdTable
from .records.runs import RunRow
from .tenant_tables import TenantTables
from .timelines import TimelineTable
from .writers.gateways import GatewayTable
from .writers.pipeline_reports import ReportTable
from .writers.proposals import ProposalTable
from .writers.static_settings import StaticSettingsTable


class StateTables(TenantTables):
    """Every durable fact that is not record bytes, as of `position` in the log.

    Its own tables are shared by all tenants.  The inherited tables of names are those of tenant 0,
    the only tenant so far. touched: partition numbers that grew or moved since the caller last
    cleared it, for wake-ups. changed: the tables that changed since then; see changes.py.
    highest_version: the metadata.version up to which its owner reads: that of this release, except
      for a simulated older one.  frozen_states: of the snapshots under way.
    """

    def __init__(self, highest_version: int = NEWEST) -> None:
        self.highest_version = highest_version
        self.metadata_version = FIRST
        self.position = 0
        self.log_time_ms = 0
        self.expiry_resumes_at_ms = 0
        self.cluster_id = ""
        self.timeline = 0
        self.timelines: Final = TimelineTable()
        self.gateways: Final = GatewayTable()
        self.partitions: Final = PartitionTable()
        super().__init__(self.partitions, self._grows)
        self.objects: Final = ObjectTable()
        self.producer_ids: Final = ProducerIdTable()
        self.pipeline_reports: Final = ReportTable()
        self.proposals: Final = ProposalTable()
        self.log_moves: Final = LogMoveTable()
        self.static_settings: Final = StaticSettingsTable()
        self.touched: Final[set[int]] = set()
        self.changed: Tables = 0
        self.frozen_states: Final[list[FrozenState]] = []

    def committed_at_ms(self, row: RunRow) -> int:
        """Return the log time at which a run was committed; for a marker, its own time."""
        if row.is_marker:
            return row.max_timestamp
        return self.objects.committed_at_ms(row.object_number)

    def newest_at_ms(self, row: RunRow) -> int:
        """Return the time from which a run ages: that of its newest record.

        A header that was never compared with its records may say any time, so such a run ages from
        its commit, or from the header's time if that is later.  A run without time stamps ages from
        its commit.
        """
        timestamp = row.max_timestamp
        if row.flags & (RUN_WALKED | RUN_LOG_APPEND_TIME) and timestamp >= 0:
            return timestamp
        return max(timestamp, self.committed_at_ms(row))

    def timeline_of(self, incarnation: int) -> int:
        """Return the timeline whose folder holds the incarnation's objects."""
        return self.timelines.of(incarnation, self.timeline)

    @property
    def settled_time_ms(self) -> int:
        """Return the time up to which rows count as old, even if one clock is wrong.

        0: no row counts as old.
        """
        if self.log_time_ms < self.expiry_resumes_at_ms:
            return 0
        return self.gateways.earlier_of_median_and(self.log_time_ms)

    def _grows(self, number: int) -> None:
        """A partition is about to grow."""
        self.touched.add(number)
        if self.frozen_states:
            self.keep_partitions((number,))

    def keep_partitions(self, numbers: Iterable[int]) -> None:
        """Encode these rows for the snapshots under way: they are about to change."""
        if self.frozen_states:
            numbers = list(numbers)
            for frozen in self.frozen_states:
                frozen.partitions.keep(numbers)

    def keep_transactions(self, names: Iterable[str]) -> None:
        """Encode these transactional ids for the snapshots under way: they are about to change."""
        if self.frozen_states:
            names = list(names)
            for frozen in self.frozen_states:
                frozen.transactions.keep(names)

    def keep_groups(self, group_ids: Sequence[str]) -> None:
        """Encode these groups for the snapshots under way: they are about to change."""
        for frozen in self.frozen_states:
            frozen.groups.keep(group_ids)
