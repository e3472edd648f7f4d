"""Copies the metadata log to the object store, on a schedule or by an operator's command.

Several gateways may copy at once: see copies.py.  A round copies only new entries, and skips its
turn if another gateway has copied since the last round.  If the log is trimmed during a copy, its
newest snapshot replaces the trimmed entries.  The entries that the log has below the snapshot are
copied first: they may hold bytes of records that the snapshot needs (decision 49).  Before a copy,
the log is compared with the last copied entry (same_log.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from tidegate_storage.stores.object_store import ObjectStore

from ..log.inlined_bodies import first_needed_of
from ..log.metadata_log import FIRST_POSITION, LogUnavailable, MetadataLog, Trimmed
from ..log.whole_entries import expect_whole
from .copies import EntriesName, chain, kept, obsolete
from .same_log import Mark, mark_of, newest_mark, see_same
from .shelf import Copies, Shelf

READ_BYTES: Final = 4 << 20
SNAPSHOTS_KEPT: Final = 2


@dataclass(slots=True)
class CopyReport:
    """The result of a round. position: all entries up to it are copied.

    by_others: the round was skipped, because another gateway has copied.
    """

    position: int = 0
    bytes: int = 0
    objects: int = 0
    entries: int = 0
    dropped: int = 0
    snapshot_position: int = 0
    by_others: bool = False


class Copier:
    """Copies one log.

    snapshot_entries: look for a newer snapshot after this many copied entries.
    """

    def __init__(
        self,
        log: MetadataLog,
        store: ObjectStore,
        cluster_id: str,
        timeline: int,
        *,
        snapshot_entries: int = 10_000,
    ) -> None:
        self._log = log
        self._shelf = Shelf(store, cluster_id, timeline)
        self._snapshot_entries = snapshot_entries
        self._covered = -1
        self._base = 0
        self._snapshot_due = 0
        self._bridged_to = 0
        self._last_key = ""
        self._last: Mark | None = None

    async def copy(self, *, even_if_others_do: bool = True, up_to: float = inf) -> CopyReport:
        """Copy new snapshots and entries.

        up_to: a position of the log.  Some later entries may be copied, too; but the call ends even
        if the log grows faster than it is copied.

        Raises:
          LogUnavailable, StoreUnavailable: try again later; the copies so far stay.
          LogCorrupt: the log is damaged.  Older copies are untouched.
          LogMisconfigured: the log is not the one that was copied.  Older copies are untouched.
        """
        report = CopyReport()
        if self._covered < 0:
            await self._look()
        elif await self._others_went_on() and not even_if_others_do and not self._has_gap:
            report.by_others = True
        if self._last is not None:
            await see_same(self._log, self._last)
        if not report.by_others:
            # Copy entries first. If the newer snapshot proves damaged, a restore uses the older one
            # and these entries.
            await self._copy_entries(report, up_to)
            await self._copy_snapshot_if_due(report)
        report.position, report.snapshot_position = self._covered, self._base
        return report

    async def _look(self) -> None:
        copies = await self._shelf.look()
        if copies.snapshots:
            self._base = max(copies.snapshots).position
        self._covered = _end_of(copies, self._base)
        self._snapshot_due = self._base + self._snapshot_entries
        if copies.entries:
            self._last_key = max(map(self._shelf.key_of, copies.entries))
            self._last = await newest_mark(self._shelf, copies.entries)

    async def _others_went_on(self) -> bool:
        found = await self._shelf.new_entries(self._last_key)
        if not found:
            return False
        self._last_key = self._shelf.key_of(found[-1][0])
        before = self._covered
        news = chain([name for name, _ in found], before)
        for name in news:
            self._covered = name.last
        self._last = await newest_mark(self._shelf, news) or self._last
        return self._covered > before

    @property
    def _has_gap(self) -> bool:
        """Whether trimmed entries were stepped over that no copied snapshot replaces yet."""
        return self._base < self._bridged_to

    async def _copy_snapshot_if_due(self, report: CopyReport) -> None:
        if self._covered >= self._snapshot_due:
            await self._copy_snapshot(report)
        while self._has_gap:
            before = self._base
            await self._copy_snapshot(report)
            if self._base == before:
                raise self._cannot_step_to(self._bridged_to + 1)

    async def _copy_snapshot(self, report: CopyReport) -> None:
        """Copy the log's newest snapshot, if it is newer than the one copied last."""
        # Loading a snapshot is costly. If the log has no newer one yet, look again only after more
        # entries.
        self._snapshot_due = self._covered + max(1, self._snapshot_entries // 10)
        snapshot = await self._log.load_snapshot()
        if snapshot is None or snapshot.position <= self._base:
            return
        await self._copy_entries(report, snapshot.position)
        needed = first_needed_of(snapshot)
        if needed is not None and needed <= self._bridged_to:
            return  # entries that it needs were trimmed meanwhile; the log has a newer snapshot
        name, size_bytes = await self._shelf.put_snapshot(snapshot)
        self._base = name.position
        self._covered = max(self._covered, self._base)
        self._snapshot_due = self._base + self._snapshot_entries
        report.bytes += size_bytes
        report.objects += 1
        report.dropped += await self._prune()

    async def _copy_entries(self, report: CopyReport, up_to: float) -> None:
        while self._covered < up_to:
            entries = await self._log.read(self._covered + 1, READ_BYTES)
            if isinstance(entries, Trimmed):
                await self._step_over(entries)
                continue
            if not entries:
                return
            expect_whole(entries)  # else only a restore would find the damage
            name, size_bytes = await self._shelf.put_entries(entries)
            self._note(name)
            self._last = mark_of(entries[-1])
            report.bytes += size_bytes
            report.objects += 1
            report.entries += len(entries)

    async def _step_over(self, trimmed: Trimmed) -> None:
        """Continue where the log begins; a snapshot will replace the entries before."""
        snapshot = await self._log.load_snapshot()
        if snapshot is None or snapshot.position + 1 < trimmed.first_position:
            raise self._cannot_step_to(trimmed.first_position)
        self._bridged_to = self._covered = trimmed.first_position - 1

    def _cannot_step_to(self, first_position: int) -> LogUnavailable:
        return LogUnavailable(
            f"the log begins at {first_position}, and its newest snapshot does not reach up to"
            f" there: nothing can be copied beyond {self._covered}"
        )

    def _note(self, name: EntriesName) -> None:
        self._covered = name.last
        self._last_key = max(self._last_key, self._shelf.key_of(name))

    async def _prune(self) -> int:
        """Keep the newest whole snapshots and the entries they need; return the count deleted."""
        copies = await self._shelf.look()
        stay = kept(copies.snapshots, SNAPSHOTS_KEPT)
        needed = [await self._shelf.first_needed(each) for each in stay]
        snapshots, entries = obsolete(
            copies.snapshots, copies.entries, SNAPSHOTS_KEPT, min(needed, default=inf)
        )
        if snapshots:
            oldest = max(each.position for each in snapshots)
            snapshots += [each for each in copies.unfinished if each.position <= oldest]
        await self._shelf.drop(snapshots, entries)
        return len(snapshots) + len(entries)


def _end_of(copies: Copies, base: int) -> int:
    """Return the last position that the copies reach without a gap."""
    reached = max(base, FIRST_POSITION - 1)
    for name in chain(copies.entries, reached):
        reached = name.last
    return reached
