"""Applies the refusals that refused_plan.py lists, and has the gateways judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial

import trio

from ..plans.refused_plan import CALLS, MAX_SECONDS, MIN_SECONDS, PUTS, ZONE
from ..probers.refusal import Refused
from ..world.node import Node
from ..world.world import World


class Refusals:
    """events: by kind; each gets a gateway."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self.events: dict[str, Callable[[Node], Awaitable[None]]] = {
            kind: partial(self._refuse, kind) for kind in CALLS
        }
        self._world = world
        self._nodes = nodes
        self._rng = world.rng("refusals")

    async def _refuse(self, kind: str, node: Node) -> None:
        self._world.strikes.count(kind, node.is_up)
        struck = [node]
        if kind in (ZONE, PUTS):
            struck = [each for each in self._nodes if kind == PUTS or each.zone == node.zone]
        watched = Refused(self._world, self._nodes, node)
        with ExitStack() as refusals:
            for each in struck:
                refusals.enter_context(each.refused_by_store(CALLS[kind]))
            with trio.move_on_after(self._rng.uniform(MIN_SECONDS, MAX_SECONDS)):
                await watched.look_for_others()
            await watched.judge()
            if kind == PUTS:
                await self._judge_all()
        await watched.judge_return()

    async def _judge_all(self) -> None:
        """Judge the gateways, none of which could store anything for a while."""
        for each in self._nodes:
            await Refused(self._world, self._nodes, each).judge_among_refused()
