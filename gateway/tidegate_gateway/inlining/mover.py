"""Moves inlined objects from the metadata log to the store; see decision 49."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.records.wal import AbandonWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_storage.objects.wal import WalIdentity

from ..produce.wal_commits import OnStored
from ..produce.wal_puts import WalPuts
from ..upkeep.upkeep import Upkeep
from .moving import Move, due, due_of_ended, joined, live_runs

_log = structlog.get_logger("tidegate.wal")

LOOK_SECONDS: Final = 1.0


class InlineMover:
    """See the module's head.

    Args:
      next_identity: takes the next WAL id.  key_of: its object key.
      on_stored: called with an object that is stored, before its commit.

    moved_bytes: of the stored objects, for metrics.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        puts: WalPuts,
        upkeep: Upkeep,
        *,
        next_identity: Callable[[], WalIdentity],
        key_of: Callable[[WalIdentity], str],
        on_stored: OnStored,
        put_seconds: float,
    ) -> None:
        self._coordinator = coordinator
        self._puts = puts
        self._upkeep = upkeep
        self._next_identity = next_identity
        self._key_of = key_of
        self._on_stored = on_stored
        self._put_seconds = put_seconds
        self.moved_bytes = 0

    async def run(self) -> None:
        """Move this gateway's objects that are due, once a second; forever."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            await self._upkeep.attempt("move small writes to the store", self.move)

    async def move(self) -> None:
        """Move this gateway's objects that are due.

        Raises:
          CoordinatorUnavailable, ProposalFailed: they may not be moved; try again.
        """
        state = self._coordinator.state
        while numbers := due(state, self._coordinator.incarnation):
            if not await self._move(numbers):
                return

    async def move_ended(self) -> None:
        """Move the objects of gateways that have ended.

        Raises:
          CoordinatorUnavailable, ProposalFailed: as move().
        """
        while numbers := due_of_ended(self._coordinator.state):
            if not await self._move(numbers):
                return

    async def _move(self, numbers: Sequence[int]) -> bool:
        """Store the batches of some objects; return whether any has moved."""
        runs = list(live_runs(self._coordinator.state, numbers))
        return bool(runs) and await self._store(joined(runs, self._next_identity()))

    async def _store(self, move: Move) -> bool:
        """Store an object and commit it; return whether its runs took over any others."""
        identity = move.wal.identity
        name, key = WalName(identity.incarnation, identity.counter), self._key_of(identity)
        with trio.move_on_after(self._put_seconds) as putting:
            await self._puts.put(key, move.wal.body)
        if putting.cancelled_caught:
            _log.error("gave up storing an object of small writes", key=key)
            await self._coordinator.propose(AbandonWal(name))
            return False
        self._on_stored(name, key, move.wal.body)
        count = await self._coordinator.propose(move.proposal())
        self.moved_bytes += len(move.wal.body) if count else 0
        return count > 0
