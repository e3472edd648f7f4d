"""A recovered state becomes a new log, in a new timeline.

    1  the bodies of inlined objects become objects of the store (decision 49); then the store's
       marker: from here on the old log owns no objects, even if gateways still run on it
    2  the new log's trim boundary, which a log that never held an entry accepts at any position
    3  a snapshot of the recovered state with TimelineOpened folded: no gateway may use it yet.  All
       partitions start a leader epoch, so that consumers notice that offsets are reassigned; if
       the cluster's metadata.version has no epochs, it is raised (decision 25)
    4  salvage: entries that commit objects which the store holds and the state does not know
    5  SalvageEnded: gateways may start.  The new log is backed up at once

A restore that was cut short is repeated with the same log: before 3 it starts again (a timeline
stays unused), after 3 it continues.  At step 1 a gateway of the old log may be about to delete
objects. That gateway deletes only objects that have been dead in its own log for longer than the
grace period.  A backup that is younger than that does not need these objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import trio

from tidegate_storage.objects.ownership import Owner, newest_timeline, open_timeline
from tidegate_storage.stores.object_store import ObjectExists, ObjectStore, put_idempotent

from ..coordinator.coordinator import Coordinator
from ..events.cluster import MetadataVersionSet
from ..events.entries import ENTRY_FORMAT, Entry, decode_entry
from ..events.metadata_versions import EPOCHS
from ..events.restores import FormerLife, TimelineOpened
from ..log.metadata_log import FIRST_POSITION, LogMisconfigured, MetadataLog, Trimmed
from ..log.snapshots import encode_state, save_verified
from ..object_names.keys import object_key
from ..rules.housekeeping import MAX_MOVES, MoveLogStarts
from ..state.cluster import ClusterState
from .copier import Copier
from .recovery import Recovered, Say
from .salvage import Salvage, SalvageReport
from .salvage_rules import PRODUCER_ID_GAP, AddFormerLives, EndSalvage
from .survey import Life, Survey, cuts, needed_objects, survey

READ_BYTES: Final = 4 << 20
INCARNATION_GAP: Final = 100_000
"""Lives that may have begun unseen, in each timeline since the backup."""
LIVES_AN_ENTRY: Final = 1000


@dataclass(frozen=True, slots=True)
class Work:
    """The inputs of a restore.

    owner: the marker of the store.  opened_by: this release, for people.  must_have_objects: the
    copies are from another store, so a store without any object is the wrong one.
    """

    store: ObjectStore
    owner: Owner
    log: MetadataLog
    rng: Random
    wall_clock: Callable[[], float]
    say: Say
    opened_by: str
    must_have_objects: bool = False


@dataclass(slots=True)
class RestoreReport:
    """The result of a restore.

    backup_position: the restored position in the lost log, and its log time; 0 if this call
    continued an earlier one, whose report has them.  log_position: of the new log.  cut_partitions:
    partitions whose first records were deleted after the backup.  lost_runs: stretches of records
    in the middle of a partition whose objects are gone.  raised_from: the metadata.version that the
    lost log had, where the new one has a higher; else 0.
    """

    cluster_id: str
    timeline: int
    backup_position: int = 0
    backup_time_ms: int = 0
    log_position: int = 0
    continued: bool = False
    cut_partitions: int = 0
    lost_runs: int = 0
    raised_from: int = 0
    salvage: SalvageReport = field(default_factory=SalvageReport)
    complaints: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Target:
    """The log to write.

    boundary: the first position that the log accepts; 0 if it accepts any. state: the state of an
    earlier restore to this log, cut short or complete.
    """

    boundary: int = 0
    state: ClusterState | None = None

    @property
    def is_done(self) -> bool:
        """Return whether a restore to it came to its end."""
        return self.state is not None and not self.state.timelines.is_restoring


async def look_at_target(log: MetadataLog) -> Target:
    """Return what the target log holds: nothing, or an earlier restore.

    Raises:
      LogMisconfigured: the target holds something else.  Nothing was written.
    """
    snapshot = await log.load_snapshot()
    if snapshot is None:
        entries = await log.read(FIRST_POSITION, 1)
        boundary = entries.first_position if isinstance(entries, Trimmed) else 0
        if entries and (not boundary or await log.read(boundary, 1)):
            raise _in_use("it holds entries")
        return Target(boundary)
    state = ClusterState.decode(b"".join(snapshot.chunks))
    if not state.timelines.is_restoring:
        raise _in_use(f"it holds cluster {state.cluster_id}")
    while entries := await log.read(state.position + 1, READ_BYTES):
        if isinstance(entries, Trimmed):
            raise _in_use("it was trimmed")
        for each in entries:
            state.apply(
                each.position, decode_entry(each.payload, each.position, state.entry_formats)
            )
    return Target(state=state)


def _in_use(why: str) -> LogMisconfigured:
    return LogMisconfigured(
        f"a new, empty log is needed to restore to, and this one is none: {why}"
    )


async def restore(work: Work, recovered: Recovered | None, target: Target) -> RestoreReport:
    """Make the log of a recovered state, or continue a restore that was cut short.

    recovered: not needed to continue.

    Raises:
      LogMisconfigured: the store or the half-restored log is the wrong one.
      StoreUnavailable, LogUnavailable, CoordinatorUnavailable: do it again, with the same log.
    """
    if target.is_done:
        raise _in_use(f"cluster {work.owner.cluster_id} was restored to it already")
    if target.state is not None:
        state = await _checked(work, target.state)
        report = RestoreReport(state.cluster_id, state.timeline, continued=True)
    else:
        assert recovered is not None
        report = _report_of(recovered)
        version = recovered.state.metadata_version
        state = await _begun(work, recovered.state, target)
        report.raised_from = version if state.metadata_version > version else 0
        report.timeline = state.timeline
    coordinator = Coordinator(work.log, state, rng=work.rng, wall_clock=work.wall_clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await _complete(work, coordinator, report)
        nursery.cancel_scope.cancel()
    report.log_position = state.position
    work.say("copying the new log to the store")
    await Copier(work.log, work.store, state.cluster_id, state.timeline).copy()
    return report


def _report_of(recovered: Recovered) -> RestoreReport:
    state = recovered.state
    return RestoreReport(
        state.cluster_id,
        state.timeline,
        recovered.position,
        state.log_time_ms,
        complaints=recovered.complaints,
    )


async def _checked(work: Work, state: ClusterState) -> ClusterState:
    newest = await newest_timeline(work.store, work.owner)
    if (state.cluster_id, state.timeline) != (work.owner.cluster_id, newest):
        raise LogMisconfigured(
            f"a restore of cluster {state.cluster_id} in timeline {state.timeline} was left"
            f" unfinished here, but cluster {work.owner.cluster_id} is in timeline {newest} now:"
            " restore to another new log"
        )
    if state.metadata_version < EPOCHS:
        raise LogMisconfigured(
            f"an older release of Tidegate left a restore of cluster {state.cluster_id} unfinished"
            " here, and consumers cannot notice what offsets it gives anew: restore to another new"
            " log"
        )
    return state


async def _begun(work: Work, state: ClusterState, target: Target) -> ClusterState:
    """Steps 1 to 3."""
    work.say("listing the objects of the store")
    found = await survey(work.store, state, range(1, await newest_timeline(*_place(work)) + 1))
    if work.must_have_objects and not found.objects:
        check_objects(state)
    await _store_inlined(work, state)
    restore_id = work.rng.randbytes(8).hex()
    timeline = await open_timeline(
        work.store,
        work.owner,
        above=state.timeline,
        opened_by=work.opened_by,
        nonce=restore_id,
    )
    lived = max(found.highest_incarnation, state.gateways.next_incarnation)
    # An earlier restore of this backup may have given out numbers without leaving a trace.
    timelines = timeline - state.timeline
    opened = TimelineOpened(
        timeline,
        lived + timelines * INCARNATION_GAP,
        min(
            state.producer_ids.next_id + timelines * PRODUCER_ID_GAP,
            state.producer_ids.own.stop - 1,
        ),
        restore_id,
    )
    clock_ms = int(work.wall_clock() * 1000)
    entry = Entry(ENTRY_FORMAT, b"", 0, clock_ms, (*_raise_to_epochs(state), opened))
    state.apply(state.position + 1, entry)
    if target.boundary:
        state.position = target.boundary - 1
    else:
        await work.log.trim(state.position + 1)
    work.say(f"writing the new log, timeline {timeline}")
    snapshot = await encode_state(state)
    await save_verified(work.log, snapshot.position, snapshot.chunks)
    return state


async def _store_inlined(work: Work, state: ClusterState) -> None:
    """Store the bodies of inlined objects under the objects' own keys.

    The new log has none of their entries.  A body that no copy has is then a missing object.

    Raises:
      LogMisconfigured: another object has such a key.
    """
    inlined = state.objects.inlined
    if inlined:
        work.say(f"storing {len(inlined)} small objects that were in the log")
    for number in inlined:
        body = inlined.body(number)
        if body is not None:
            await _put(work.store, object_key(state, state.objects.name(number)), body)
    inlined.forget_all()


async def _put(store: ObjectStore, key: str, body: bytes) -> None:
    try:
        await put_idempotent(store, key, body)
    except ObjectExists as error:
        raise LogMisconfigured(
            f"{key} is the key of records that were in the log, and the store holds another object"
            " there, of a log that was lost before: move that object out of the prefix, and"
            " restore again"
        ) from error


def _raise_to_epochs(state: ClusterState) -> list[MetadataVersionSet]:
    """Raise the metadata.version to the level of leader epochs, and no further.

    Only this command writes to the new log, so no gateway has to agree.  Gateways of an older
    release cannot start on that log.
    """
    return [MetadataVersionSet(EPOCHS)] if state.metadata_version < EPOCHS else []


def _place(work: Work) -> tuple[ObjectStore, Owner]:
    return work.store, work.owner


def check_objects(state: ClusterState) -> None:
    """Refuse a store without objects, if the state needs any.

    Raises:
      LogMisconfigured: see above.  Nothing was written.
    """
    needed = len(needed_objects(state))
    if needed:
        raise LogMisconfigured(
            f"none of the {needed} objects that hold the records of cluster {state.cluster_id} is"
            " in the object store: name the store that has them with --object-store"
        )


async def _complete(work: Work, coordinator: Coordinator, report: RestoreReport) -> None:
    """Steps 4 and 5."""
    state = coordinator.state
    restore_id = state.timelines.restore_id
    found = await survey(work.store, state, range(1, state.timeline))
    await _add_lives(coordinator, found, restore_id)
    moves, report.lost_runs = cuts(state, found.missing)
    report.cut_partitions = len(moves)
    for at in range(0, len(moves), MAX_MOVES):
        await coordinator.propose(MoveLogStarts(tuple(moves[at : at + MAX_MOVES])))
    lives = [each for each in found.lives if _is_open(state, each)]
    work.say(f"looking for records in the objects of {len(lives)} gateways' lives")
    salvage = Salvage(coordinator, work.store, lives, work.say)
    await salvage.run()
    report.salvage = salvage.report
    # An earlier call may have salvaged objects that this call did not read.
    highest = state.partitions.highest_producer_id(state.producer_ids.was_given)
    met = max(salvage.index.next_producer_id, highest + 1)
    timelines = state.timeline - state.timelines.ended
    await coordinator.propose(EndSalvage(restore_id, met + timelines * PRODUCER_ID_GAP))


async def _add_lives(coordinator: Coordinator, found: Survey, restore_id: str) -> None:
    """Add the incarnations that started after the backup, in its timeline or a later one.

    Objects that an earlier timeline got after its end do not belong to this cluster.
    """
    state = coordinator.state
    lives = [
        FormerLife(each.incarnation, each.node_id, each.zone, each.timeline)
        for each in found.lives
        if each.incarnation not in state.gateways.homes and each.timeline >= state.timelines.ended
    ]
    for at in range(0, len(lives), LIVES_AN_ENTRY):
        await coordinator.propose(
            AddFormerLives(restore_id, tuple(lives[at : at + LIVES_AN_ENTRY]))
        )


def _is_open(state: ClusterState, life: Life) -> bool:
    """Return whether the folder is that of an incarnation whose objects may be committed."""
    home = state.gateways.homes.get(life.incarnation)
    return (
        life.incarnation in state.timelines.salvageable
        and state.timeline_of(life.incarnation) == life.timeline
        and home == (life.node_id, life.zone)
    )
