"""Which gateway divides which quota, as this gateway sees it.  Pure; times are in ms.

The owner of a quota is chosen by rendezvous hashing over the live gateways that answer questions
about shares.  A gateway that died lives on in the cluster's state until its lease ends, so gateways
leave out the ones that do not answer (peers/neighbours.py).  A gateway that one other does not
reach may still serve.  So a gateway is left out only if more than half of the live ones do not
reach it; each question and answer names the gateways that its sender does not reach.  A gateway
that hears this of itself leaves itself out, too: it may still serve, so the next owner and itself
would each divide the quota.  A gateway that misses half of the others owns nothing: it may be the
one that is cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from tidegate_coordination.placement.rendezvous import choose

from .held_share import HOLD_MS

VOTE_MS: Final = 1_500
"""A gateway's list of the ones that it does not reach counts for so long."""


HEARD_MS: Final = 1_000
"""After this time a gateway that divides quotas asks the gateways that are silent."""
MAX_CHOSEN: Final = 50_000
"""For so many quotas, the owner need not be chosen again."""


class Member(NamedTuple):
    """A live gateway.  can_own: it answers others' questions about shares."""

    incarnation: int
    node_id: int
    can_own: bool


class Membership:
    """See the module's head.

    live: incarnations.  suspects: those of them that do not answer this gateway.  changed_ms: since
    when this gateway owns what it owns.  epoch: rises by one with each change of owners, and by
    more if this gateway may have overlooked some.
    """

    def __init__(self, me: int) -> None:
        self.live: frozenset[int] = frozenset({me})
        self.suspects: frozenset[int] = frozenset()
        self.changed_ms = 0
        self.epoch = 0
        self._me = me
        self._owners: dict[int, int] = {}
        self._chosen: dict[bytes, int] = {}
        self._may_own = False
        self._votes: dict[int, tuple[frozenset[int], int]] = {}
        self._looked_ms: int | None = None

    def look(self, members: Iterable[Member], missed: Collection[int], now_ms: int) -> None:
        """Take in the live gateways.  missed: the gateways that do not answer."""
        members = list(members)
        self.live = frozenset(each.incarnation for each in members) | {self._me}
        self.suspects = (self.live & frozenset(missed)) - {self._me}
        self._forget_votes(now_ms)
        gone = {each for each in self.live if self._is_gone(each)}
        owners = {
            each.node_id: each.incarnation
            for each in members
            if each.can_own and each.incarnation not in gone
        }
        may_own = 2 * len(self.live - self.suspects) > len(self.live)
        slept = self._looked_ms is None or now_ms - self._looked_ms > HOLD_MS
        has_changed = owners != self._owners or may_own != self._may_own
        if has_changed or slept:
            # After a sleep, others may have owned what this gateway believes to own.
            self.changed_ms = now_ms
            self.epoch += 2 if slept else 1
            self._chosen.clear()
        self._owners, self._may_own, self._looked_ms = owners, may_own, now_ms

    def note_vote(self, incarnation: int, missed: Collection[int], now_ms: int) -> None:
        """Record which gateways do not answer another gateway."""
        self._votes[incarnation] = frozenset(missed), now_ms

    def unheard(self, now_ms: int) -> frozenset[int]:
        """Return the other gateways that have not said for HEARD_MS whom they miss."""
        heard = {each for each, (_, at_ms) in self._votes.items() if now_ms - at_ms < HEARD_MS}
        return self.live - heard - {self._me}

    def owner(self, key: bytes) -> int | None:
        """Return the incarnation that divides a quota; None if none does."""
        if not self._owners:
            return None
        found = self._chosen.get(key)
        if found is None:
            found = self._owners[choose(key, list(self._owners))]
            if len(self._chosen) >= MAX_CHOSEN:
                self._chosen.clear()
            self._chosen[key] = found
        return found

    def owns(self, key: bytes) -> bool:
        """Return whether this gateway divides a quota."""
        return self._may_own and self.owner(key) == self._me

    def _is_gone(self, incarnation: int) -> bool:
        votes = sum(incarnation in missed for missed, _ in self._votes.values())
        return 2 * (votes + (incarnation in self.suspects)) > len(self.live)

    def _forget_votes(self, now_ms: int) -> None:
        for each, (_, at_ms) in list(self._votes.items()):
            if each not in self.live or now_ms - at_ms > VOTE_MS:
                del self._votes[each]
