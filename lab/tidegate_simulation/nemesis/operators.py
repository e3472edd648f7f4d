"""Operators who repair topics: each lists all topics, proves what is lost, and skips that.

An operator begins as soon as something is lost and knows nothing of the other operators.  Its
machine fails as all machines do; see host.py.
"""

from __future__ import annotations

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_gateway.tools.readability import Found
from tidegate_gateway.tools.repair import Demands, Repair
from tidegate_storage.stores.object_store import StoreUnavailable

from ..world.host import Host
from ..world.world import World

PREFIX = "operator."
LOAD_SECONDS = 120.0
_LOOK_SECONDS = 0.5
_THOUGHT_SECONDS = 15.0
# A run has few objects, so that each loss is a large part of them.
_DEMANDS = Demands(seconds=6.0, even_if_many=True)


class Operator(Host):
    """See the module's head."""

    prefix = PREFIX

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"operator {number}", 0.0)

    @property
    def is_up(self) -> bool:
        """See Host."""
        return self.coordinator is not None

    async def _serve(self, nursery: trio.Nursery) -> None:
        while not self._world.hurt.is_left:  # noqa: ASYNC110 - as people do
            await trio.sleep(_LOOK_SECONDS)
        await trio.sleep(self._rng.random() * _THOUGHT_SECONDS)
        log, store = self._open()
        state = await load_state(log, deadline_seconds=LOAD_SECONDS)
        check_cluster(state, "")
        coordinator = Coordinator(log, state, rng=self._rng, wall_clock=self._wall_clock)
        nursery.start_soon(coordinator.run)
        self._watch(coordinator)
        repair = Repair(
            coordinator,
            store,
            fresh=lambda: store,
            demands=_DEMANDS,
            rng=self._rng,
            software_version="0",
        )
        try:
            await self._repair(repair, [each.number for each in state.partitions.values()])
        except* (StoreUnavailable, ProposalFailed):
            self._count("gave up")  # and runs the command again

    async def _repair(self, repair: Repair, numbers: list[int]) -> None:
        found = await repair.look(numbers)
        if not found.unreadable:
            return
        if await repair.prove(found.unreadable, found) is not None:
            self._count("could not prove the loss")  # and runs the command again
            return
        await trio.sleep(self._rng.random() * _THOUGHT_SECONDS)
        skipped = await repair.skip(found.unreadable, numbers, self._look_again)
        self._world.strikes.count(f"{self.prefix}skipped", len(skipped.done))

    def _look_again(self, found: Found) -> None:
        self._count("looked again")

    def _forget(self) -> None:
        """An operator keeps nothing of its process."""


async def wait_for_repair(world: World) -> None:
    """Wait until every loss is repaired; forever if no operator repairs one."""
    while world.hurt.is_left:  # noqa: ASYNC110 - they may die yet
        await trio.sleep(_LOOK_SECONDS)
