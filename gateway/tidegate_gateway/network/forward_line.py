"""Keeps the order of the batches that a client connection forwards to other clusters.

Batches of a connection to one partition reach the source in the order in which they were sent.  So
all batches without an answer go over one connection to the source.  After a refused batch the next
one is not forwarded: the client sends all of them again on a new connection, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import trio

Place: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""


class ForwardLine:
    """See the module's head.

    lane: the number of the connection that this line uses at each broker of a source.  is_lost: the
    outcome of a batch is unknown, so nothing is forwarded any more.  refused: partitions with a
    refused batch that the client may send again.  turned_back: batches that must begin before all
    later ones; see requests/records/turned_back.py.
    """

    __slots__ = ("_changed", "_unanswered", "is_lost", "lane", "refused", "turned_back")

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self.is_lost = False
        self.refused: set[Place] = set()
        self.turned_back = 0
        self._unanswered: dict[Place, list[object]] = {}
        self._changed = trio.Event()

    def goes_elsewhere(self, places: Iterable[Place], upstream: object) -> bool:
        """Return whether batches to a partition lack an answer on another upstream connection."""
        found = (self._unanswered.get(each) for each in places)
        return any(each and each[-1] is not upstream for each in found)

    def begin(self, places: Sequence[Place], upstream: object) -> None:
        """Note that a batch of each partition is sent now."""
        for each in places:
            self._unanswered.setdefault(each, []).append(upstream)

    def end(self, places: Sequence[Place]) -> None:
        """Note that a batch of each partition has its answer, or will get none.

        A partition's batches without an answer are all on one connection, so any of its entries can
        be removed.
        """
        for each in places:
            upstreams = self._unanswered[each]
            upstreams.pop()
            if not upstreams:
                del self._unanswered[each]
        self._change()

    def lose(self) -> None:
        """Note that the outcome of a batch is unknown."""
        self.is_lost = True
        self._change()

    def began_again(self) -> None:
        """Note that a batch that was turned back has begun."""
        self.turned_back -= 1
        self._change()

    async def until_none_turned_back(self) -> None:
        """Wait until all batches that were turned back have begun."""
        while self.turned_back:
            await self.wait_for_change()

    async def wait_for_change(self) -> None:
        """Wait for any change of this line, such as an answer."""
        await self._changed.wait()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
