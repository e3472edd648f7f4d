"""The coordinator's loop: commits queued proposals, proves barriers, and follows the log."""

from __future__ import annotations

from typing import Final

import trio

from ..log.access import FIRST_RETRY_SECONDS
from ..log.metadata_log import LogUnavailable
from .barriers import Barriers
from .decider import Decider
from .liveness import Liveness
from .standstill import Standstill

WATCH_SECONDS: Final = 1.0


class Loop:
    """One task does it all, so the parts of the decider need no lock."""

    def __init__(
        self, decider: Decider, barriers: Barriers, liveness: Liveness, standstill: Standstill
    ) -> None:
        self._log = decider.log
        self._work = decider.work
        self._queue = decider.queue
        self._replica = decider.replica
        self._committer = decider.committer
        self._barriers = barriers
        self._liveness = liveness
        self._standstill = standstill
        self._is_serving = False
        self._round_done = trio.Event()

    async def run(self) -> None:
        """Serve; forever.  Raises: see Coordinator.run()."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_log)
            nursery.start_soon(self._standstill.watch)
            while True:
                await self._work.wait()
                self._is_serving = True
                while self._queue or self._barriers or self._work.log_grew:
                    await self._serve_once()
                self._is_serving = False
                round_done, self._round_done = self._round_done, trio.Event()
                round_done.set()

    async def _serve_once(self) -> None:
        """Commit the queue, or read the tail: either proves that the replica is at the log's end.

        If no caller needs that proof, one read is enough to follow the log, because the next wait()
        reports further entries.
        """
        barriers = self._barriers.take()
        grew, self._work.log_grew = self._work.log_grew, False
        is_proven = True
        if self._queue:
            if grew:  # an append now would get CONFLICT
                await self._replica.read_on()
            is_proven = await self._committer.commit()
        elif barriers:
            is_proven = await self._replica.read_tail()
        elif self._liveness.is_cut_off:
            await self._replica.read_tail()
        else:
            await self._replica.read_on()
        if barriers or not is_proven:
            self._barriers.settle(barriers, is_proven=is_proven)

    async def _watch_log(self) -> None:
        """Wake the loop for entries of other gateways.

        While the loop serves, the log may grow by this gateway's own appends, so the watch pauses
        until the round is done.
        """
        while True:
            position = self._replica.state.position
            try:
                await self._log.wait(position, WATCH_SECONDS)
            except LogUnavailable:
                await trio.sleep(FIRST_RETRY_SECONDS)
            if not self._is_serving:
                if self._replica.state.position != position:
                    continue
                self._work.look_again()
            await self._round_done.wait()
