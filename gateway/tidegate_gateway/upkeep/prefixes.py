"""A gateway starts only if the store's prefix belongs to the cluster of the metadata log.

If a gateway had another prefix or bucket than the others, it would acknowledge records that the
others do not find.  So only the gateway that created the cluster writes the owner marker into a
free prefix.  All other gateways wait for the marker, and do not start without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import structlog
import trio

from tidegate_coordination.backup.same_log import newest_mark, see_same
from tidegate_coordination.backup.shelf import Shelf
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.coordinator.loading import RETRY_SECONDS, patiently, read_on
from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable, MetadataLog
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.said_again import SaidAgain
from tidegate_storage.objects.keys import OWNER_KEY
from tidegate_storage.objects.ownership import (
    Owner,
    check_owner,
    claim_prefix,
    read_owner,
    see_mark_stays,
)
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured, StoreUnavailable

from ..startup import PATIENCE_SECONDS

_log = structlog.get_logger("tidegate.startup")

# How often, RETRY_SECONDS apart, a gateway looks for the marker of a new cluster.
LOOKS: Final = 15
_FIRST: Final = 1  # the incarnation of the gateway that creates the cluster
_NO_OBJECT_YET: Final = ClusterState().objects.next_number

Answer = TypeVar("Answer")


async def see_prefix(
    store: ObjectStore,
    log: MetadataLog,
    state: ClusterState,
    node_id: int,
    *,
    deadline_seconds: float,
) -> ClusterState:
    """Check that the prefix belongs to this log, or that both are free; return the newest state.

    Writes nothing.  The copies in the prefix must not reach beyond the log's end.

    Raises:
      StoreMisconfigured: the prefix belongs to another cluster or timeline, or to no cluster while
        the log has one.
      StoreUnavailable: the store did not answer for PATIENCE_SECONDS.
      LogMisconfigured: the log lost entries at its end; or see read_on().
      TooSlowError: see read_on().
    """
    if not state.cluster_id:
        owner = await _owner(store, _patience())
        if owner is None:
            return state
        # Another gateway may have created the cluster since this gateway read the log.
        state = await read_on(log, state, deadline_seconds=deadline_seconds)
        if not state.cluster_id:
            raise _log_is_empty(owner)
    patience = _patience()
    if await _owner(store, patience) is None and _may_mark(state, node_id):
        return state
    await _check(store, state, patience)
    return await _see_end(store, log, state, patience, deadline_seconds)


async def _see_end(
    store: ObjectStore,
    log: MetadataLog,
    state: ClusterState,
    patience: _Patience,
    deadline_seconds: float,
) -> ClusterState:
    """Check that the log holds all entries that its copies hold; return the newest state.

    A log that lost its last entries would give out positions and incarnations twice, and the orphan
    scan would delete the objects that the lost entries named.
    """
    if state.timelines.is_restoring or state.log_moves.is_copy:
        return state  # no gateway starts on such a log anyway
    shelf = Shelf(store, state.cluster_id, state.timeline)
    copies = await patience.answer_to(shelf.look)
    mark = await patience.answer_to(lambda: newest_mark(shelf, copies.entries))
    # While the store answered, other gateways may have appended entries, copied them, and trimmed
    # entries that this gateway has not read.  So read on: copied entries were in the log before.
    state = await read_on(log, state, deadline_seconds=deadline_seconds)
    if mark is not None and mark.position <= state.position:
        with trio.fail_after(deadline_seconds):
            await patiently(partial(see_same, log, mark), LogUnavailable)
    if copies.last <= state.position:
        return state
    raise LogMisconfigured(
        f"it ends at position {state.position}, but its copies in the object store reach up to"
        f" {copies.last}: it lost entries. If it is an old copy, or a standby that lagged,"
        " give the newer one; if there is none any more, `tidegate log restore` makes a new log"
        " from the copies, and from the records written since"
    )


async def own_prefix(
    store: ObjectStore, coordinator: Coordinator, node_id: int, *, version: str
) -> None:
    """Check the owner of the prefix after registering; write the marker if this gateway has to.

    Raises:
      StoreMisconfigured: the prefix belongs to another cluster, or the store overwrites objects.
        This incarnation has left.
      StoreUnavailable: the store did not answer for PATIENCE_SECONDS.  This incarnation has left.
    """
    state = coordinator.state

    async def renew() -> None:
        # The housekeeper, which otherwise renews the lease, does not run yet.
        with suppress(CoordinatorUnavailable):
            await coordinator.propose(Renew(state.highest_version))

    patience = _patience(renew)
    try:
        if coordinator.incarnation == _FIRST or _may_mark(state, node_id):
            await patience.answer_to(
                lambda: claim_prefix(
                    store, state.cluster_id, timeline=state.timeline, created_by=version
                )
            )
        await _check(store, state, patience)
        await patience.answer_to(lambda: see_mark_stays(store))
    except (StoreMisconfigured, StoreUnavailable):
        # Otherwise clients would be sent here until the lease expires.
        with suppress(CoordinatorUnavailable):
            await coordinator.leave()
        raise


def _may_mark(state: ClusterState, node_id: int) -> bool:
    """Return whether this gateway created the cluster, and died before it wrote the marker.

    This is assumed if its node id created the cluster, no other gateway is live, and the log never
    named an object.  Then the prefix that this gateway has now becomes the cluster's prefix.
    """
    made_by, _ = state.gateways.homes.get(_FIRST, (None, ""))
    is_alone = all(each.node_id == node_id for each in state.gateways.brokers())
    return made_by == node_id and is_alone and state.objects.next_number == _NO_OBJECT_YET


async def _nothing() -> None:
    """Do nothing between two attempts."""


@dataclass(frozen=True, slots=True)
class _Patience:
    """Repeats requests to a store that does not answer; all share one deadline.

    until: the deadline on Trio's clock.  meanwhile: called between two attempts.
    """

    until: float
    meanwhile: Callable[[], Awaitable[None]]
    said: SaidAgain = field(default_factory=SaidAgain)

    async def answer_to(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Repeat an attempt until the store answers.

        Raises:
          StoreUnavailable: the deadline has passed.
        """
        while True:
            try:
                return await attempt()
            except StoreUnavailable as error:
                if trio.current_time() >= self.until:
                    raise
                if self.said.is_due(str(error), trio.current_time()):
                    _log.warning(
                        "the object store does not answer",
                        error=str(error),
                        tries_for_seconds=round(self.until - trio.current_time()),
                    )
                await self.pause()

    async def pause(self) -> None:
        """Call meanwhile(), and wait for RETRY_SECONDS."""
        await self.meanwhile()
        await trio.sleep(RETRY_SECONDS)


def _patience(meanwhile: Callable[[], Awaitable[None]] = _nothing) -> _Patience:
    return _Patience(trio.current_time() + PATIENCE_SECONDS, meanwhile)


async def _check(store: ObjectStore, state: ClusterState, patience: _Patience) -> None:
    for look in range(LOOKS):
        if await _owner(store, patience) is not None:
            break
        if not look:
            _log.warning(
                "the prefix has no owner marker yet: is it the prefix of the other gateways?",
                missing=OWNER_KEY,
                looks_for_seconds=round(LOOKS * RETRY_SECONDS),
            )
        await patience.pause()
    else:
        made_by, _ = state.gateways.homes.get(_FIRST, (None, ""))
        raise StoreMisconfigured(
            f"cluster {state.cluster_id} keeps its records elsewhere: there is no {OWNER_KEY} in"
            " this prefix. Give the same bucket and prefix as the other gateways. If the records"
            " were copied here, copy that object, too; if the cluster is new and was never used,"
            f" start node.id={made_by} alone, which made it, or start again with an empty log"
        )
    await patience.answer_to(lambda: check_owner(store, state.cluster_id, timeline=state.timeline))


async def _owner(store: ObjectStore, patience: _Patience) -> Owner | None:
    """Read the owner marker; return None only if two reads found no marker."""
    found = await patience.answer_to(lambda: read_owner(store))
    return found or await patience.answer_to(lambda: read_owner(store))


def _log_is_empty(owner: Owner) -> StoreMisconfigured:
    return StoreMisconfigured(
        f"cluster {owner.cluster_id} owns this prefix, but the metadata log is empty. If the"
        " log was lost, `tidegate log restore` makes a new one from its backup; otherwise give"
        " the right log, or a prefix of its own to a new cluster"
    )
