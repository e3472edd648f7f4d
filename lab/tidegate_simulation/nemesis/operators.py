"""Operators who repair topics: each lists all topics, proves which runs are lost, and skips them.

In some runs they find the lost objects later, and bring the skipped records back.

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
    """An operator who repairs topics."""

    prefix = PREFIX

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"operator {number}", 0.0)
        self._gives_up = False  # kept across restarts of the machine

    @property
    def is_up(self) -> bool:
        """See Host."""
        return self.coordinator is not None

    async def _serve(self, nursery: trio.Nursery) -> None:
        while not has_work(self._world):  # noqa: ASYNC110 - as people do
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
            numbers = [each.number for each in state.partitions.values()]
            if self._world.hurt.is_left:
                await self._repair(repair, numbers)
            else:
                await self._end_skips(repair, numbers)
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

    async def _end_skips(self, repair: Repair, numbers: list[int]) -> None:
        """Bring back skipped runs; drop those that a compacted topic should not get back."""
        await trio.sleep(self._rng.random() * _THOUGHT_SECONDS)
        kept = repair.kept(numbers)
        if self._gives_up:
            self._gives_up = False
            self._count("gave up kept runs", len((await repair.give_up(kept)).done))
            return
        for each in kept:
            self._world.hurt.put_back(each.row)
        read = await repair.read_kept(kept)
        whole = [each for each in read if each.problem is None]
        if whole:
            ended = await repair.bring_back(whole, even_if_compacted=False)
            self._count("brought back", len(ended.done))
            self._gives_up = ended.is_compacted

    def _look_again(self, found: Found) -> None:
        self._count("looked again")

    def _forget(self) -> None:
        """Do nothing: an operator keeps no state of its process."""


def has_work(world: World) -> bool:
    """Return whether operators have a loss to repair, or a skipped range to bring back."""
    if world.hurt.is_left:
        return True
    partitions = world.watch.state.partitions.values()
    return world.plan.losses.returns and any(each.kept is not None for each in partitions)


async def wait_for_repair(world: World) -> None:
    """Wait until operators have no work left; forever if they do not finish."""
    while has_work(world):  # noqa: ASYNC110 - they may die yet
        await trio.sleep(_LOOK_SECONDS)
