"""Copies of the metadata log, made on a schedule, and the watch over who owns the prefix.

Every gateway copies at its own moments; one that sees that another copied since its last look does
nothing, so the work is shared without a claim.  Each round begins with a look at the store's
markers: a gateway whose log was restored elsewhere stops there.

A gateway copies at once when it starts, and once more when it leaves, whatever others copied: they
may have left before it.  No gateway starts on a log that lacks what is copied (prefixes.py).  So
only what follows the last copy can be lost unnoticed, and only where no gateway left in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import structlog
import trio

from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable, MetadataLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.objects.ownership import check_owner
from tidegate_storage.stores.object_store import ObjectExists, ObjectStore

from .upkeep import Upkeep

_log = structlog.get_logger("tidegate.backup")


@dataclass(slots=True)
class BackupStatus:
    """What is copied.  position, time_ms: of the newest copy known here; 0 before the first."""

    position: int = 0
    time_ms: int = 0
    bytes: int = 0
    failures: int = 0


class BackupSchedule:
    """See the module's head.

    interval_seconds: between two copies, 0 for none.  check_seconds: between two looks at the
    markers when nothing is copied.
    """

    def __init__(
        self,
        state: ClusterState,
        log: MetadataLog,
        store: ObjectStore,
        *,
        interval_seconds: float,
        check_seconds: float,
        snapshot_entries: int,
        wall_clock: Callable[[], float],
        upkeep: Upkeep | None = None,
    ) -> None:
        self._state = state
        self._upkeep = upkeep or Upkeep()
        self._store = store
        self._copier = Copier(
            log, store, state.cluster_id, state.timeline, snapshot_entries=snapshot_entries
        )
        self._is_on = interval_seconds > 0
        self._pause_seconds = interval_seconds or check_seconds
        self._wall_clock = wall_clock
        self._copied_log_time_ms = 0 if self._is_on else inf
        self._awaited = (0, 0)
        self._one_at_a_time = trio.Lock()
        self.status = BackupStatus()

    async def run(self) -> None:
        """Copy and watch; forever.

        Raises:
          TimelineOver: this gateway's log is the old one.  Stop.
          LogMisconfigured: it is not the one that was copied.  Stop.
        """
        while True:
            if not await self._upkeep.attempt("back the metadata log up", self.look_and_copy):
                self.status.failures += 1
            await trio.sleep(self._pause_seconds)

    async def cover(self, position: int) -> None:
        """See that the log is copied up to a position, if it is copied at all.

        Raises:
          LogMisconfigured: it is not the log that was copied.  Stop.
          LogUnavailable, StoreUnavailable: it is not; try again later.
        """
        if not self._is_on or self.status.position >= position:
            return
        try:
            await self.copy_once(even_if_others_do=True)
        except (LogCorrupt, ObjectExists) as error:
            raise LogUnavailable(f"it could not be copied: {error}") from error
        if self.status.position < position:
            raise LogUnavailable(f"the log shows no entry {position} yet, so none was copied")

    async def look_and_copy(self, *, even_if_others_do: bool = False) -> None:
        """See that the prefix is this log's, and copy what is new; raises as run()."""
        await self.check_owner()
        if not self._is_on:
            return
        try:
            await self.copy_once(even_if_others_do=even_if_others_do)
        except (LogCorrupt, ObjectExists) as error:
            # A damaged log stops the gateway where it reads it; here older copies stay.
            self.status.failures += 1
            _log.warning("could not back the metadata log up", error=str(error))

    async def check_owner(self) -> None:
        """See that the prefix is still this log's.

        Raises:
          TimelineOver: a restore took it over.
          StoreMisconfigured: it is another cluster's.
          StoreUnavailable: nobody can tell now.
        """
        await check_owner(self._store, self._state.cluster_id, timeline=self._state.timeline)

    @property
    def copied_log_time_ms(self) -> float:
        """Return a log time: all entries of earlier ones are copied, or need not be."""
        return self._copied_log_time_ms

    async def copy_once(self, *, even_if_others_do: bool = False) -> None:
        """Copy what is new."""
        async with self._one_at_a_time:
            await self._copy(even_if_others_do=even_if_others_do)

    async def _copy(self, *, even_if_others_do: bool) -> None:
        began_ms = int(self._wall_clock() * 1000)
        now = (self._state.position, self._state.log_time_ms)
        report = await self._copier.copy(even_if_others_do=even_if_others_do, up_to=now[0])
        # Where others are always faster, what was here a round ago is in their copies by now.
        for position, log_time_ms in (self._awaited, now):
            if report.position >= position:
                self._copied_log_time_ms = log_time_ms
        if report.position >= self._awaited[0]:
            self._awaited = now
        self.status.position = report.position
        self.status.time_ms = began_ms
        self.status.bytes += report.bytes
