"""Barriers: callers that wait until this replica has reached the log's end."""

from __future__ import annotations

from contextlib import suppress

import trio

from ..rules.gateways import Renew
from .decider import Decider
from .liveness import Patience
from .route import Route
from .waiting import CoordinatorUnavailable, Waiting


class Barriers:
    """Callers that wait for a read of the log's end, and are not yet part of a round."""

    def __init__(self, decider: Decider, route: Route, patience: Patience) -> None:
        self._work = decider.work
        self._replica = decider.replica
        self._route = route
        self._patience = patience
        self._waiting: list[trio.Event] = []

    def __len__(self) -> int:
        return len(self._waiting)

    async def catch_up(self) -> None:
        """See Coordinator."""
        reached = trio.Event()
        self._waiting.append(reached)
        self._work.event.set()

        def withdraw() -> None:
            with suppress(ValueError):
                self._waiting.remove(reached)

        await self._patience.wait(reached, withdraw)
        if not reached.is_set():
            raise CoordinatorUnavailable("the metadata log could not be read in time")

    def take(self) -> list[trio.Event]:
        """Return the barriers that wait; a proof that begins now holds for them."""
        taken, self._waiting = self._waiting, []
        return taken

    def settle(self, taken: list[trio.Event], *, is_proven: bool) -> None:
        """Release barriers if the replica was at the log's end since take(); else prove that later.

        If the log grows faster than it can be read, an entry of this gateway is the proof: a
        replica that has folded this entry has folded all entries before it.
        """
        if is_proven:
            _release(taken)
        elif taken and self._replica.incarnation and not self._replica.has_left:
            self._route.take(
                Waiting(Renew(), lambda _: _release(taken), lambda _: self._put_back(taken))
            )
        else:
            self._put_back(taken)

    def _put_back(self, taken: list[trio.Event]) -> None:
        self._waiting[:0] = taken
        self._work.event.set()


def _release(barriers: list[trio.Event]) -> None:
    for each in barriers:
        each.set()
