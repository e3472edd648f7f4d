"""Chooses the next event, its victim and its time.

The agenda begins each drawn kind of event once, in random order, before it repeats a kind.  It
repeats an event that had no effect.  After an event, its kind rests for about as long as the event
took.  Now and then the agenda begins nothing for a while, because a world without quiet periods
hides bugs.

If the clients have finished and a promised kind has not landed, the run is late.  A late run is
prolonged, and the same CPU time would find more in other seeds.  So in a late run the agenda begins
only the missing kinds, at once and on victims that are up.  It repeats a kind without a rest if the
event had no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import trio

from ..plans.pipeline_plan import PREFIX
from ..world.host import Host
from ..world.world import World

REST_SECONDS: Final = 0.25
_HURRY_SECONDS: Final = 0.5
_QUIET_SHARE: Final = 0.15
_QUIET_SECONDS: Final = 20.0


class Agenda:
    """See the module's head.  nodes, pipelines: the possible victims.

    is_awaited: a gateway is absent, and the other gateways have to notice it.  If they restarted
    all the time, they never would.
    """

    def __init__(
        self, world: World, nodes: Sequence[Host], pipelines: Sequence[Host], rng: Random
    ) -> None:
        self.is_awaited = False
        self._world = world
        self._nodes = nodes
        self._pipelines = pipelines
        self._rng = rng
        self._busy: set[str] = set()

    @property
    def is_late(self) -> bool:
        """Return whether the clients have finished before a promised kind landed."""
        return self._world.late.is_set()

    async def wait(self) -> None:
        """Wait until it is time for the next event."""
        if self.is_late:
            await self._hurry()
            return
        await self._rest(self._rng.expovariate(1 / self._world.plan.event_seconds))
        if self._rng.random() < _QUIET_SHARE:
            await self._rest(self._rng.uniform(0.0, _QUIET_SECONDS))

    async def _hurry(self) -> None:
        """Wait for a moment; wait longer while a gateway is absent."""
        await trio.sleep(self._rng.expovariate(1 / _HURRY_SECONDS))
        while self.is_awaited and self._rng.random() * _QUIET_SECONDS > _HURRY_SECONDS:  # noqa: ASYNC110 - a draw each
            await trio.sleep(_HURRY_SECONDS)

    def begin(self) -> tuple[str, Host] | None:
        """Return a kind and its victim; None if no event should begin now."""
        kind = self._next_kind()
        if not kind:
            return None
        self._busy.add(kind)
        return kind, self._pick(kind)

    def _next_kind(self) -> str:
        """Return a kind that has not landed yet, else any kind; "" if there is none."""
        free = [each for each in self._world.plan.events if each not in self._busy]
        outstanding = [each for each in free if self._is_missing(each)]
        kinds = outstanding or ([] if self.is_late else free)
        return self._rng.choice(kinds) if kinds else ""

    def _is_missing(self, kind: str) -> bool:
        return kind in self._world.strikes.missing()

    def _pick(self, kind: str) -> Host:
        hosts = self._pipelines if kind.startswith(PREFIX) else self._nodes
        up = [each for each in hosts if each.is_up] if self.is_late else []
        return self._rng.choice(up or hosts)

    async def end(self, kind: str, lasted_seconds: float) -> None:
        """Let a kind rest after its event."""
        seconds = REST_SECONDS + lasted_seconds * self._rng.uniform(0.5, 2.0)
        await self._rest(REST_SECONDS if self.is_late and self._is_missing(kind) else seconds)
        self._busy.discard(kind)

    async def _rest(self, seconds: float) -> None:
        """Wait, but no longer than until the run is late."""
        if self.is_late:
            await trio.sleep(seconds)
            return
        with trio.move_on_after(seconds):
            await self._world.late.wait()
