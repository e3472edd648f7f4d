"""Reads ranges through the gateways of this zone before it asks the store.

The owner of an object lends ranges that it has in memory, or reads a block once for all gateways of
the zone.  This only saves GETs.  If a gateway does not answer soon, the range comes from the store,
and that gateway is not asked for a while.  The reader verifies lent bytes in the same way as bytes
from the store, and reports damage to doubt().  Only the store can say that an object is missing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.forwarding.suspects import Suspects
from tidegate_coordination.state.records.objects import ObjectName
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_storage.stores.object_store import StoreUnavailable

from .object_asks import MAX_ASKED_BYTES, ObjectAsk
from .object_lender import MAX_WHOLE_BYTES, ObjectLender
from .object_owners import ObjectOwners, gateways_of, lenders

_log = structlog.get_logger("tidegate.zone")

# Timeouts.  A gateway that answered in the last RECENT_SECONDS may be busy, so it gets
# BUSY_SECONDS.  Any other gateway may be dead, and gets ASK_SECONDS.
ASK_SECONDS: Final = 0.3
BUSY_SECONDS: Final = 1.0
RECENT_SECONDS: Final = 5.0
# If the owner must read a block first, the store delivers at least at this rate.
BYTES_PER_SECOND: Final = 64 << 20
# The most concurrent requests to one gateway.  Further requests wait, and their timeouts start only
# when they are sent.
CONCURRENT_ASKS: Final = 8
# The timeout of a read by this gateway's own lender.  After a failure, ranges come from the store
# for a while.
OWN_SECONDS: Final = 5.0
FIRST_SUSPECT_SECONDS: Final = 2.0
# The most unsent reports of damage to one gateway.  It evicts whole blocks, so a few reports
# suffice.
MAX_DOUBTS: Final = 32


class ObjectPeers(Protocol):
    """Asks other gateways for ranges."""

    async def lend(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> bytes | None:
        """Return the range, with the right length; None if the gateway cannot lend it.

        Raises:
          PeerUnavailable: the gateway gave no usable answer.
        """
        ...

    async def doubt(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> None:
        """Report a damaged range to the gateway that lent it, so that it reads the range again.

        Raises:
          PeerUnavailable: the gateway gave no answer.
        """
        ...


class Lent(NamedTuple):
    """A range that a gateway lent; lender: the incarnation of that gateway."""

    body: memoryview
    lender: int


@dataclass(slots=True)
class ZoneCounters:
    """Requests to other gateways, for metrics.

    Each request (asked) ends as a hit or a fallback. damaged: hits whose bytes differ from what is
    stored.
    """

    asked: int = 0
    hits: int = 0
    hit_bytes: int = 0
    fallbacks: int = 0
    damaged: int = 0


class ZoneReads:
    """See the module's head.

    zone: of this gateway. lender: reads blocks for the whole zone. zone_id_of: see gateways_of().
    """

    def __init__(
        self,
        coordinator: Coordinator,
        zone: str,
        lender: ObjectLender,
        peers: ObjectPeers,
        *,
        zone_id_of: Callable[[str], str] = str,
    ) -> None:
        self.counters = ZoneCounters()
        self._coordinator = coordinator
        self._zone = zone
        self._zone_id_of = zone_id_of
        self._lender = lender
        self._peers = peers
        self._suspects = Suspects(FIRST_SUSPECT_SECONDS)
        self._own_trouble = Suspects(FIRST_SUSPECT_SECONDS)
        self._owners = ObjectOwners((), coordinator.state.topics)
        self._owners_version = -1
        self._others = 0
        self._asks: dict[int, trio.Semaphore] = {}
        self._answered_at: dict[int, float] = {}
        # Gateways that lent bytes since their last check by _trust_if_proven(), without a report of
        # damage.
        self._unproven: set[int] = set()
        self._doubts: defaultdict[int, deque[ObjectAsk]] = defaultdict(_no_doubts)

    async def read(self, name: ObjectName, ask: ObjectAsk) -> Lent | None:
        """Return a range as it is stored, perhaps damaged; None if the caller must ask the store.

        The caller must use it before the next checkpoint.

        Raises:
          NoSuchObject, StoreMisconfigured: from the store, when this gateway read it.
        """
        if ask.length > MAX_ASKED_BYTES:
            return None
        if not self._is_alone():
            found = self._owners.owner(name, ask.key, self._suspects.holds)
            if found is None:
                return None
            if found.incarnation != self._coordinator.incarnation:
                return await self._ask(found, ask)
        return await self._read_own(ask)

    def at_hand(self, ask: ObjectAsk) -> Lent | None:
        """Return a range as read() does if it is in this gateway's memory; otherwise None."""
        body = self._lender.at_hand(ask)
        return Lent(body, self._coordinator.incarnation) if body is not None else None

    async def _read_own(self, ask: ObjectAsk) -> Lent | None:
        """Read a range by the zone's lender, unless such a read failed or was too slow just now."""
        me = self._coordinator.incarnation
        if self._own_trouble.holds(me):
            return None
        problem = "the store took too long"
        with trio.move_on_after(OWN_SECONDS):
            try:
                body = await self._lender.read(ask)
            except StoreUnavailable as error:
                problem = str(error)
            else:
                self._own_trouble.trust(me)
                return Lent(body, me) if body is not None else None
        seconds = self._own_trouble.suspect(me)
        _log.warning(
            "shared zone read failed; reading ranges from the object store",
            object_key=ask.key,
            error=problem,
            for_seconds=seconds,
        )
        return None

    def doubt(self, ask: ObjectAsk, lender: int) -> None:
        """Note that a lent range was damaged."""
        if lender == self._coordinator.incarnation:
            self._lender.forget(ask)
            return
        self.counters.damaged += 1
        self._unproven.discard(lender)
        self._doubts[lender].append(ask)
        seconds = self._suspects.suspect(lender)
        _log.warning(
            "another gateway sent damaged bytes; reading from the object store",
            incarnation=lender,
            object_key=ask.key,
            left_alone_seconds=seconds,
        )

    def _is_alone(self) -> bool:
        """Return whether this gateway is the only one of its zone.

        Gateways that other gateways cannot ask count, too.
        """
        if self._coordinator.state.gateways.version != self._owners_version:
            self._look_around()
        return not self._others

    def _look_around(self) -> None:
        """Note the gateways of the zone, and forget others; called when a gateway came or went."""
        state = self._coordinator.state
        self._owners_version = state.gateways.version
        of_zone = gateways_of(state.gateways, self._zone, self._zone_id_of)
        self._others = sum(each.incarnation != self._coordinator.incarnation for each in of_zone)
        self._owners = ObjectOwners(lenders(of_zone), state.topics)
        near = {each.incarnation for each in self._owners.near}
        self._asks = {who: each for who, each in self._asks.items() if who in near}
        self._answered_at = {who: at for who, at in self._answered_at.items() if who in near}
        self._unproven &= near
        for who in self._doubts.keys() - near:
            del self._doubts[who]

    async def _ask(self, found: Gateway, ask: ObjectAsk) -> Lent | None:
        who = found.incarnation
        async with self._asks.setdefault(who, trio.Semaphore(CONCURRENT_ASKS)):
            if self._suspects.holds(who):
                return None
            self._trust_if_proven(who)
            self.counters.asked += 1
            body = await self._lend(found, ask)
        if body is None:
            self.counters.fallbacks += 1
            return None
        self._unproven.add(who)
        self.counters.hits += 1
        self.counters.hit_bytes += len(body)
        return Lent(memoryview(body), who)

    def _trust_if_proven(self, who: int) -> None:
        """Forget a gateway's failures if no reader found damage in the bytes that it lent last."""
        if who in self._unproven:
            self._unproven.discard(who)
            self._suspects.trust(who)

    async def _lend(self, found: Gateway, ask: ObjectAsk) -> bytes | None:
        try:
            await self._tell(found, self._doubts[found.incarnation])
            body = await self._peers.lend(found, ask, self._patience_seconds(found, ask))
        except PeerUnavailable as error:
            _log.warning(
                "another gateway did not lend a range; reading from the object store",
                node_id=found.node_id,
                error=str(error),
                left_alone_seconds=self._suspects.suspect(found.incarnation),
            )
            return None
        self._answered_at[found.incarnation] = trio.current_time()
        return body

    async def _tell(self, found: Gateway, doubts: deque[ObjectAsk]) -> None:
        """Report the damaged ranges to their gateway, in ASK_SECONDS at most for all of them."""
        until = trio.current_time() + ASK_SECONDS
        while doubts and (left := until - trio.current_time()) > 0:
            await self._peers.doubt(found, doubts.popleft(), left)

    def _patience_seconds(self, found: Gateway, ask: ObjectAsk) -> float:
        answered_at = self._answered_at.get(found.incarnation, float("-inf"))
        is_alive = answered_at > trio.current_time() - RECENT_SECONDS
        to_read_it = min(ask.size_bytes, MAX_WHOLE_BYTES) / BYTES_PER_SECOND
        return (BUSY_SECONDS if is_alive else ASK_SECONDS) + to_read_it


def _no_doubts() -> deque[ObjectAsk]:
    return deque(maxlen=MAX_DOUBTS)
