"""The operator of a rolling upgrade: one gateway after another, then the metadata.version.

The operator is impatient: after each gateway it asks for the new version, and it repeats the
request until the cluster accepts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion

from ..plans.version_plan import LATE_KIND, UPGRADE_KIND
from ..world.node import Node
from ..world.world import World

_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 60.0
# Longer than an outage, and longer than a starting gateway waits for its log.
_LATE_PATIENCE_SECONDS: Final = 300.0
_CRASH_SHARE: Final = 0.3


class Upgrader:
    """The operator of a rolling upgrade."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self._world = world
        self._nodes = list(nodes)
        self._rng = world.rng("upgrader")

    async def run(self) -> None:
        """Upgrade all gateways, then the metadata.version."""
        await trio.sleep(self._rng.uniform(0.0, 20.0))
        self._rng.shuffle(self._nodes)
        late = self._nodes.pop() if self._world.plan.versions.has_late else None
        if late is not None:
            late.is_held = True
            late.crash()
        for node in self._nodes:
            await self._upgrade(node)
            await self._is_raised()
            await trio.sleep(self._rng.uniform(0.0, 5.0))
        while not await self._is_raised():  # noqa: ASYNC110 - as people do
            await trio.sleep(_LOOK_SECONDS)
        self._world.strikes.count(UPGRADE_KIND)
        if late is not None:
            await self._let_come(late)

    async def _upgrade(self, node: Node) -> None:
        """Upgrade a gateway at its next start; restart it again if it does not start."""
        node.release = NEWEST
        while not _is_new(node):
            if self._rng.random() < _CRASH_SHARE:
                node.crash()
            else:
                node.drain()
            with trio.move_on_after(_PATIENCE_SECONDS):
                while not _is_new(node):  # noqa: ASYNC110 - it may die on the way
                    await trio.sleep(_LOOK_SECONDS)

    async def _is_raised(self) -> bool:
        gateways = [each.gateway for each in self._nodes if each.gateway is not None]
        if not gateways:
            return False
        coordinator = self._rng.choice(gateways).coordinator
        try:
            return not await coordinator.propose(SetMetadataVersion(NEWEST))
        except (CoordinatorUnavailable, ProposalFailed):
            return False

    async def _let_come(self, late: Node) -> None:
        """Let an older gateway start: the cluster must refuse it every time."""
        late.is_held = False
        with trio.move_on_after(_LATE_PATIENCE_SECONDS):
            while not (late.was_too_old or late.is_up):  # noqa: ASYNC110 - it may die before
                await trio.sleep(_LOOK_SECONDS)
        if not late.was_too_old:
            self._world.complain("not refused", f"{late.name}, which is of an older release")
        self._world.strikes.count(LATE_KIND)
        late.release = NEWEST


def _is_new(node: Node) -> bool:
    return node.gateway is not None and node.gateway.identity.highest_version == NEWEST
