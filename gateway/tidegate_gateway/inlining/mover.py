"""Moves inlined objects from the metadata log to the store; see decision 49."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.records.wal import AbandonWal, CommitWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_storage.objects.wal import WalIdentity
from tidegate_storage.stores.object_store import ObjectExists

from ..cost.ledger import paid_by, weights_of
from ..produce.wal_commits import OnStored
from ..produce.wal_puts import WalPuts
from ..upkeep.key_taken import key_taken
from ..upkeep.upkeep import Upkeep
from .moving import BYTES_PER_RUN, Move, Waits, due, due_of_others, first_of, joined, live_runs

_log = structlog.get_logger("tidegate.wal")

LOOK_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 5.0
"""After a failure; then the gateway tries the same objects again."""
FINISH_SECONDS: Final = 5.0
_WHAT: Final = "move small writes to the store"


class InlineMover:
    """See the module's head.

    Args:
      next_identity: takes the next WAL id.  key_of: its object key.
      on_stored: called with an object that is stored, before its commit.
      on_batches: called with the number of its batches.

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
        on_batches: Callable[[int], None],
        put_seconds: float,
    ) -> None:
        self._coordinator = coordinator
        self._puts = puts
        self._upkeep = upkeep
        self._next_identity = next_identity
        self._key_of = key_of
        self._on_stored = on_stored
        self._on_batches = on_batches
        self._put_seconds = put_seconds
        self.moved_bytes = 0
        self._waits = Waits()
        self._not_before: dict[int, float] = {}  # by author
        self._turn = trio.Lock()
        self._stored: Move | None = None

    async def run(self) -> None:
        """Move the objects that are due, once a second; forever.

        Raises:
          KeyTaken: another gateway's object has the key of one of this gateway's objects.
        """
        while True:
            await trio.sleep(LOOK_SECONDS)
            await self._upkeep.attempt(_WHAT, self.move)

    async def move(self) -> None:
        """Move the objects that are due: this gateway's, and those that others do not move.

        Raises:
          CoordinatorUnavailable, ProposalFailed: they may not be moved; try again.
          KeyTaken: as run().
        """
        async with self._turn:
            while await self._move_some():
                pass

    async def finish(self) -> None:
        """Move all objects of this gateway, which is about to end, if that does not take long.

        Raises:
          KeyTaken: as run().
        """
        with trio.move_on_after(FINISH_SECONDS):
            await self._upkeep.attempt(_WHAT, self._move_all)

    async def _move_all(self) -> None:
        coordinator = self._coordinator
        async with self._turn:
            while numbers := first_of(coordinator.state, coordinator.incarnation)[0]:
                if not await self._move(numbers):
                    return

    async def _move_some(self) -> bool:
        """Move objects of one gateway; return whether there may be more."""
        coordinator, now = self._coordinator, trio.current_time()
        state, me = coordinator.state, coordinator.incarnation
        waits = self._waits.look(state.objects, now)
        found = [(me, due(state, me, waits)), *due_of_others(state, me, waits)]
        for author, numbers in found:
            if not numbers or now < self._not_before.get(author, now):
                continue
            # If it fails, the objects of other gateways are not kept waiting.
            self._not_before[author] = now + PAUSE_SECONDS
            if await self._move(numbers):
                del self._not_before[author]
                return True
        return False

    async def _move(self, numbers: Sequence[int]) -> bool:
        """Store the batches of some objects, and commit them; return whether any has moved."""
        if self._stored is None:
            self._stored = await self._store(numbers)
        return self._stored is not None and await self._commit(self._stored)

    async def _store(self, numbers: Sequence[int]) -> Move | None:
        """Store the batches of some objects in one; None if that was not possible."""
        most = self._coordinator.max_entry_bytes // 4 // BYTES_PER_RUN
        runs = list(islice(live_runs(self._coordinator.state, numbers), most))
        if not runs:
            _log.error(
                "small writes in the metadata log are damaged in memory: restart this gateway",
                objects=len(numbers),
            )
            return None
        move = joined(runs, self._next_identity())
        key = self._key_of(move.wal.identity)
        topics = weights_of([(each.topic_id, each.size_bytes) for each in move.wal.slices])
        try:
            with paid_by(topics, {}), trio.move_on_after(self._put_seconds) as putting:
                await self._puts.put(key, move.wal.body)
        except ObjectExists as error:
            raise key_taken(key) from error
        if putting.cancelled_caught:
            _log.error("gave up storing an object of small writes", key=key)
            await self._coordinator.propose(AbandonWal(_name(move)))
            return None
        self._on_stored(_name(move), key, move.wal.body)
        self._on_batches(sum(len(each.crcs) for each in runs))
        return move

    async def _commit(self, move: Move) -> bool:
        """Commit a stored object; return whether its runs took over any others.

        If the outcome is unknown, the next round proposes the same object again.
        """
        try:
            count = await self._coordinator.propose(move.proposal())
        except ProposalFailed:
            # An empty object is dead, so that it will be deleted.
            self._stored = None
            await self._coordinator.propose(CommitWal(_name(move), len(move.wal.body), []))
            raise
        self._stored = None
        self.moved_bytes += len(move.wal.body) if count else 0
        return count > 0


def _name(move: Move) -> WalName:
    return WalName(move.wal.identity.incarnation, move.wal.identity.counter)
