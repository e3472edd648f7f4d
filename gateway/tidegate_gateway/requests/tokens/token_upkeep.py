"""Removes delegation tokens that have expired.

The housekeeper does this; while no gateway is the housekeeper, every gateway does it.  The gateway
needs a good clock; see Housekeeper.may_expire_here.  While an expired token is still in the log, no
client can log in by it or renew it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.security.tokens import RemoveExpiredTokens

from ...upkeep.upkeep import Upkeep

_log = structlog.get_logger("tidegate.tokens")


@dataclass(frozen=True, slots=True)
class TokenUpkeep:
    """See the module's head.

    interval_seconds: between two looks (delegation.token.expiry.check.interval.ms).
    """

    coordinator: Coordinator
    may_work: Callable[[], bool]
    upkeep: Upkeep
    interval_seconds: float

    async def run(self) -> None:
        """Remove expired tokens again and again; forever."""
        while True:
            await trio.sleep(self.interval_seconds)
            if self.may_work():
                await self.upkeep.attempt("remove expired delegation tokens", self.remove_once)

    async def remove_once(self) -> None:
        """Remove all tokens that have expired."""
        state = self.coordinator.state
        now_ms = state.gateways.earlier_of_median_and(state.log_time_ms)
        expired = {each.token_id for each in state.tokens.expired(now_ms)}
        if not expired:
            return
        while await self.coordinator.propose(RemoveExpiredTokens()):
            pass
        # The log's rule uses another clock, and may find that tokens are still valid.
        if removed := len(expired - state.tokens.ids):
            _log.info("expired delegation tokens were removed", removed=removed)
