"""Sends clients to other gateways while this one is cut off from the metadata log.

This also logs when that begins and ends.  store_way/store_watch.py does the same for the object
store.
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
    """Return the incarnations to which clients are not sent; a gateway that is cut off is one, too.

    unheard: the incarnations that do not answer this gateway.  If this gateway is cut off and no
    other gateway answers, the fault may be its own network.  It then avoids only the gateways that
    cannot serve, since the others may still reach the log and the store.  without_store: the
    incarnations that are cut off from the object store; see store_way/marks.py.
    """
    me = coordinator.incarnation
    unable = without_store | {me} if coordinator.is_stale else without_store
    if not unable:
        return unheard
    others = {each.incarnation for each in coordinator.state.gateways.serving()} - unable
    return unable if others <= unheard else unheard | unable


async def tell_of_cuts(coordinator: Coordinator) -> None:
    """Log when this gateway is cut off, and when it no longer is; forever."""
    was_cut_off = False
    while True:
        await trio.sleep(LOOK_SECONDS)
        is_cut_off = coordinator.is_stale
        if is_cut_off and not was_cut_off:
            _log.warning("cut off from the metadata log; clients are sent to other gateways")
        elif was_cut_off and not is_cut_off:
            _log.info("no longer cut off from the metadata log; serving as before")
        was_cut_off = is_cut_off
