"""Asks the owners of quotas for shares, every half second.

Each owner gets one request with all quotas that it owns; the request has a deadline.  A missing
answer needs no action, since shares that are not granted again fall by themselves (held_share.py).
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

import structlog
import trio

from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.state.writers.gateways import Gateway

from .messages import Asked, Granted
from .shares import Batch, QuotaShares

LOOK_SECONDS: Final = 0.5
ASK_SECONDS: Final = 0.4

_log = structlog.get_logger("tidegate.quotas")


class SharePeers(Protocol):
    """Asks other gateways for shares."""

    async def share(self, gateway: Gateway, asked: Asked, timeout_seconds: float) -> Granted:
        """Ask a gateway for shares.

        Raises:
          PeerUnavailable: it gave no usable answer.
        """
        ...


class ShareExchange:
    """See the module's head.  asked, unanswered: counters of requests."""

    def __init__(self, shares: QuotaShares, peers: SharePeers) -> None:
        self.asked = 0
        self.unanswered = 0
        self._shares = shares
        self._peers = peers
        self._silent: set[int] = set()

    async def run(self) -> None:
        """Ask, forever."""
        while True:
            next_at = trio.current_time() + LOOK_SECONDS
            await self.look()
            await trio.sleep_until(next_at)

    async def look(self) -> None:
        """Ask for all shares that are due."""
        now_ms = _now_ms()
        batches = await self._shares.due(now_ms)
        self._silent &= self._shares.membership.live
        async with trio.open_nursery() as nursery:
            for each in batches:
                nursery.start_soon(partial(self._ask, each, _now_ms()))

    async def _ask(self, batch: Batch, asked_ms: int) -> None:
        self.asked += 1
        incarnation = batch.gateway.incarnation
        question = self._shares.question(batch, asked_ms)
        try:
            granted = await self._peers.share(batch.gateway, question, ASK_SECONDS)
        except PeerUnavailable as error:
            self.unanswered += 1
            if batch.wishes and incarnation not in self._silent:
                self._silent.add(incarnation)
                _log.warning(
                    "a gateway that divides quotas does not answer; this gateway goes on with the"
                    " shares it has, then with quota / live gateways",
                    node_id=batch.gateway.node_id,
                    error=str(error),
                )
            return
        self._silent.discard(incarnation)
        self._shares.take(batch, granted, asked_ms, _now_ms())


def _now_ms() -> int:
    return int(trio.current_time() * 1_000)
