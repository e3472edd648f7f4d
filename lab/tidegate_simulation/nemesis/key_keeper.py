"""The operator who gives gateways a first secret key, or another one, under load.

For each stage all gateways are restarted one by one.  The operator removes a former key from the
settings only when no credential needs the key.  If one does, a gateway is restarted, and the
operator looks again (docs/operations/sasl.md, "Sealed credentials").  No gateway may die of a
missing key during this.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import trio

from tidegate_coordination.state.security.scram import SealedCredential

from ..invariants.sealed import key_id
from ..plans.security.sealing_plan import REPLACED, Stage
from ..world.node import Node
from ..world.world import World

LEFT: Final = "a credential needs a former key"
_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 60.0
_CRASH_SHARE: Final = 0.3
# After this many restarts of gateways that reach the log, all credentials must be sealed.
_LOOKS: Final = 5


class KeyKeeper:
    """The operator of secret keys."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self._world = world
        self._nodes = list(nodes)
        self._rng = world.rng("key keeper")

    async def run(self) -> None:
        """Go through all stages."""
        stages = self._world.plan.logins.sealing.stages
        await trio.sleep(self._rng.uniform(0.0, 10.0))
        for before, stage in pairwise(stages):
            if before.old_keys and not stage.old_keys and before.key == stage.key:
                await self._await_sealed(stage)
            self._rng.shuffle(self._nodes)
            for node in self._nodes:
                node.secrets = stage.settings
                await self._restart(node)
                await trio.sleep(self._rng.uniform(0.0, 3.0))
        await self._await_sealed(stages[-1])
        self._world.watch.sealing.is_sealed = True
        self._world.strikes.count(REPLACED)

    async def _restart(self, node: Node) -> None:
        """Restart a gateway until it serves with the settings that it was given."""
        node.told_secrets = None
        while not _is_back(node):
            if self._rng.random() < _CRASH_SHARE:
                node.crash()
            else:
                node.drain()
            with trio.move_on_after(_PATIENCE_SECONDS):
                while not _is_back(node):  # noqa: ASYNC110 - it may die on the way
                    await trio.sleep(_LOOK_SECONDS)

    async def _await_sealed(self, stage: Stage) -> None:
        """Look, as `tidegate doctor` does, whether all credentials are sealed with the key."""
        for _ in range(_LOOKS):
            with trio.move_on_after(_PATIENCE_SECONDS):
                while self._left(stage):  # noqa: ASYNC110 - as people do
                    await trio.sleep(_LOOK_SECONDS)
            if not self._left(stage):
                return
            await self._restart(self._rng.choice(self._nodes))
        self._world.complain(LEFT, ", ".join(self._left(stage)))

    def _left(self, stage: Stage) -> list[str]:
        """Return the users whose credentials are not sealed with the key."""
        table, wanted = self._world.watch.state.scram, key_id(stage.key)
        return [
            each.user
            for each in table
            if not (isinstance(each, SealedCredential) and each.key_id == wanted)
        ]


def _is_back(node: Node) -> bool:
    return node.gateway is not None and node.told_secrets == node.secrets
