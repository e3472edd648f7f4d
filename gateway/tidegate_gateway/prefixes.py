"""The store's prefix belongs to the cluster of the metadata log, or a gateway does not start.

A gateway whose prefix or bucket is not that of the others would acknowledge records that nobody
else finds.  So whoever makes a cluster claims the prefix before, and a log that has a cluster goes
with the prefix that was claimed for it, with no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import structlog
import trio

from tidegate_coordination.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.metadata_log import MetadataLog
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.keys import CLAIM_KEY, OWNER_KEY
from tidegate_storage.object_store import ObjectStore, StoreMisconfigured, StoreUnavailable
from tidegate_storage.ownership import (
    Claim,
    TimelineOver,
    check_owner,
    claim_first,
    claim_prefix,
    read_claim,
    read_owner,
)

from .startup import PATIENCE_SECONDS, RETRY_SECONDS, load_state

_log = structlog.get_logger("tidegate.startup")

# Whoever claimed a prefix makes the cluster next.
FOUNDING_SECONDS: Final = 10.0

Answer = TypeVar("Answer")


def founder_of(instance_key: str) -> str:
    """Return what a claim tells of the gateway that makes the cluster; the key stays its own."""
    return hashlib.sha256(instance_key.encode()).hexdigest()[:16]


async def see_prefix(
    store: ObjectStore,
    log: MetadataLog,
    state: ClusterState,
    *,
    deadline_seconds: float,
    founder: str = "",
) -> ClusterState:
    """See that the prefix is this log's, or that both are free; return the state.  Writes nothing.

    founder: see founder_of(); a prefix that it claimed for a cluster, and did not make, is free.

    Raises:
      StoreMisconfigured: the prefix is another cluster's, or another timeline's, or nobody's while
        the log has a cluster.
      StoreUnavailable: the store is away for too long.
      TooSlowError, LogMisconfigured: as load_state().
    """
    reread = partial(
        load_state, log, deadline_seconds=deadline_seconds, highest_version=state.highest_version
    )
    if not state.cluster_id and await _patiently(lambda: _has_owner(store)):
        # Another gateway may have made the cluster since this one read the log.
        state = await reread()
    elif not state.cluster_id:
        claim = await _patiently(lambda: read_claim(store))
        if claim is None or claim.founder == founder:
            return state
        state = await _when_made(state, reread)
    await _patiently(lambda: _see_marks(store, state))
    return state


async def _has_owner(store: ObjectStore) -> bool:
    """Tell whether a cluster was made here; that none was must not come of one wrong answer."""
    return await read_owner(store) is not None or await read_owner(store) is not None


async def _when_made(
    state: ClusterState, reread: Callable[[], Awaitable[ClusterState]]
) -> ClusterState:
    """Read the log until it has a cluster: another gateway is about to make it."""
    until = trio.current_time() + FOUNDING_SECONDS
    while not state.cluster_id and trio.current_time() < until:
        await trio.sleep(RETRY_SECONDS)
        state = await reread()
    return state


async def _see_marks(store: ObjectStore, state: ClusterState) -> None:
    """See that what marks the prefix names the cluster of a log.

    A person must act on what is wrong, so it must not come of one wrong answer.
    """
    try:
        await _see_marks_once(store, state)
    except TimelineOver:
        raise
    except StoreMisconfigured:
        await _see_marks_once(store, state)


async def _see_marks_once(store: ObjectStore, state: ClusterState) -> None:
    owner, claim = await read_owner(store), await read_claim(store)
    if not state.cluster_id and owner is not None:
        raise StoreMisconfigured(
            f"cluster {owner.cluster_id} owns this prefix, but the metadata log is empty. If the"
            " log was lost, `tidegate log restore` makes a new one from its backup; otherwise give"
            " the right log, or a prefix of its own to a new cluster"
        )
    if not state.cluster_id:
        raise StoreMisconfigured(
            "another gateway claimed this prefix for a cluster that is not in the metadata log:"
            " give the same log to all gateways; if that cluster was never made, remove"
            f" {CLAIM_KEY}"
        )
    if owner is not None:
        await check_owner(store, state.cluster_id, timeline=state.timeline)
    elif claim is None or claim.cluster_id != state.cluster_id:
        raise StoreMisconfigured(
            f"cluster {state.cluster_id} keeps its records elsewhere: there is no {OWNER_KEY} of it"
            " in this prefix. Give the same bucket and prefix as the other gateways; if the records"
            " were copied here, copy that object, too"
        )


async def claim_or_join(
    store: ObjectStore,
    log: MetadataLog,
    state: ClusterState,
    wanted: Claim,
    *,
    deadline_seconds: float,
) -> tuple[ClusterState, str]:
    """Do as see_prefix(), and claim what is free; return the state and the id of its cluster.

    While the state has no cluster, that is the id with which it is to be made: another one than
    wanted where an earlier life of this gateway claimed the prefix.

    Raises:
      StoreMisconfigured, StoreUnavailable, TooSlowError, LogMisconfigured: as see_prefix().
    """
    see = partial(see_prefix, store, log, deadline_seconds=deadline_seconds, founder=wanted.founder)
    state = await see(state)
    if state.cluster_id:
        return state, state.cluster_id
    claim = await _patiently(lambda: claim_first(store, wanted))
    if claim.founder != wanted.founder:
        state = await see(state)  # another gateway was faster, and makes the cluster
        return state, state.cluster_id
    return state, claim.cluster_id


async def own_prefix(store: ObjectStore, coordinator: Coordinator, *, version: str) -> None:
    """As a gateway of the cluster: see once more whose prefix it is, and mark it as the cluster's.

    Another gateway may have made the cluster meanwhile, with another prefix.

    Raises:
      StoreMisconfigured: it belongs to another.
      StoreUnavailable: the store is away for too long.
    """
    state = coordinator.state

    async def mark() -> None:
        await _see_marks(store, state)
        await claim_prefix(store, state.cluster_id, timeline=state.timeline, created_by=version)

    async def renew() -> None:
        # Nobody else renews the lease of a gateway that has not started.
        with suppress(CoordinatorUnavailable):
            await coordinator.propose(Renew(state.highest_version))

    await _patiently(mark, meanwhile=renew)


async def _nothing() -> None:
    """Have nothing to do meanwhile."""


async def _patiently(
    attempt: Callable[[], Awaitable[Answer]],
    meanwhile: Callable[[], Awaitable[None]] = _nothing,
) -> Answer:
    """Wait for a store that is away, but not for ever."""
    give_up_at = trio.current_time() + PATIENCE_SECONDS
    while True:
        try:
            return await attempt()
        except StoreUnavailable as error:
            if trio.current_time() >= give_up_at:
                raise
            _log.warning("the object store does not answer", error=str(error))
            await meanwhile()
            await trio.sleep(RETRY_SECONDS)
