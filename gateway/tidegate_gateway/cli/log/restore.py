"""`tidegate log restore`: makes a new metadata log from the newest backup and later objects."""

from __future__ import annotations

import random
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version

from tidegate_coordination.backup.recovery import (
    NothingToRestore,
    Recovered,
    recover_from_copies,
)
from tidegate_coordination.backup.restore import (
    RestoreReport,
    Work,
    look_at_target,
    restore,
)
from tidegate_coordination.events.metadata_versions import EPOCHS, FEATURE_NAME
from tidegate_coordination.existing import open_existing_store
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.addresses import url_host
from tidegate_runtime.name_lookups import NameLookups
from tidegate_storage.objects.ownership import Owner, newest_timeline, read_owner
from tidegate_storage.stores.object_store import ObjectStore

from ...peers.answering import Answering, GatewaysRun, those_that_answer
from .backup_running import Lines, Progress, run_log_command

SHOWN_UNPLACED = 20


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options as typed; "" for an absent option."""

    from_store: str
    log: str
    object_store: str
    cluster: str
    while_gateways_run: bool = False


def run_restore(options: RestoreOptions, *, as_json: bool) -> int:
    """Restore; return the exit code."""

    async def work(say: Progress) -> tuple[int, Lines, dict[str, object]]:
        report = await _restored(options, say)
        return 0, [f"cluster {report.cluster_id} is restored", *lines_of(report)], asdict(report)

    return run_log_command(work, as_json=as_json)


async def _restored(options: RestoreOptions, say: Progress) -> RestoreReport:
    async with AsyncExitStack() as stack:
        copies = open_existing_store(options.from_store)
        stack.push_async_callback(copies.aclose)
        store = copies
        if options.object_store not in ("", options.from_store):
            store = open_existing_store(options.object_store)
            stack.push_async_callback(store.aclose)
        owner = await owner_of(copies, options.cluster)
        data_owner = await owner_of(store, owner.cluster_id)
        newest = await newest_timeline(store, data_owner)
        recovered = await recover_from_copies(copies, owner, say, newest=newest)
        if store is not copies:
            await _see_none_newer(store, data_owner, recovered, say)
        if not options.while_gateways_run:
            say("asking the gateways whether they run")
            await see_that_none_runs(recovered.state)
        # After all checks: this creates the log.
        log = await open_log(options.log)
        stack.push_async_callback(log.aclose)
        target = await look_at_target(log)
        work = Work(
            store,
            data_owner,
            log,
            random.SystemRandom(),
            time.time,
            say,
            version("tidegate"),
            must_have_objects=store is not copies,
        )
        return await restore(work, recovered, target)


async def _see_none_newer(
    store: ObjectStore, owner: Owner, recovered: Recovered, say: Progress
) -> None:
    """Check that the store of the records has no newer backups than the store named with --from.

    A cluster keeps objects only as long as backups in its own store need them.  After a merge it
    deletes the merged objects, even if an older backup in another store names them.

    Raises:
      NothingToRestore: the store has newer, readable backups.  Nothing was written.
    """
    try:
        own = await recover_from_copies(store, owner, say)
    except NothingToRestore:
        return
    if (own.state.timeline, own.position) > (recovered.state.timeline, recovered.position):
        raise NothingToRestore(
            f"the object store of the records has newer copies, up to position {own.position} of"
            f" timeline {own.state.timeline}, than the store named with --from, which reach up to"
            f" {recovered.position} of timeline {recovered.state.timeline}; objects that older"
            " copies need may be gone. Name the store of the records with --from. Nothing was"
            " written"
        )


async def see_that_none_runs(state: ClusterState) -> None:
    """Check that no gateway in the state answers.  A gateway that does not answer may still run.

    Raises:
      GatewaysRun: gateways answer.  Nothing was written.
    """
    found = await those_that_answer(state.gateways.brokers(), NameLookups().dial)
    if found:
        raise GatewaysRun(
            f"gateways of cluster {state.cluster_id} run: {', '.join(map(_where, found))}. A"
            " restore opens a new timeline, which ends them within a minute, and the new log lacks"
            " the records that they acknowledge until then: stop them first. For a trial, copy all"
            " objects below the prefix elsewhere, and restore from there with"
            " --while-gateways-run. To end these gateways, use that option here. Nothing was"
            " written"
        )


def _where(found: Answering) -> str:
    gateway, endpoint = found
    return f"{gateway.node_id} at {url_host(endpoint.host)}:{endpoint.port}"


async def owner_of(store: ObjectStore, cluster: str) -> Owner:
    """Return the ownership marker of a cluster's store.  cluster: its id; "" for any cluster.

    Raises:
      NothingToRestore: the store belongs to no cluster.
      LogMisconfigured: the store belongs to another cluster.
    """
    owner = await read_owner(store)
    if owner is None:
        raise NothingToRestore(
            "the object store at this URL belongs to no cluster: give the URL that the gateways"
            " have, with its prefix"
        )
    if cluster and owner.cluster_id != cluster:
        raise LogMisconfigured(
            f"the object store is that of cluster {owner.cluster_id}, not of {cluster}"
        )
    return owner


def lines_of(report: RestoreReport) -> Lines:
    """Return lines for a person: what was restored, and what was not."""
    salvage = report.salvage
    lines = [f"  timeline    {report.timeline}; gateways of the old log can delete no more objects"]
    if report.continued:
        lines.append("  backup      as shown before: this continued an interrupted restore")
    else:
        age = max(0, round(time.time() - report.backup_time_ms / 1000))
        lines.append(
            f"  backup      up to position {report.backup_position} of the lost log, {age} s ago;"
            " offsets that groups committed since are lost"
        )
    if report.raised_from:
        lines.append(
            f"  raised      {FEATURE_NAME} from {report.raised_from} to {EPOCHS}, so that consumers"
            " notice reused offsets; older releases cannot use this log"
        )
    lines.append(
        f"  salvaged    {salvage.records} records in {salvage.batches} batches of"
        f" {salvage.objects} objects; {salvage.duplicates} batches were in the log already"
    )
    lines += [f"  refused     {count} batches: {why}" for why, count in salvage.refused.items()]
    if report.cut_partitions:
        lines.append(
            f"  cut         {report.cut_partitions} partitions began with records that were deleted"
            " after the backup"
        )
    if report.lost_runs:
        lines.append(
            f"  LOST        {report.lost_runs} ranges of records: their objects are missing"
            " (see `tidegate topic repair TOPIC`)"
        )
    lines += _unplaced(report)
    lines += [f"  damaged     {each}" for each in (*salvage.damaged, *report.complaints)]
    return lines


def _unplaced(report: RestoreReport) -> Lines:
    unplaced = report.salvage.unplaced
    lines = [
        f"  not placed  {each.records} records of unknown topic {each.topic_id} partition"
        f" {each.partition}, kept in {each.key}"
        for each in unplaced[:SHOWN_UNPLACED]
    ]
    if len(unplaced) > SHOWN_UNPLACED:
        lines.append(f"  not placed  {len(unplaced) - SHOWN_UNPLACED} more; --json shows all")
    return lines
