"""`tidegate log repair`: shows the damage of a metadata log, and makes a new log up to it."""

from __future__ import annotations

import random
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from tidegate_coordination.backup.recovery import NothingToRestore, Recovered
from tidegate_coordination.backup.repair import (
    Damage,
    identity_of,
    look_for_damage,
    recover_from_log,
    save_entries,
)
from tidegate_coordination.backup.restore import RestoreReport, Work, look_at_target, restore
from tidegate_coordination.backup.shelf import Copies, Shelf
from tidegate_coordination.backup.survey import is_in_use
from tidegate_coordination.existing import open_existing_log, open_existing_store, sqlite_path
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.settings_texts import BadSource
from tidegate_storage.objects.ownership import Owner, check_owner, newest_timeline
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore

from .backup_running import Lines, Progress, run_log_command
from .repair_file import put_in_place, refuse_if_open
from .restore import lines_of, owner_of

SHOWN_BAD = 10
Result = tuple[int, Lines, dict[str, object]]


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """The options as typed; "" for an absent option."""

    log: str
    object_store: str
    to: str
    save: str
    yes: bool


@dataclass(slots=True)
class _Found:
    """The damage, and the recovered state.  alone: the state from the log without backups."""

    damage: Damage
    alone: ClusterState | None
    recovered: Recovered | None = None
    owner: Owner | None = None

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to repair."""
        folded = self.alone.position if self.alone is not None else 0
        last = max(self.damage.last, self.damage.snapshot_position)
        return self.damage.is_whole and folded == last


def run_repair(options: RepairOptions, *, as_json: bool) -> int:
    """Show, or repair; return the exit code: 1 while something is damaged."""

    async def work(say: Progress) -> Result:
        async with AsyncExitStack() as stack:
            return await _Repair(options, say, stack).run()

    return run_log_command(work, as_json=as_json)


def _repaired(path: Path) -> Path:
    """Return the path of the new log, before it replaces the damaged one."""
    return path.with_name(f"{path.name}.repaired")


class _Repair:
    def __init__(self, options: RepairOptions, say: Progress, stack: AsyncExitStack) -> None:
        self._options = options
        self._say = say
        self._stack = stack

    async def run(self) -> Result:
        options = self._options
        path = sqlite_path(options.log) if not options.to else None
        self._check_options(path)
        if path is not None and options.yes and (done := await self._ended(path)):
            return done
        log = await open_existing_log(options.log)
        self._stack.push_async_callback(log.aclose)
        store: ObjectStore | None = None
        if options.object_store:
            store = open_existing_store(options.object_store)
            self._stack.push_async_callback(store.aclose)
        found = await self._look(log, store)
        lines, values = _told(found)
        if found.is_whole:
            return 0, lines, values
        if not options.yes or store is None:
            lines.append(
                "Nothing was changed. With --yes and --object-store this command saves all readable"
                " entries, and makes a new log in a new timeline. Stop all gateways before."
            )
            return 1, lines, values
        if found.recovered is None or found.owner is None:
            raise NothingToRestore(
                "the log cannot be repaired: neither the log nor a copy of it has a readable"
                " snapshot. " + " ".join(lines)
            )
        return await self._repair(log, store, found, path, (lines, values))

    def _check_options(self, path: Path | None) -> None:
        options = self._options
        if options.yes and not options.object_store:
            raise BadSource(
                "--yes needs --object-store: a repaired log is a new timeline, which the command"
                " writes to the object store"
            )
        if options.yes and not options.to and path is None:
            raise BadSource("name a new, empty log with --to; only a SQLite log can be replaced")

    async def _ended(self, path: Path) -> Result | None:
        """Complete an interrupted repair if only the move of the files is left to do."""
        repaired = _repaired(path)
        if not repaired.exists():
            return None
        log = await open_log(f"sqlite:{repaired}")
        try:
            target = await look_at_target(log)
        finally:
            await log.aclose()
        if not target.is_done or target.state is None:
            return None
        refuse_if_open(path)
        put_in_place(repaired, path, target.state.timeline)
        line = f"an interrupted repair is now complete: {path} is the repaired log"
        return 0, [line], {"ok": True, "timeline": target.state.timeline}

    async def _look(self, log: MetadataLog, store: ObjectStore | None) -> _Found:
        damage = await look_for_damage(log, self._say)
        alone = await identity_of(log, damage, self._say)
        found = _Found(damage, alone)
        copies: tuple[Shelf, Copies] | None = None
        if store is not None:
            found.owner = await owner_of(store, alone.cluster_id if alone is not None else "")
            timeline = await _timeline_of(store, found.owner, alone)
            shelf = Shelf(store, found.owner.cluster_id, timeline)
            copies = (shelf, await shelf.look())
        try:
            found.recovered = await recover_from_log(log, damage, copies, self._say)
        except NothingToRestore:
            found.recovered = None
        return found

    async def _repair(
        self,
        log: MetadataLog,
        store: ObjectStore,
        found: _Found,
        path: Path | None,
        told: tuple[Lines, dict[str, object]],
    ) -> Result:
        assert found.recovered is not None
        assert found.owner is not None
        folder = self._options.save or f"{path or 'metadata-log'}.saved"
        saved_in = open_store(f"file:{folder}")
        self._stack.push_async_callback(saved_in.aclose)
        saved = await save_entries(log, saved_in, found.owner.cluster_id)
        lines = [*told[0], f"{saved} entries are saved in {folder}"]
        if path is None:
            report = await self._restored(store, found, self._options.to)
        else:
            await log.aclose()
            refuse_if_open(path)
            repaired = _repaired(path)
            report = await self._restored(store, found, f"sqlite:{repaired}")
            aside = put_in_place(repaired, path, report.timeline)
            lines.append(f"the damaged log is {aside}; the repaired one is in its place")
        lines += [f"cluster {report.cluster_id} is repaired", *lines_of(report)]
        return 0, lines, {**told[1], "saved_in": folder, "repaired": asdict(report)}

    async def _restored(self, store: ObjectStore, found: _Found, url: str) -> RestoreReport:
        assert found.owner is not None
        new_log = await open_log(url)
        try:
            target = await look_at_target(new_log)
            work = Work(
                store,
                found.owner,
                new_log,
                random.SystemRandom(),
                time.time,
                self._say,
                version("tidegate"),
            )
            return await restore(work, found.recovered, target)
        finally:
            await new_log.aclose()


async def _timeline_of(store: ObjectStore, owner: Owner, alone: ClusterState | None) -> int:
    """Return the timeline of the damaged log.

    An interrupted repair may have opened a newer timeline, which no gateway uses.

    Raises:
      TimelineOver: a repair or restore has replaced this log by another one.
    """
    newest = await newest_timeline(store, owner)
    if alone is None:
        used = range(newest, owner.timeline, -1)
        for timeline in used:
            if await is_in_use(store, owner.cluster_id, range(timeline, timeline + 1)):
                return timeline
        return owner.timeline
    if await is_in_use(store, owner.cluster_id, range(alone.timeline + 1, newest + 1)):
        await check_owner(store, alone.cluster_id, timeline=alone.timeline)
    return alone.timeline


def _told(found: _Found) -> tuple[Lines, dict[str, object]]:
    damage = found.damage
    good = found.recovered.position if found.recovered is not None else 0
    last = max([damage.last, damage.snapshot_position, *damage.bad])
    lost = max(0, damage.last - good)
    lines = [f"snapshot    {damage.snapshot_error or f'at {damage.snapshot_position}'}"]
    lines.append(f"entries     {damage.first} to {last}; {len(damage.bad)} cannot be read")
    lines += [f"damaged     {why}" for why in list(damage.bad.values())[:SHOWN_BAD]]
    complaints = found.recovered.complaints if found.recovered is not None else []
    lines += [f"damaged     {why}" for why in complaints]
    if found.is_whole:
        lines.append("Nothing is damaged.")
    else:
        lines.append(f"good up to  {good}; {lost} entries after it would be lost")
    values: dict[str, object] = {
        "ok": found.is_whole,
        "damage": asdict(damage),
        "good_position": good,
        "lost_entries": lost,
        "complaints": complaints,
    }
    return lines, values
