"""Makes a proposal of the gateway itself, and waits for the log without a limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed

_log = structlog.get_logger("tidegate.gateway")

SAY_AGAIN_SECONDS: Final = 0.5


async def propose_patiently(step: Callable[[], Awaitable[object]]) -> None:
    """Make a proposal of the gateway itself, and repeat it until the log answers."""
    while True:
        try:
            await step()
            return
        except CoordinatorUnavailable:
            await trio.sleep(SAY_AGAIN_SECONDS)
        except ProposalFailed as error:
            _log.warning(
                "a proposal of the leaving gateway failed; its lease will expire", error=str(error)
            )
            return
