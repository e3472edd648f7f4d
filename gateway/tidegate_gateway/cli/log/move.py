"""`tidegate log move`: moves the metadata log of a live cluster to another log."""

from __future__ import annotations

import os
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.visitor import end_visit, keep_lease, register_visitor
from tidegate_coordination.existing import open_existing_log, open_existing_store, sqlite_path
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.log_move.mover import LogMover, MovePlan, MoveReport, check_logs
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules.log_moves import CancelLogMove
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.settings_texts import BadSource
from tidegate_runtime.url_secrets import without_secrets
from tidegate_storage.objects.keys import OWNER_KEY
from tidegate_storage.objects.ownership import check_owner

from ..existing_cluster import coordinator_of
from .backup_running import Lines, Progress, run_log_command

STORE_FOLDER: Final = "objects"


@dataclass(frozen=True, slots=True)
class LogMoveOptions:
    """The options as typed.  to: "" only with cancels.  object_store: "" if it is not known."""

    source: str
    to: str
    cancels: bool
    ready_seconds: int
    stall_seconds: int
    object_store: str = ""


def run_log_move(options: LogMoveOptions, *, as_json: bool) -> int:
    """Move, or cancel a move; return the exit code."""

    async def work(say: Progress) -> tuple[int, Lines, dict[str, object]]:
        if bool(options.to) == options.cancels:
            raise BadSource("give LOG and NEW; with --cancel give only LOG")
        return await (_cancelled(options) if options.cancels else _moved(options, say))

    return run_log_command(work, as_json=as_json)


async def _cancelled(options: LogMoveOptions) -> tuple[int, Lines, dict[str, object]]:
    async with AsyncExitStack() as stack:
        coordinator, _ = await _opened(stack, options)
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(coordinator.run)
        was = await coordinator.propose(CancelLogMove())
        nursery.cancel_scope.cancel()
    line = "the move is cancelled: the log stays" if was else "no move was under way"
    return 0, [line], {"cancelled": was}


async def _moved(options: LogMoveOptions, say: Progress) -> tuple[int, Lines, dict[str, object]]:
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        say("reading the log")
        source = await open_existing_log(options.source)
        stack.push_async_callback(source.aclose)
        coordinator, log = await _opened(stack, options)
        if log.moves:
            return _moved_before(coordinator)
        await _see_not_over(coordinator.state, options)
        target = await open_log(options.to)
        stack.push_async_callback(target.aclose)
        check_logs(source, target)
        report = await _move(coordinator, log, source, target, options, say)
    seconds = round(time.monotonic() - began, 2)
    url = _everywhere(options.to)
    shown = without_secrets(url)
    left_out = "" if shown == url else " (add its password, which is not shown here)"
    lines = [
        f"the metadata log has moved: {report.copied} entries after its snapshot,"
        f" {report.gateways} gateways, {seconds} s",
        f"Set metadata.log={shown}{left_out} for every gateway and command. Running gateways use"
        " it already. Keep the old log until all have the setting: it names the new log.",
    ]
    return 0, lines, {"moved": True, **asdict(report), "seconds": seconds, "metadata_log": shown}


async def _see_not_over(state: ClusterState, options: LogMoveOptions) -> None:
    """Check that the log is still the cluster's: no restore has replaced it by another log.

    Only the object store shows whether there was a restore.  Without --object-store this uses the
    store of `tidegate dev`, beside the log.  If there is none, it checks nothing.

    Raises:
      StoreMisconfigured: a restore has replaced the log, or the store is another cluster's.
      StoreUnavailable: the store does not answer.
    """
    url = options.object_store or _store_beside(options.source)
    if not url:
        return
    store = open_existing_store(url)
    try:
        await check_owner(store, state.cluster_id, timeline=state.timeline)
    finally:
        await store.aclose()


def _store_beside(log_url: str) -> str:
    path = sqlite_path(log_url)
    folder = None if path is None else path.parent.absolute() / STORE_FOLDER
    return f"file:{quote(str(folder))}" if folder and (folder / OWNER_KEY).exists() else ""


def _moved_before(coordinator: Coordinator) -> tuple[int, Lines, dict[str, object]]:
    """Return the result if an earlier call has moved the log already."""
    moves = coordinator.state.log_moves
    url = without_secrets(moves.last.url)
    line = f"this log has moved to {url} at position {moves.sealed_at}"
    return 0, [line], {"moved": True, "sealed_at": moves.sealed_at, "metadata_log": url}


async def _move(
    coordinator: Coordinator,
    log: MovableLog,
    source: MetadataLog,
    target: MetadataLog,
    options: LogMoveOptions,
    say: Progress,
) -> MoveReport:
    plan = MovePlan(
        os.urandom(8).hex(),
        _everywhere(options.to),
        ready_seconds=options.ready_seconds,
        stall_seconds=options.stall_seconds,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await register_visitor(
            coordinator,
            "log-move",
            rng=Random(os.urandom(32)),
            software_version=version("tidegate"),
        )
        nursery.start_soon(keep_lease, coordinator)
        report = await LogMover(coordinator, log, source, target, plan, say).run()
        # This appends to the new log; its entry is the first one, unless a gateway was faster.
        await end_visit(coordinator)
        nursery.cancel_scope.cancel()
    return report


async def _opened(stack: AsyncExitStack, options: LogMoveOptions) -> tuple[Coordinator, MovableLog]:
    async def open_next(url: str) -> MetadataLog:
        """Open the new log, by the typed URL if it is the same log.

        The old log has the URL without its password.
        """
        is_typed = url == without_secrets(_everywhere(options.to))
        return await open_existing_log(options.to if is_typed else url)

    log = MovableLog(await open_existing_log(options.source), open_next)
    stack.push_async_callback(log.aclose)
    return await coordinator_of(log, Random(os.urandom(32))), log


def _everywhere(url: str) -> str:
    """Return a URL with an absolute path: gateways of this machine may run in other folders."""
    path = sqlite_path(url)
    return url if path is None else f"sqlite:{Path.cwd() / path}"
