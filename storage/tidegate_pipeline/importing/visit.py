"""The visit of an import to the cluster: its incarnation, and its claim of the link."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.coordinator.visitor import end_visit, register_visitor
from tidegate_coordination.rules.gateways import ReleaseClaim, TakeClaim
from tidegate_coordination.rules.migration.import_claims import import_claim

KIND: Final = "import"
ZONE: Final = "import"
CLAIM_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 1.5
"""The mirrors stand aside a moment after the claim, and their batches under way are committed."""


async def begin_visit(coordinator: Coordinator, *, rng: Random, software_version: str) -> None:
    """Start an incarnation.

    Raises:
      CoordinatorUnavailable: the log does not answer.
    """
    await register_visitor(coordinator, KIND, rng=rng, software_version=software_version, zone=ZONE)


async def take_link(coordinator: Coordinator, link: str, on_wait: Callable[[], None]) -> None:
    """Take the claim of a link; wait as long as another import holds it."""
    while await coordinator.propose(TakeClaim(import_claim(link))) is None:
        on_wait()
        await trio.sleep(CLAIM_SECONDS)
    await trio.sleep(SETTLE_SECONDS)


async def leave_link(coordinator: Coordinator, link: str) -> None:
    """Release the claim and end the incarnation; if the log is silent, its lease will end both."""
    try:
        await coordinator.propose(ReleaseClaim(import_claim(link)))
    except (CoordinatorUnavailable, ProposalFailed):
        return
    await end_visit(coordinator)
