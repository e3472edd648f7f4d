"""While this gateway is cut off from the metadata log, others serve.  It logs begin and end.

store_way/store_watch.py does the same for the object store.
"""

from __future__ import annotations

from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator

LOOK_SECONDS: Final = 1.0

_log = structlog.get_logger("tidegate.gateway")


def to_avoid(
    coordinator: Coordinator, unheard: frozenset[int], without_store: frozenset[int]
) -> frozenset[int]:
    """Return the incarnations that clients are not sent to; includes its own while it is cut off.

    unheard: the incarnations that do not answer this gateway.  If these are all others, this
    gateway may be cut off from them, too.  It then avoids only those that cannot serve: the others
    may still reach the log and the store.
    without_store: those that are cut off from the object store; see store_way/marks.py.
    """
    me = coordinator.incarnation
    unable = without_store | {me} if coordinator.is_stale else without_store
    if not unable:
        return unheard
    others = {each.incarnation for each in coordinator.state.gateways.serving()} - unable
    return unable if others <= unheard else unheard | unable


async def tell_of_cuts(coordinator: Coordinator) -> None:
    """Log when this gateway is cut off, and when it is so no longer; forever."""
    was_cut_off = False
    while True:
        await trio.sleep(LOOK_SECONDS)
        is_cut_off = coordinator.is_stale
        if is_cut_off and not was_cut_off:
            _log.warning("cut off from the metadata log; clients are sent to other gateways")
        elif was_cut_off and not is_cut_off:
            _log.info("no longer cut off from the metadata log; serving as before")
        was_cut_off = is_cut_off
