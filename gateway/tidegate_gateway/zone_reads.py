"""Asks the gateways of this zone for what they have, or read for all, before the store is asked.

A help only: who does not answer soon is left alone for a while, and the store is asked.  What comes
from others is not trusted: whoever reads it checks it as it checks what comes from the store, and
tells doubt() of what was damaged.  That an object is missing only the store can say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import structlog
import trio

from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.state.gateways import Gateway
from tidegate_coordination.state.objects import ObjectName

from .object_asks import MAX_ASKED_BYTES, ObjectAsk
from .object_lender import MAX_WHOLE_BYTES, ObjectLender
from .object_owners import ObjectOwners, lenders
from .suspects import Suspects

_log = structlog.get_logger("tidegate.zone")

# Of one that may be dead; who answered just now lives, and may be busy.
ASK_SECONDS: Final = 0.3
BUSY_SECONDS: Final = 1.0
RECENT_SECONDS: Final = 5.0
# The owner may have to read a block first, from a store that is no slower than that.
BYTES_PER_SECOND: Final = 64 << 20
# At one gateway; more wait, and their time does not run yet.
CONCURRENT_ASKS: Final = 8


class ObjectPeers(Protocol):
    """How other gateways are asked for ranges."""

    async def lend(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> bytes | None:
        """Return the range, of the right length; None if the gateway says it cannot.

        Raises:
          PeerUnavailable: it gave no answer, or none that can be used.
        """
        ...


class Lent(NamedTuple):
    """What a gateway gave; lender: its incarnation."""

    body: memoryview
    lender: int


@dataclass(slots=True)
class ZoneCounters:
    """Questions to others, for metrics.

    Each asked is a hit or a fallback.  damaged: hits whose bytes were not those that were stored.
    """

    asked: int = 0
    hits: int = 0
    hit_bytes: int = 0
    fallbacks: int = 0
    damaged: int = 0


class ZoneReads:
    """See the module's head.  zone: of this gateway.  lender: what it reads for all."""

    def __init__(
        self, coordinator: Coordinator, zone: str, lender: ObjectLender, peers: ObjectPeers
    ) -> None:
        self.counters = ZoneCounters()
        self._coordinator = coordinator
        self._zone = zone
        self._lender = lender
        self._peers = peers
        self._suspects = Suspects()
        self._owners = ObjectOwners((), coordinator.state.topics)
        self._owners_version = -1
        self._asks: dict[int, trio.Semaphore] = {}
        self._answered_at: dict[int, float] = {}

    async def read(self, name: ObjectName, ask: ObjectAsk) -> Lent | None:
        """Return a range as it is stored, perhaps damaged; None: ask the store.

        It must be used before the next checkpoint.

        Raises:
          NoSuchObject, StoreUnavailable, StoreMisconfigured: the store said so, to this gateway.
        """
        me = self._coordinator.incarnation
        found = self._owner(name, ask.key) if ask.length <= MAX_ASKED_BYTES else None
        if found is None:
            return None
        if found.incarnation != me:
            return await self._ask(found, ask)
        body = await self._lender.read(ask)
        return Lent(body, me) if body is not None else None

    def doubt(self, ask: ObjectAsk, lender: int) -> None:
        """Take note that what a gateway gave was damaged."""
        if lender == self._coordinator.incarnation:
            self._lender.forget(ask)
            return
        self.counters.damaged += 1
        seconds = self._suspects.suspect(lender)
        _log.warning(
            "another gateway gave damaged bytes; the store is asked",
            incarnation=lender,
            object_key=ask.key,
            left_alone_seconds=seconds,
        )

    def _owner(self, name: ObjectName, object_key: str) -> Gateway | None:
        """Return who is to read it; None where nobody else would ask this gateway."""
        if self._coordinator.state.gateways.version != self._owners_version:
            self._look_around()
        near = self._owners.near
        if all(each.incarnation == self._coordinator.incarnation for each in near):
            return None
        return self._owners.owner(name, object_key, self._suspects.holds)

    def _look_around(self) -> None:
        """A gateway came or went: forget those that are gone."""
        state = self._coordinator.state
        self._owners_version = state.gateways.version
        self._owners = ObjectOwners(lenders(state.gateways, self._zone), state.topics)
        near = {each.incarnation for each in self._owners.near}
        self._asks = {who: each for who, each in self._asks.items() if who in near}
        self._answered_at = {who: at for who, at in self._answered_at.items() if who in near}

    async def _ask(self, found: Gateway, ask: ObjectAsk) -> Lent | None:
        who = found.incarnation
        async with self._asks.setdefault(who, trio.Semaphore(CONCURRENT_ASKS)):
            if self._suspects.holds(who):
                return None
            self.counters.asked += 1
            body = await self._lend(found, ask)
        if body is None:
            self.counters.fallbacks += 1
            return None
        self._suspects.trust(who)
        self.counters.hits += 1
        self.counters.hit_bytes += len(body)
        return Lent(memoryview(body), who)

    async def _lend(self, found: Gateway, ask: ObjectAsk) -> bytes | None:
        try:
            body = await self._peers.lend(found, ask, self._patience_seconds(found, ask))
        except PeerUnavailable as error:
            _log.warning(
                "another gateway did not give what it has; the store is asked",
                node_id=found.node_id,
                error=str(error),
                left_alone_seconds=self._suspects.suspect(found.incarnation),
            )
            return None
        self._answered_at[found.incarnation] = trio.current_time()
        return body

    def _patience_seconds(self, found: Gateway, ask: ObjectAsk) -> float:
        answered_at = self._answered_at.get(found.incarnation, float("-inf"))
        is_alive = answered_at > trio.current_time() - RECENT_SECONDS
        to_read_it = min(ask.size_bytes, MAX_WHOLE_BYTES) / BYTES_PER_SECOND
        return (BUSY_SECONDS if is_alive else ASK_SECONDS) + to_read_it
