"""Makes the coordinators of a broker before a script, and takes producer id 0.

Kafka creates the coordinators' topics when a client first asks for a coordinator.  Its first
producer id is 0.  Answers with an error also contain 0, so no script may get this id.
"""

from __future__ import annotations

from typing import Final

import trio

from tidegate_protocol.messages.find_coordinator import FindCoordinatorRequest
from tidegate_protocol.messages.init_producer_id import InitProducerIdRequest

from .wire import Request, connect

_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.2
_TYPES: Final = (0, 1)


async def find_coordinators(bootstrap: str) -> None:
    """Wait until both coordinators of a broker can be found."""
    for kind in _TYPES:
        await _succeed(
            bootstrap, Request("FindCoordinator", 3, FindCoordinatorRequest("any", kind))
        )


async def take_first_producer_id(bootstrap: str) -> None:
    """Take the first producer id that a broker gives out."""
    await _succeed(bootstrap, Request("InitProducerId", 4, InitProducerIdRequest(None, 60_000)))


async def _succeed(bootstrap: str, request: Request) -> None:
    """Repeat a request until its answer has no error."""
    connection = await connect(bootstrap)
    with trio.fail_after(_SECONDS):
        while (await connection.call(request)).error_code:  # noqa: ASYNC110 - a broker starts
            await trio.sleep(_PAUSE_SECONDS)
    await connection.close()
