"""Steps of a gateway's start: open the log, register, write settings, check compare-and-set."""

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
# How long a start waits for a log or a store that does not answer.
PATIENCE_SECONDS = 120.0


class NodeIdInUse(Exception):
    """Another live gateway has this node id.  The text says what to do."""


async def open_patiently(open_log: Callable[[], Awaitable[MetadataLog]]) -> MetadataLog:
    """Open the log; wait while it does not answer.

    Raises:
      LogMisconfigured: raised at once, without a wait.
      LogUnavailable: the log did not answer for PATIENCE_SECONDS.
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
    """Start this gateway's incarnation.

    If a dead gateway has the same node id, this waits until that one's lease expires.  It measures
    the lease on this machine's clock: if the dead gateway was the only one, no other gateway ends
    the lease.

    Raises:
      NodeIdInUse: the gateway with this node id is live.
      ReleaseTooOld: the cluster's metadata.version rose meanwhile.
      TooSlowError: the log did not answer for PATIENCE_SECONDS.
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
        # While the log does not answer, the other gateway cannot show that it is alive.
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
    """Write this gateway's static settings to the log before it serves or runs the housekeeper."""
    settings = cluster.to_tell(coordinator.incarnation)
    if settings is None:
        return
    with trio.fail_after(PATIENCE_SECONDS):
        await patiently(partial(coordinator.propose, settings), CoordinatorUnavailable)


def _say_that_it_waits(node_id: int, *, is_first: bool) -> None:
    advice = {
        "advice": "if the other gateway still runs, give this one another node.id, or stop the"
        " other; a restart of the other needs its instance.key, and then does not wait"
    }
    _log.info(
        "the node id is in use; waiting for its lease",
        node_id=node_id,
        **(advice if is_first else {}),
    )


async def see_compare_and_set(log: MetadataLog, position: int) -> bool:
    """Check that the log rejects a second entry at a position.

    It appends the bytes that the position already holds.  If a log accepts them, its content is the
    same as before, so the check changes nothing.  Returns False if there is no entry at the
    position yet, or the entry is trimmed.

    Raises:
      LogMisconfigured: the log accepted the bytes.  On such a log, gateways would overwrite each
        other's entries.
      TooSlowError: the log did not answer for PATIENCE_SECONDS.
    """
    with trio.fail_after(PATIENCE_SECONDS):
        held = await patiently(reading(log, position), LogUnavailable)
        if isinstance(held, Trimmed) or not held:
            return False
        result = await patiently(partial(log.append, *held[0]), LogUnavailable)
    if result is AppendResult.APPENDED:
        raise LogMisconfigured(
            f"it accepted a second entry at position {position}, so it would lose entries: use"
            " another log, and see `tidegate log verify` for what it must promise"
        )
    return True
