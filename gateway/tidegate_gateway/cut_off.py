"""Tells people when this gateway is cut off from the metadata log, and when that is over."""

from __future__ import annotations

from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator import Coordinator

LOOK_SECONDS: Final = 1.0

_log = structlog.get_logger("tidegate.gateway")


async def tell_of_cuts(coordinator: Coordinator) -> None:
    """See the module's head; forever."""
    was_cut_off = False
    while True:
        await trio.sleep(LOOK_SECONDS)
        is_cut_off = coordinator.is_cut_off
        if is_cut_off and not was_cut_off:
            _log.warning("cut off from the metadata log; clients are sent to other gateways")
        elif was_cut_off and not is_cut_off:
            _log.info("no longer cut off from the metadata log; serving as before")
        was_cut_off = is_cut_off
