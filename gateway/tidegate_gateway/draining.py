"""Drains a gateway on SIGTERM, or on an operator's command in the metadata log.

Once the log marks the gateway as draining, all gateways send clients to the others.  Its groups
move to the other gateways.  It answers requests with errors such as "not here", so clients ask for
new metadata.  It closes connections that are silent for a while.  Some clients keep asking the same
broker whatever it answers, so later the gateway closes their connections, too.  When no connection
and no group is left, a gateway that got SIGTERM ends.  A gateway that an operator drains writes to
the log that it is drained.  It then ends only if the operator also asked it to stop.

If there is no other gateway, a draining gateway serves until it ends.
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
from tidegate_coordination.state.changes import GATEWAYS
from tidegate_coordination.state.writers.gateways import Gateway as Life

from .feature import Feature, Ground, Task
from .groups.group_manager import GroupManager

_log = structlog.get_logger("tidegate.draining")

# The part of drain.timeout.ms that clients have to leave; the rest is for writes in flight.
GOODBYE_SHARE: Final = 2 / 3
PATIENT_GRACES: Final = 2
"""After so many times the grace, a client that keeps asking is disconnected between requests."""
LOOK_SECONDS: Final = 0.1
REPORT_SECONDS: Final = 1.0


class Draining:
    """Draining of one gateway.

    stop_asked: set when an operator asks the gateway to stop.

    Args:
      connections: the open connections at any time.
      grace_seconds: how long a connection may be silent before the gateway closes it.
      timeout_seconds: how long draining may take on SIGTERM.
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
        self._away_since = inf  # known as of the last call of `hurries`
        self._seen_version = -1
        self._news = trio.Event()
        coordinator.listen(self._on_change, GATEWAYS)

    @property
    def is_marked(self) -> bool:
        """Whether the log says that the gateway drains, or that its incarnation has ended."""
        me = self._me
        return me is None or me.draining

    @property
    def sends_away(self) -> bool:
        """Whether the gateway drains, and its clients have other gateways to go to."""
        return self._coordinator.state.gateways.sends_away(self._coordinator.incarnation)

    @property
    def is_over(self) -> bool:
        """Whether no connection and no claim on a group is left."""
        coordinator = self._coordinator
        held = coordinator.state.claims.held_by(coordinator.incarnation, GROUP_CLAIMS)
        return self.sends_away and not self._connections and not held

    @property
    def idle_seconds(self) -> float:
        """The seconds of silence after which the gateway closes a connection; inf for never."""
        return self._grace_seconds if self.sends_away else inf

    @property
    def hurries(self) -> bool:
        """Whether the gateway also closes connections that are not silent, between two requests."""
        if not self.sends_away:
            self._away_since = inf
            return False
        now = trio.current_time()
        self._away_since = min(self._away_since, now)
        return now - self._away_since >= PATIENT_GRACES * self._grace_seconds

    @property
    def _me(self) -> Life | None:
        return self._coordinator.state.gateways.live.get(self._coordinator.incarnation)

    async def begin(self) -> None:
        """Drain before the process ends; return when all clients are gone, or after the time limit.

        After a failure this may be called again; the time limit starts at the first call.

        Raises:
          CoordinatorUnavailable, ProposalFailed: this gateway may not be marked as draining.
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
        """Handle operators' commands to drain and to resume; forever."""
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
        """Write to the log when the gateway is drained; ask for a stop if the operator did."""
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
            _log.warning("could not write that this gateway is drained", error=str(error))
        else:
            _log.info("drained: this gateway may be stopped")

    def _on_change(self, touched: set[int]) -> None:
        version = self._coordinator.state.gateways.version
        if version != self._seen_version:
            self._seen_version = version
            self._news.set()

    @property
    def feature(self) -> Feature:
        """Return the feature with the background task of draining."""
        return Feature("draining", tasks=(Task("heed operators", self.run),))


def draining_of(ground: Ground, groups: GroupManager, connections: Collection[object]) -> Draining:
    """Make the part that drains a gateway.  connections: the open ones at any time."""
    return Draining(
        ground.coordinator,
        groups,
        connections,
        grace_seconds=ground.settings.int("drain.grace.ms") / 1000,
        timeout_seconds=ground.settings.int("drain.timeout.ms") / 1000,
    )
