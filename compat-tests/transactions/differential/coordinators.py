"""Finds a broker's coordinators, since Kafka makes their topics when a client asks first."""

from __future__ import annotations

from typing import Final

import trio

from tidegate_protocol.messages.find_coordinator import FindCoordinatorRequest

from .wire import Request, connect

_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.2
_TYPES: Final = (0, 1)


async def find_coordinators(bootstrap: str) -> None:
    """Wait until both coordinators of a broker can be found."""
    connection = await connect(bootstrap)
    with trio.fail_after(_SECONDS):
        for kind in _TYPES:
            request = Request("FindCoordinator", 3, FindCoordinatorRequest("any", kind))
            while True:
                answer = await connection.call(request)
                if not answer.error_code:
                    break
                await trio.sleep(_PAUSE_SECONDS)
    await connection.close()
