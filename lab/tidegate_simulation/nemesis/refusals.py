"""Applies the refusals that refused_plan.py lists, and has the gateways judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial

import trio

from ..plans.gateways.refused_plan import CALLS, MAX_SECONDS, MIN_SECONDS, OF_ALL, ZONE, is_judged
from ..probers.refusal import Refused
from ..world.node import Node
from ..world.world import World


class Refusals:
    """events: functions by kind of fault; each is called with a gateway."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self.events: dict[str, Callable[[Node], Awaitable[None]]] = {
            kind: partial(self._refuse, kind) for kind in CALLS
        }
        self._world = world
        self._nodes = nodes
        self._rng = world.rng("refusals")

    async def _refuse(self, kind: str, node: Node) -> None:
        if kind not in OF_ALL:
            self._world.strikes.count(kind, node.is_up)
        struck = [node]
        if kind in (ZONE, *OF_ALL):
            struck = [each for each in self._nodes if kind in OF_ALL or each.zone == node.zone]
        watched = Refused(self._world, self._nodes, node)
        with ExitStack() as refusals:
            for each in struck:
                refusals.enter_context(each.refused_by_store(CALLS[kind]))
            with trio.move_on_after(self._rng.uniform(MIN_SECONDS, MAX_SECONDS)):
                await watched.look_for_others()
            if kind in OF_ALL:  # lands once a gateway is judged, so that a short run continues
                self._world.strikes.count(kind, await self._judge_all())
            else:
                await watched.judge()
        await watched.judge_return()

    async def _judge_all(self) -> bool:
        """Judge the gateways, none of which could serve in place of another one for a while.

        Return whether one was judged, or other faults forbid to judge any.
        """
        if not is_judged(self._world.plan.kinds):
            return True
        judges = [Refused(self._world, self._nodes, each) for each in self._nodes]
        return any([await each.judge_among_refused() for each in judges])
