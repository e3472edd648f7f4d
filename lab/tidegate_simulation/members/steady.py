"""Members of a group that join once and stay, whatever faults strike the gateways.

No member has to join again unless a gateway missed it for a whole session; see checks_steady.
"""

from __future__ import annotations

from typing import Final

from ..checks.history import Event
from ..clients.client import Disconnected
from ..clients.workload import Key, Workload
from .members import GroupMember, Joined, Rejoin

STEADY_GROUP: Final = "steady"
STEADY_MEMBERS: Final = 2
_BEAT_SECONDS: Final = 2.0


class SteadyMember(GroupMember):
    """A member that never leaves."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name, STEADY_GROUP)

    async def run(self) -> None:
        """Join, and send heartbeats until no operation is left."""
        value = {"group": STEADY_GROUP, "members": STEADY_MEMBERS}
        self._history.note(self.client.name, "ok", "steady", value)
        while self._workload.operations_left > 0:
            try:
                joined, _ = await self.join()
                await self._stay(joined.generation)
            except (Disconnected, Rejoin):
                await self.client.pause(1.0)
        self.client.close()

    async def _stay(self, generation: int) -> None:
        while self._workload.operations_left > 0:
            await self.client.pause(_BEAT_SECONDS)
            try:
                await self._heartbeat(generation)
            except Disconnected:  # it continues at another gateway
                continue

    def _joined(self, began: Event, joined: Joined, keys: list[Key]) -> None:
        super()._joined(began, joined, keys)
        if joined.is_leader:
            value = {
                "group": STEADY_GROUP,
                "generation": joined.generation,
                "count": len(joined.members),
            }
            self._history.note(self.client.name, "ok", "counted", value)


def steady_members(workload: Workload) -> list[SteadyMember]:
    """Return all members of the group."""
    places = range(1, STEADY_MEMBERS + 1)
    return [SteadyMember(workload, f"steady member {place}") for place in places]
