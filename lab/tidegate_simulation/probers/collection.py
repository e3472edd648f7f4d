"""Dead objects must be deleted after healing: an object that stays forever is a leak."""

from __future__ import annotations

from math import inf
from typing import Final

import trio

from tidegate_coordination.rules.housekeeping import collectable

from ..world.world import World

# In log time, after the grace period: time for rounds of housekeeping, and to take its claim.
SLACK_MS: Final = 60_000
_LOOK_SECONDS: Final = 5.0


def leaks(world: World) -> int:
    """Return the number of objects that housekeeping should have deleted long ago.

    Superseded objects are left out: they wait for a copy of the log.
    """
    state = world.watch.state
    grace_ms = int(world.settings["object.delete.grace.ms"])
    return len(collectable(state, grace_ms + SLACK_MS, -inf))


async def wait_for_collection(world: World) -> None:
    """Return once no object is leaked."""
    while leaks(world):  # noqa: ASYNC110 - housekeeping sends no event
        await trio.sleep(_LOOK_SECONDS)
