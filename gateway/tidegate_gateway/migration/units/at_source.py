"""The present state of a fence's groups and transactional ids at the source of their link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.rules.migration.group_moves import GroupToMove
from tidegate_coordination.rules.migration.units import IdToMove
from tidegate_coordination.state.migration.source_groups import GroupFence

from .group_move import group_at_source
from .source_ids import ids_to_move


class UnitAtSource:
    """See the module's head.  All requests to the source are concurrent, since writers wait.

    groups, ids: those that move.  problem: why they cannot move now; "" if they can.
    """

    def __init__(self, coordinator: Coordinator, source: ClassicCluster, unit: GroupFence) -> None:
        self.groups: dict[str, GroupToMove] = {}
        self.ids: list[IdToMove] = []
        self.problem = ""
        self._coordinator = coordinator
        self._source = source
        self._unit = unit
        self._errors: list[Exception] = []

    async def look(self) -> None:
        """Ask the source for all groups and ids.

        Raises:
          ClassicError: the source does not answer, or refuses.
          CoordinatorUnavailable: the log does not answer.
        """
        async with trio.open_nursery() as nursery:
            for each in self._unit.groups:
                nursery.start_soon(self._attempt, self._ask_group, each)
            nursery.start_soon(self._attempt, self._ask_ids)
        if self._errors:
            raise self._errors[0]

    async def _attempt(self, ask: Callable[..., Awaitable[None]], *which: str) -> None:
        try:
            await ask(*which)
        except (ClassicError, CoordinatorUnavailable) as error:
            self._errors.append(error)

    async def _ask_group(self, group_id: str) -> None:
        seen = [each for each in self._unit.members if each.group_id == group_id]
        found = await group_at_source(
            self._coordinator, self._unit.link, self._source, group_id, seen
        )
        if isinstance(found, str):
            self.problem = f"group {group_id}: {found}"
        else:
            self.groups[group_id] = found.group

    def _takes(self, transactional_id: str) -> bool:
        table = self._coordinator.state.link_groups
        return table.link_of_id(transactional_id) == self._unit.link

    async def _ask_ids(self) -> None:
        if not self._unit.ids:
            return
        found = await ids_to_move(self._source, self._unit.ids, self._takes)
        if isinstance(found, str):
            self.problem = found
        else:
            self.ids = found
