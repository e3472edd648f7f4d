"""Copies the metadata log on a schedule, and checks that the prefix still belongs to this log.

Each gateway has its own schedule.  If another gateway has copied since its last round, a gateway
skips its turn, so gateways share the work without a claim.  Each round first reads the store's
owner markers.  If the log was restored elsewhere, the gateway stops.

A gateway copies at once when it starts.  It copies once more when it shuts down, even if others
have copied, since those may have shut down before it.  No gateway starts on a log that lacks copied
entries (prefixes.py).  So a loss of entries goes unnoticed only for entries after the last copy,
and only if no gateway has shut down cleanly since.
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
    """Facts about the copies.

    position, time_ms: of the newest copy that this gateway knows; 0 before the first copy.  bytes:
    the number of bytes that this gateway copied.
    """

    position: int = 0
    time_ms: int = 0
    bytes: int = 0
    failures: int = 0


class BackupSchedule:
    """Copies the log of one gateway; see the module's head.

    interval_seconds: the time between two copies; 0 turns copies off.  check_seconds: the time
    between two checks of the owner markers if copies are off.
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
        """Check the markers and copy; forever.

        Raises:
          TimelineOver: a restore has replaced this gateway's log; stop the gateway.
          LogMisconfigured: the log is not the one that was copied; stop the gateway.
        """
        while True:
            if not await self._upkeep.attempt("back the metadata log up", self.look_and_copy):
                self.status.failures += 1
            await trio.sleep(self._pause_seconds)

    async def cover(self, position: int) -> None:
        """Copy the log at least up to a position; do nothing if copies are off.

        Raises:
          LogMisconfigured: the log is not the one that was copied; stop the gateway.
          LogUnavailable, StoreUnavailable: the position is not copied; try again later.
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
        """Check that the prefix belongs to this log, and copy new entries.

        Raises:
          TimelineOver, LogMisconfigured: as run().
          StoreMisconfigured, StoreUnavailable, LogUnavailable: try again later.
        """
        await self.check_owner()
        if not self._is_on:
            return
        try:
            await self.copy_once(even_if_others_do=even_if_others_do)
        except (LogCorrupt, ObjectExists) as error:
            # A damaged entry stops the gateway when it folds the entry.  Here, only the copying
            # stops, and older copies stay.
            self.status.failures += 1
            _log.warning("could not back the metadata log up", error=str(error))

    async def check_owner(self) -> None:
        """Check that the prefix still belongs to this log.

        Raises:
          TimelineOver: a restore took the prefix over.
          StoreMisconfigured: the prefix is another cluster's.
          StoreUnavailable: the owner cannot be read now.
        """
        await check_owner(self._store, self._state.cluster_id, timeline=self._state.timeline)

    @property
    def copied_log_time_ms(self) -> float:
        """The log time before which all entries are copied; inf if copies are off."""
        return self._copied_log_time_ms

    async def copy_once(self, *, even_if_others_do: bool = False) -> None:
        """Copy new entries; skip this if other gateways have copied, unless even_if_others_do."""
        async with self._one_at_a_time:
            await self._copy(even_if_others_do=even_if_others_do)

    async def _copy(self, *, even_if_others_do: bool) -> None:
        began_ms = int(self._wall_clock() * 1000)
        now = (self._state.position, self._state.log_time_ms)
        report = await self._copier.copy(even_if_others_do=even_if_others_do, up_to=now[0])
        # If others always copy first, their copies now reach up to this gateway's position of the
        # last round.
        for position, log_time_ms in (self._awaited, now):
            if report.position >= position:
                self._copied_log_time_ms = log_time_ms
        if report.position >= self._awaited[0]:
            self._awaited = now
        self.status.position = report.position
        self.status.time_ms = began_ms
        self.status.bytes += report.bytes
