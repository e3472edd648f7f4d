"""Visitors: incarnations that are not gateways.

Visitors write to the log, and are never shown to clients.

A visitor has a node id below zero and a lease.  Once it has ended, its late proposals are refused.
The driver of the pipeline is a visitor, and so is a command that repairs a topic.
"""

from __future__ import annotations

from random import Random
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.events.metadata_versions import too_old
from tidegate_coordination.rules.gateways import CannotJoin, Register, Renew

RENEWALS_PER_LEASE: Final = 6
LEAVE_SECONDS: Final = 10.0
_NODE_IDS: Final = range(2, 1 << 30)

_log = structlog.get_logger("tidegate.visitor")


async def register_visitor(
    coordinator: Coordinator, kind: str, *, rng: Random, software_version: str, zone: str = ""
) -> None:
    """Begin an incarnation; kind: the prefix of its instance key.

    zone: a part of the keys of its WAL objects; a visitor that writes some needs one.

    Raises:
      CoordinatorUnavailable: the log does not answer.
      ReleaseTooOld: the cluster's metadata.version rose meanwhile.
    """
    highest_version = coordinator.state.highest_version
    while True:
        proposal = Register(
            node_id=-rng.choice(_NODE_IDS),
            instance_key=f"{kind}-{rng.randbytes(12).hex()}",
            zone=zone,
            endpoints=(),
            software_version=software_version,
            cluster_id="",
            highest_version=highest_version,
        )
        answer = await coordinator.propose(proposal)
        if isinstance(answer, int):
            coordinator.incarnation = answer
            return
        if isinstance(answer, CannotJoin):
            raise too_old(coordinator.state.metadata_version, highest_version)


async def keep_lease(coordinator: Coordinator) -> None:
    """Renew the lease; forever."""
    lease_seconds = coordinator.state.gateways.lease_ms / 1000
    while True:
        await trio.sleep(lease_seconds / RENEWALS_PER_LEASE)
        try:
            await coordinator.propose(Renew(coordinator.state.highest_version))
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not renew the lease; trying again", error=str(error))


async def end_visit(coordinator: Coordinator) -> None:
    """End the incarnation.  The visitor's work is done, so a silent log is no failure."""
    with trio.move_on_after(LEAVE_SECONDS):
        try:
            await coordinator.leave()
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not write the leave entry; the lease will expire", error=str(error))
