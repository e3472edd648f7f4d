"""The owners of quotas, as this gateway sees them.  Pure; times are in ms.

The owner of a quota divides it.  Gateways choose it by rendezvous hashing over the live gateways
that answer requests for shares.  A dead gateway stays in the cluster state until its lease expires,
so gateways leave out those that do not answer (peers/neighbours.py).  Even if one other gateway
does not reach it, a gateway may still serve.  So a gateway is left out only if more than half of
the live ones do not reach it.  Each request and answer names the gateways that its sender does not
reach.  A gateway that learns this about itself leaves itself out, too: otherwise it and the next
owner would both divide the quota.  A gateway that does not reach half of the live ones owns no
quota, since it may itself be cut off.
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
    """A live gateway.  can_own: it answers requests for shares."""

    incarnation: int
    node_id: int
    can_own: bool


class Membership:
    """See the module's head.

    live: incarnations.  suspects: live incarnations that do not answer this gateway.  changed_ms:
    since when this gateway owns its quotas.  epoch: rises by one with each change of owners, and by
    two if this gateway may have missed a change.
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
        """Note the live gateways.  missed: the gateways that do not answer."""
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
            # After a pause, others may meanwhile have owned the quotas that this gateway still
            # counts as its own.
            self.changed_ms = now_ms
            self.epoch += 2 if slept else 1
            self._chosen.clear()
        self._owners, self._may_own, self._looked_ms = owners, may_own, now_ms

    def note_vote(self, incarnation: int, missed: Collection[int], now_ms: int) -> None:
        """Record which gateways do not answer another gateway."""
        self._votes[incarnation] = frozenset(missed), now_ms

    def unheard(self, now_ms: int) -> frozenset[int]:
        """Return the other gateways without a vote in the last HEARD_MS."""
        heard = {each for each, (_, at_ms) in self._votes.items() if now_ms - at_ms < HEARD_MS}
        return self.live - heard - {self._me}

    def owner(self, key: bytes) -> int | None:
        """Return the incarnation that owns a quota; None if there is no owner."""
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
        """Return whether this gateway owns a quota."""
        return self._may_own and self.owner(key) == self._me

    def _is_gone(self, incarnation: int) -> bool:
        votes = sum(incarnation in missed for missed, _ in self._votes.values())
        return 2 * (votes + (incarnation in self.suspects)) > len(self.live)

    def _forget_votes(self, now_ms: int) -> None:
        for each, (_, at_ms) in list(self._votes.items()):
            if each not in self.live or now_ms - at_ms > VOTE_MS:
                del self._votes[each]
