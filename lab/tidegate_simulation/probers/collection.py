"""What is dead must go, once nothing is wrong any more: what stays for good is a leak."""

from __future__ import annotations

from math import inf
from typing import Final

import trio

from tidegate_coordination.rules.housekeeping import collectable

from ..world.world import World

# Of log time, behind the grace period: rounds of housekeeping, and the claim for them.
SLACK_MS: Final = 60_000
_LOOK_SECONDS: Final = 5.0


def leaks(world: World) -> int:
    """Return how many objects should have been collected long ago.

    What merged segments took the place of is left out: it waits for a copy of the log.
    """
    state = world.watch.state
    grace_ms = int(world.settings["object.delete.grace.ms"])
    return len(collectable(state, grace_ms + SLACK_MS, -inf))


async def wait_for_collection(world: World) -> None:
    """Return once nothing is leaked."""
    while leaks(world):  # noqa: ASYNC110 - housekeeping tells nobody
        await trio.sleep(_LOOK_SECONDS)
