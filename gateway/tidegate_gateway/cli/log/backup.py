"""`tidegate log backup`: copies a metadata log to an object store."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from importlib.metadata import version

from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.existing import open_existing_store, open_followed_log
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_storage.objects.ownership import claim_prefix

from .backup_running import Lines, Progress, run_log_command

LOAD_SECONDS = 120.0


def run_backup(log_url: str, store_url: str, *, as_json: bool) -> int:
    """Back up; return the exit code."""

    async def work(say: Progress) -> tuple[int, Lines, dict[str, object]]:
        return await _back_up(log_url, store_url, say)

    return run_log_command(work, as_json=as_json)


async def _back_up(
    log_url: str, store_url: str, say: Progress
) -> tuple[int, Lines, dict[str, object]]:
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        log = await open_followed_log(log_url)
        stack.push_async_callback(log.aclose)
        store = open_existing_store(store_url)
        stack.push_async_callback(store.aclose)
        say("reading the log")
        state = await load_state(log, deadline_seconds=LOAD_SECONDS)
        check_cluster(state, "")
        if not state.cluster_id:
            raise LogMisconfigured("it is empty: there is nothing to back up")
        await claim_prefix(
            store, state.cluster_id, timeline=state.timeline, created_by=version("tidegate")
        )
        say("copying")
        copier = Copier(log, store, state.cluster_id, state.timeline)
        report = await copier.copy(up_to=state.position)
    seconds = round(time.monotonic() - began, 2)
    values: dict[str, object] = {
        "cluster_id": state.cluster_id,
        "timeline": state.timeline,
        "position": report.position,
        "snapshot_position": report.snapshot_position,
        "bytes": report.bytes,
        "objects": report.objects,
        "dropped": report.dropped,
        "seconds": seconds,
    }
    what = (
        f"{report.bytes} bytes in {report.objects} objects"
        if report.objects
        else "nothing new to copy"
    )
    line = f"cluster {state.cluster_id} is backed up to position {report.position}"
    return 0, [f"{line}: {what}, {seconds} s"], values
