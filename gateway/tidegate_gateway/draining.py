"""How a gateway drains, told to by SIGTERM or, through the metadata log, by an operator.

Once it is marked in the log, everybody names the others to clients; its groups go to them, and what
clients ask of it is answered with "not here", so that they look where to go.  Connections that were
silent for a while are closed.  When nothing is left, one that was told by SIGTERM ends; one that an
operator marked says so in the log and stays, unless it shall stop, too.

A gateway without others drains in name only: it serves until it ends.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.rules.consumer_groups.groups import GROUP_CLAIMS
from tidegate_coordination.rules.draining import ReportDrained
from tidegate_coordination.rules.gateways import StartDraining
from tidegate_coordination.state.gateways import Gateway as Life

from .groups.group_manager import GroupManager

_log = structlog.get_logger("tidegate.draining")

# Of drain.timeout.ms: how long clients may take to go; the rest is for what is in flight.
GOODBYE_SHARE: Final = 2 / 3
LOOK_SECONDS: Final = 0.1
REPORT_SECONDS: Final = 1.0


class Draining:
    """Of one gateway.

    stop_asked: set when an operator wants it stopped.

    Args:
      connections: those that there are at any time.
      grace_seconds: how long a connection is silent before it is closed.
      timeout_seconds: how long ending may take.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        groups: GroupManager,
        connections: Collection[object],
        *,
        grace_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self.stop_asked = trio.Event()
        self._coordinator = coordinator
        self._groups = groups
        self._connections = connections
        self._grace_seconds = grace_seconds
        self._goodbye_seconds = GOODBYE_SHARE * timeout_seconds
        self._is_told = False
        self._goodbye_ends = inf
        self._seen_version = -1
        self._news = trio.Event()
        coordinator.listen(self._on_change)

    @property
    def is_marked(self) -> bool:
        """Whether the log says that it drains, or lives no more."""
        me = self._me
        return me is None or me.draining

    @property
    def sends_away(self) -> bool:
        """Whether it drains, and there are others for its clients to go to."""
        return self._coordinator.state.gateways.sends_away(self._coordinator.incarnation)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        coordinator = self._coordinator
        held = coordinator.state.claims.held_by(coordinator.incarnation, GROUP_CLAIMS)
        return self.sends_away and not self._connections and not held

    @property
    def idle_seconds(self) -> float:
        """Return after how much silence a connection is closed."""
        return self._grace_seconds if self.sends_away else inf

    @property
    def _me(self) -> Life | None:
        return self._coordinator.state.gateways.live.get(self._coordinator.incarnation)

    async def begin(self) -> None:
        """Drain, to end afterwards; returns when all clients are gone, or had time enough.

        May be called again after it failed; their time runs from the first call.

        Raises:
          CoordinatorUnavailable, ProposalFailed: nobody knows that this gateway drains.
        """
        if not self._is_told:
            self._is_told = True
            self._goodbye_ends = trio.current_time() + self._goodbye_seconds
        await self._coordinator.propose(StartDraining(self._coordinator.incarnation))
        self._groups.step_aside()
        with trio.move_on_at(self._goodbye_ends) as waited:
            while self.sends_away and self._connections:  # noqa: ASYNC110 - changed by many
                await trio.sleep(LOOK_SECONDS)
        if waited.cancelled_caught:
            _log.warning("clients stayed to the end", connections=len(self._connections))

    async def run(self) -> None:
        """Heed what operators want; forever."""
        while True:
            await self._marked(True)
            if not self._is_told:
                _log.info("draining, as an operator asked; `tidegate gateway undrain` ends it")
            self._groups.step_aside()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._report)
                await self._marked(False)
                nursery.cancel_scope.cancel()
            _log.info("taking new work again")

    async def _marked(self, wanted: bool) -> None:
        while self.is_marked != wanted:
            self._news = trio.Event()
            await self._news.wait()

    async def _report(self) -> None:
        """Say when nothing is left, and stop if that is wanted."""
        while not self._is_told:
            me = self._me
            if self.is_over and me is not None and not me.is_drained:
                await self._say_drained()
            if me is not None and me.stops:
                self.stop_asked.set()
                return
            await trio.sleep(REPORT_SECONDS)

    async def _say_drained(self) -> None:
        try:
            await self._coordinator.propose(ReportDrained())
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not say that all is drained", error=str(error))
        else:
            _log.info("drained: this gateway may be stopped")

    def _on_change(self, touched: set[int]) -> None:
        version = self._coordinator.state.gateways.version
        if version != self._seen_version:
            self._seen_version = version
            self._news.set()
