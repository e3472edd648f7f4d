"""Finds gateways that alone do not reach the store, so that others serve their clients.  Pure.

The metadata log holds the marks, so all gateways see the same ones.  A gateway is marked while its
newest settled WAL id is an abandoned one; ids of objects that travel in the log do not count.  If a
gateway cannot reach the store, it marks itself: it abandons an id that it never used.  Its next
commit of a stored object removes the mark.

A mark alone proves nothing, since the store may be unavailable to all gateways.  Clients avoid a
marked gateway only if other gateways commit after the mark, and again at least PROVEN_SECONDS
later.  While a marked gateway is not yet avoided, any other gateway that has nothing to commit
commits an empty object (store_proof.py), to prove that it reaches the store.  A commit proves that
PUTs succeed.  To make it prove reads, too, gateways hold commits until a read succeeds
(store_watch.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate_coordination.state.cluster import ClusterState

PROVEN_SECONDS: Final = 1.0
"""Longer than a gateway waits between two PUTs, so that all are back before one is avoided."""
PROOF_PAUSE_SECONDS: Final = 0.5


class Sign(NamedTuple):
    """A gateway that takes new work, as the state shows it.

    settled: the first WAL counter above the settled counters.  is_marked: see the module's
    docstring.
    """

    incarnation: int
    settled: int
    is_marked: bool


def signs_of(state: ClusterState) -> list[Sign]:
    """Return the signs of all gateways that take new work."""
    objects = state.objects
    return [
        Sign(
            each.incarnation,
            objects.next_proof(each.incarnation),
            objects.is_newest_abandoned(each.incarnation),
        )
        for each in state.gateways.serving()
    ]


@dataclass(slots=True)
class _Mark:
    """A marked gateway.

    proven_since: when another gateway's commit after the mark was first seen.
    """

    proven_since: float | None = None
    is_avoided: bool = False

    def prove(self, now: float) -> None:
        """Note that another gateway committed after the mark."""
        if self.proven_since is None:
            self.proven_since = now
        elif now - self.proven_since >= PROVEN_SECONDS:
            self.is_avoided = True


class Marks:
    """See the module's head.  Times are seconds on Trio's clock.

    avoided: the incarnations to which clients should not be sent.
    """

    def __init__(self) -> None:
        self.avoided: frozenset[int] = frozenset()
        self._settled: dict[int, int] = {}
        self._committed_at: dict[int, float] = {}
        self._marks: dict[int, _Mark] = {}

    def look(self, signs: Sequence[Sign], now: float) -> None:
        """Take over the present marks and commits; call this several times a second."""
        marked = {each.incarnation for each in signs if each.is_marked}
        self._marks = {each: self._marks.get(each) or _Mark() for each in marked}
        if self._note_commits(signs, now):
            for mark in self._marks.values():
                mark.prove(now)
        has_others = len(marked) < len(signs)
        avoided = (each for each, mark in self._marks.items() if mark.is_avoided and has_others)
        self.avoided = frozenset(avoided)

    def _note_commits(self, signs: Sequence[Sign], now: float) -> bool:
        """Return whether a gateway without a mark has committed since the last look."""
        before, self._settled = self._settled, {each.incarnation: each.settled for each in signs}
        committed = {
            each.incarnation
            for each in signs
            if not each.is_marked and before.get(each.incarnation, each.settled) != each.settled
        }
        kept = {each: at for each, at in self._committed_at.items() if each in self._settled}
        self._committed_at = kept | dict.fromkeys(committed, now)
        return bool(committed)

    def is_marked(self, incarnation: int) -> bool:
        """Return whether a gateway is marked."""
        return incarnation in self._marks

    def has_well_others(self, me: int) -> bool:
        """Return whether another gateway takes new work and is not marked."""
        return any(each != me and each not in self._marks for each in self._settled)

    def asks(self, me: int) -> bool:
        """Return whether another gateway is marked, and not avoided yet."""
        return any(each != me and not mark.is_avoided for each, mark in self._marks.items())

    def wants_proof(self, me: int, now: float) -> bool:
        """Return whether a gateway without a mark should prove that it reaches the store."""
        if me in self._marks or me not in self._settled:
            return False
        is_late = now - self._committed_at.get(me, -PROOF_PAUSE_SECONDS) >= PROOF_PAUSE_SECONDS
        return is_late and any(not mark.is_avoided for mark in self._marks.values())
