"""From an address of a log to a live incarnation: load, check, register."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.coordinator.loading import RETRY_SECONDS, patiently, reading
from tidegate_coordination.events.metadata_versions import too_old
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogMisconfigured,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.rules.gateways import CannotJoin, Register
from tidegate_runtime.said_again import SaidAgain

_log = structlog.get_logger("tidegate.startup")

SAY_AGAIN_SECONDS = 10.0
# How long a start waits for a log or a store that is away.
PATIENCE_SECONDS = 120.0


class NodeIdInUse(Exception):
    """Another gateway answers to this node id.  The text says what to do."""


async def open_patiently(open_log: Callable[[], Awaitable[MetadataLog]]) -> MetadataLog:
    """Open the log, waiting for one that is away.

    Raises:
      LogMisconfigured: at once.
      LogUnavailable: it is away for too long.
    """
    give_up_at, said = trio.current_time() + PATIENCE_SECONDS, SaidAgain()
    while True:
        try:
            return await open_log()
        except LogUnavailable as error:
            if trio.current_time() >= give_up_at:
                raise
            if said.is_due(str(error), trio.current_time()):
                _log.warning(
                    "the metadata log does not answer: is metadata.log right?",
                    error=str(error),
                    tries_for_seconds=round(give_up_at - trio.current_time()),
                )
            await trio.sleep(RETRY_SECONDS)


async def register(coordinator: Coordinator, proposal: Register) -> int:
    """Begin this gateway's incarnation; waits out the lease of a dead one with the same node id.

    The lease is watched on this machine's clock: a dead gateway that was alone is ended by nobody
    else.

    Raises:
      NodeIdInUse: the other one lives.
      ReleaseTooOld: the cluster's metadata.version rose meanwhile.
    """
    gateways = coordinator.state.gateways
    proposal = replace(proposal, highest_version=coordinator.state.highest_version)
    watched: tuple[int, int] | None = None
    since = trio.current_time()
    until = since + 2 * gateways.lease_ms / 1000
    said_at: float | None = None
    while trio.current_time() < until:
        lease_is_over = trio.current_time() - since > gateways.lease_ms / 1000
        asked_at = trio.current_time()
        wanted = replace(proposal, silent=watched if lease_is_over else None)
        with trio.fail_after(PATIENCE_SECONDS):
            answer = await patiently(partial(coordinator.propose, wanted), CoordinatorUnavailable)
        if isinstance(answer, int):
            coordinator.incarnation = answer
            return answer
        if isinstance(answer, CannotJoin):
            raise too_old(coordinator.state.metadata_version, proposal.highest_version)
        present = gateways.by_node_id(proposal.node_id)
        found = (present.incarnation, present.clock_ms) if present is not None else None
        # While the log is away the other one cannot show that it lives.
        away_seconds = trio.current_time() - asked_at
        since, until = since + away_seconds, until + away_seconds
        if found != watched:
            watched, since = found, trio.current_time()
        if said_at is None or trio.current_time() - said_at >= SAY_AGAIN_SECONDS:
            _say_that_it_waits(proposal.node_id, is_first=said_at is None)
            said_at = trio.current_time()
        await trio.sleep(RETRY_SECONDS)
    raise NodeIdInUse(
        f"node.id={proposal.node_id} belongs to another live gateway. Give this one another"
        " node.id, or stop the other; if this is a restart of it, give both the same instance.key"
    )


async def tell_settings(coordinator: Coordinator, cluster: ClusterSettings) -> None:
    """Tell what this gateway was given at its start, before it keeps house or is asked."""
    settings = cluster.to_tell(coordinator.incarnation)
    if settings is None:
        return
    with trio.fail_after(PATIENCE_SECONDS):
        await patiently(partial(coordinator.propose, settings), CoordinatorUnavailable)


def _say_that_it_waits(node_id: int, *, is_first: bool) -> None:
    advice = {
        "advice": "unless the other one is gone, give this gateway another node.id, or stop the"
        " other; a restart of it needs its instance.key, and then waits for nothing"
    }
    _log.info(
        "the node id is in use; waiting for its lease",
        node_id=node_id,
        **(advice if is_first else {}),
    )


async def see_compare_and_set(log: MetadataLog, position: int) -> bool:
    """See that the log takes no second entry at a position: it is offered the bytes that hold it.

    A log that takes them holds what it held, so that asking changes nothing.  False: there is no
    entry at the position, or no more.

    Raises:
      LogMisconfigured: it took them.  Gateways would overwrite each other's entries there.
      TooSlowError: the log is away for too long.
    """
    with trio.fail_after(PATIENCE_SECONDS):
        held = await patiently(reading(log, position), LogUnavailable)
        if isinstance(held, Trimmed) or not held:
            return False
        result = await patiently(partial(log.append, *held[0]), LogUnavailable)
    if result is AppendResult.APPENDED:
        raise LogMisconfigured(
            f"it took a second entry at position {position}, which was held, so it would lose"
            " entries: use another, and see `tidegate log verify` for what it must promise"
        )
    return True
