"""The trim boundary of a log of objects: a chain of objects, each created once and never deleted.

Rise n of the boundary is an object that holds a position above that of rise n - 1. Creating it is
a compare-and-set, so positions only rise, even if several gateways trim. If the GET of rise n + 1
finds nothing, rise n is current at that moment. Each check repeats the GET and never caches its
result (decision 12 has the reason).
"""

from functools import partial

from tidegate_coordination.log.metadata_log import FIRST_POSITION
from tidegate_coordination.logs.objects.door import LogObjects
from tidegate_coordination.logs.objects.names import (
    BOUNDARIES,
    boundary_name,
    boundary_rise,
    frame_boundary,
    unframe_boundary,
)


class Boundary:
    """`position` is the first that is not trimmed, as far as is known; it may be higher by now."""

    def __init__(self, objects: LogObjects) -> None:
        self._objects = objects
        self._rise = 0
        self.position = FIRST_POSITION

    async def find(self) -> None:
        """Find the newest rise without walking the chain; a list that is stale is good enough."""
        for newest in await self._objects.page(BOUNDARIES, limit=1):
            await self._learn(boundary_rise(newest.name))
        await self.check()

    async def check(self) -> int:
        """Return the position at some moment after this call began.

        Raises:
            LogUnavailable: the store does not answer now.
            LogCorrupt: a boundary is damaged.
        """
        while await self._learn(self._rise + 1):
            pass
        return self.position

    async def raise_to(self, position: int) -> None:
        """Raise the boundary durably to a position; do nothing if it is that high already.

        Raises:
            LogUnavailable: the rise may take effect, now or later.
        """
        while await self.check() < position:
            rise = self._rise + 1
            if await self._objects.create(boundary_name(rise), frame_boundary(rise, position)):
                self._note(rise, position)

    async def _learn(self, rise: int) -> bool:
        check = partial(unframe_boundary, rise)
        position = await self._objects.get_checked(boundary_name(rise), check)
        if position is None:
            return False
        self._note(rise, position)
        return True

    def _note(self, rise: int, position: int) -> None:
        if rise > self._rise:  # another call may have raised it first
            self._rise, self.position = rise, position
