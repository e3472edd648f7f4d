"""The shares of quotas that this gateway holds, and those that it grants.

This module makes the decisions, without I/O: exchange.py asks other gateways, and
peers/peer_service.py answers them.  Only quotas in use are active and take time and messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.forwarding.leaders import PEER_LISTENERS
from tidegate_coordination.security.quotas import Bucket
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_coordination.state.writers.static_settings import StaticSettingsTable

from .allowance import Allowance
from .ledger import ShareLedger, Wanted
from .membership import Member, Membership
from .messages import MAX_MISSED, MAX_WISHES, VERSION, Asked, Granted, Wish, key_of
from .scope import tells_shares

TURN: Final = 256
"""After so many quotas, other tasks run."""
MAX_ACTIVE: Final = 10_000
"""The most quotas in use with shares; of further ones this gateway has quota / live gateways."""
VOTES_MS: Final = 5_000
"""For so long after a question, this gateway finds out who is gone."""


class NotOurs(Exception):
    """The request is for another cluster."""


class Batch(NamedTuple):
    """The requests for shares to another gateway."""

    gateway: Gateway
    wishes: list[tuple[Allowance, Wish]]


class QuotaShares:
    """See the module's head.

    Args:
      missed: returns the incarnations that do not answer this gateway.
      asks: whether this gateway asks for shares; if not, its share of each quota is quota / live
        gateways.
    """

    def __init__(
        self, coordinator: Coordinator, missed: Callable[[], frozenset[int]], *, asks: bool
    ) -> None:
        self.asks = asks
        self.membership = Membership(coordinator.incarnation)
        self.ledger = ShareLedger()
        self._coordinator = coordinator
        self._missed = missed
        self._active: OrderedDict[bytes, Allowance] = OrderedDict()
        self._asked_ms = -VOTES_MS
        self._newest_ms: dict[int, int] = {}
        self._counted = (-1, 1)

    @property
    def active(self) -> int:
        """The number of quotas for which this gateway asks for shares."""
        return len(self._active)

    def allowance(self, resource: str, bucket: Bucket, burst_seconds: float) -> Allowance:
        """Return a new allowance of a bucket."""
        key = key_of(resource, *bucket)

        def on_use(allowance: Allowance) -> bool:
            is_room = key in self._active or len(self._active) < MAX_ACTIVE
            if self.asks and is_room:
                self._active[key] = allowance
            return self.asks and is_room

        return Allowance(burst_seconds, self.live, on_use)

    def live(self) -> int:
        """Return the number of live gateways, at least 1."""
        gateways = self._coordinator.state.gateways
        if self._counted[0] != gateways.version:
            self._counted = gateways.version, max(len(gateways.serving()), 1)
        return self._counted[1]

    async def due(self, now_ms: int) -> list[Batch]:
        """Return the requests for shares that are due, at most MAX_WISHES for each gateway.

        Call it every half second.  Shares of quotas that this gateway owns are granted at once.
        """
        self._look(now_ms)
        me, wishes = self._coordinator.incarnation, dict[int, list[tuple[Allowance, Wish]]]()
        divides = False
        for count, (key, allowance) in enumerate(list(self._active.items())):
            if count % TURN == TURN - 1:
                await trio.lowlevel.checkpoint()
            wanted = allowance.look(now_ms)
            owner = self.membership.owner(key)
            if wanted is None or wanted.demand <= 0:
                self._active.pop(key, None)
            if wanted is None or owner is None:
                continue
            if owner == me:
                divides = True
                self._take(allowance, self._granted(key, me, wanted, now_ms), now_ms)
            elif len(asked := wishes.setdefault(owner, [])) < MAX_WISHES:
                asked.append((allowance, Wish(key, *wanted)))
                if key in self._active:
                    # so that wishes beyond the limit come first next time
                    self._active.move_to_end(key)
        if divides:
            # If other gateways do not reach this one, they send it no requests, and it sees this
            # only in their answers.
            for each in sorted(self.membership.unheard(now_ms)):
                wishes.setdefault(each, [])
        return self._batches(wishes, now_ms)

    def question(self, batch: Batch, asked_ms: int) -> Asked:
        """Return the request to a gateway."""
        return Asked(
            VERSION,
            self._coordinator.state.cluster_id,
            self._coordinator.incarnation,
            self._said_missed(),
            [wish for _, wish in batch.wishes],
            asked_ms,
        )

    def take(self, batch: Batch, granted: Granted, asked_ms: int, now_ms: int) -> None:
        """Hold the shares that a gateway granted.  asked_ms: the time of the request."""
        self.membership.note_vote(batch.gateway.incarnation, granted.missed, now_ms)
        for (allowance, wish), share in zip(batch.wishes, granted.shares, strict=True):
            if share is not None:
                allowance.grant(min(share, wish.quota), asked_ms, now_ms)

    async def answer(self, asked: Asked, now_ms: int) -> Granted:
        """Answer another gateway.

        After a deadline that gateway sends a new request on another connection, so requests may
        overlap and arrive in any order.  Once a newer request has arrived, an older one changes
        nothing and gets no shares.

        Raises:
          NotOurs: see there.
        """
        if asked.cluster_id != self._coordinator.state.cluster_id:
            raise NotOurs("this gateway belongs to another cluster")
        self._asked_ms = now_ms
        if not self._is_late(asked):
            self.membership.note_vote(asked.incarnation, asked.missed, now_ms)
        self._look(now_ms)
        self._note_newest(asked)
        shares: list[float | None] = []
        for count, wish in enumerate(asked.wishes):
            if count % TURN == TURN - 1:
                await trio.lowlevel.checkpoint()
            share = None
            if wish.is_sound and not self._is_late(asked):
                wanted = Wanted(wish.quota, wish.demand, min(wish.held, wish.quota))
                share = self._granted(wish.key, asked.incarnation, wanted, now_ms)
            shares.append(share)
        return Granted(VERSION, self._said_missed(), shares)

    def _is_late(self, asked: Asked) -> bool:
        return 0 < asked.asked_ms < self._newest_ms.get(asked.incarnation, 0)

    def _note_newest(self, asked: Asked) -> None:
        live = self.membership.live
        for each in self._newest_ms.keys() - live:
            del self._newest_ms[each]
        if asked.incarnation in live and not self._is_late(asked):
            self._newest_ms[asked.incarnation] = asked.asked_ms

    def _granted(self, key: bytes, asker: int, wanted: Wanted, now_ms: int) -> float | None:
        members = self.membership
        if self._coordinator.is_stale or not members.owns(key):
            return None
        return self.ledger.grant(key, asker, wanted, members, now_ms)

    def _take(self, allowance: Allowance, share: float | None, now_ms: int) -> None:
        if share is not None:
            allowance.grant(share, now_ms, now_ms)

    def _look(self, now_ms: int) -> None:
        state = self._coordinator.state
        members = [
            Member(each.incarnation, each.node_id, can_divide(each, state.static_settings))
            for each in state.gateways.serving()
        ]
        self.membership.look(members, self._missed(), now_ms)

    def _said_missed(self) -> list[int]:
        return sorted(self.membership.suspects)[:MAX_MISSED]

    def _batches(self, wishes: dict[int, list[tuple[Allowance, Wish]]], now_ms: int) -> list[Batch]:
        """Return the wishes by gateway; while a gateway does not answer, ask all others, too.

        Gateways that do not answer may still serve, and must learn this from the votes in the
        requests.
        """
        members, me = self.membership, self._coordinator.incarnation
        if members.suspects and (self._active or now_ms - self._asked_ms < VOTES_MS):
            for each in sorted(members.live - {me}):
                wishes.setdefault(each, [])
        state = self._coordinator.state
        live, told = state.gateways.live, state.static_settings
        return [
            Batch(live[each], asked)
            for each, asked in wishes.items()
            if each in live and can_divide(live[each], told)
        ]


def can_divide(gateway: Gateway, told: StaticSettingsTable) -> bool:
    """Return whether a gateway answers requests for shares.

    A gateway of an older release, or with quota.scope=broker, refuses them.
    """
    can_be_asked = any(each.listener in PEER_LISTENERS for each in gateway.endpoints)
    return can_be_asked and tells_shares(told, gateway.node_id)
