"""Turns queued proposals into one entry of the metadata log: decide, append, fold, answer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import trio

from ..events.entries import encode_entry, entry_nonce
from ..events.metadata_versions import LEVELS
from ..log.metadata_log import AppendResult, LogCorrupt, LogEntry
from .drafts import Draft
from .queue import ProposalQueue
from .replica import Replica
from .waiting import Waiting

NONCE_BYTES: Final = 12


class Committer:
    """See the module's head.

    lost_conflicts: how many appends met an entry of another gateway, for metrics.
    """

    def __init__(
        self,
        replica: Replica,
        queue: ProposalQueue,
        *,
        rng: Random,
        wall_clock: Callable[[], float],
        max_entry_bytes: int,
    ) -> None:
        self.lost_conflicts = 0
        self._replica = replica
        self._queue = queue
        self._rng = rng
        self._wall_clock = wall_clock
        self._max_entry_bytes = max_entry_bytes
        self._on_race: list[Callable[[bool], None]] = []

    def watch_races(self, on_race: Callable[[bool], None]) -> None:
        """Call on_race(True) after each own entry is folded, on_race(False) after a lost race.

        After a lost race all proposals are in the queue again, to be decided again.
        """
        self._on_race.append(on_race)

    async def commit(self) -> bool:
        """Decide, append, fold and answer as much as one entry holds.

        False if the queue became empty without a proof that this replica is at the log's end.
        """
        while self._queue:
            draft = self._draft()
            if draft.events:
                done = await self._append(draft)
                self.lost_conflicts += not done
            else:
                done = not await self._replica.read_on()
            if done:
                for waiting, answer in draft.answers:
                    waiting.deliver(answer)
                return True
            self._queue.put_back(draft)
            self._note_race(is_won=False)
        return False

    def _draft(self) -> Draft[Waiting[Any]]:
        replica = self._replica
        draft: Draft[Waiting[Any]] = Draft(
            replica.state,
            replica.incarnation,
            int(self._wall_clock() * 1000),
            max_bytes=self._max_entry_bytes,
            may_write=not replica.has_left,
        )
        self._queue.fill(draft)
        return draft

    async def _append(self, draft: Draft[Waiting[Any]]) -> bool:
        """Append and fold the draft; False if another entry holds the position."""
        replica = self._replica
        position = replica.state.position + 1
        nonce = self._rng.randbytes(NONCE_BYTES)
        uptime_ms = int(trio.current_time() * 1000)
        payload = encode_entry(
            nonce,
            replica.incarnation,
            draft.clock_ms,
            draft.events,
            uptime_ms,
            # A gateway that appends at this position has folded all entries before it, so all
            # such gateways agree on the format.
            entry_format=LEVELS[replica.state.metadata_version].entry_format,
            position=position,
        )
        if await replica.access.append(position, payload) is AppendResult.CONFLICT:
            winners = await replica.access.read(position)
            if not winners:
                raise LogCorrupt(f"position {position} was taken, and then gone")
            # The position may hold this very entry: an earlier attempt whose answer was lost, here
            # or inside the log's own client.
            if not self._is_own(winners[0], nonce):
                replica.fold(winners)
                return False
            if winners[0].payload != payload:
                raise LogCorrupt(
                    f"the log holds other bytes at {position} than were appended there"
                )
            replica.fold(winners)  # entries after it may have ended this incarnation
        else:
            replica.fold([LogEntry(position, payload)])
        self._note_race(is_won=True)
        return True

    @staticmethod
    def _is_own(winner: LogEntry, nonce: bytes) -> bool:
        return entry_nonce(winner.payload) == nonce

    def _note_race(self, *, is_won: bool) -> None:
        for on_race in self._on_race:
            on_race(is_won)
