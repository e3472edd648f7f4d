"""This gateway's producer ids.

Ids come in blocks from the coordinator and are unique forever.  Once the gateway stops, or at most
an hour after the block was reserved, the unused ids of a block are never used.  The reason is that
the log knows the age of a block, not of its ids, and a new id must not count as old.  The state of
an old id may have expired; then a gateway accepts any first batch of the id, and would not notice a
gap before it.
"""

from __future__ import annotations

from math import inf
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds

BLOCK: Final = 1000
MAX_HOLD_SECONDS: Final = 3600.0
# The share of producer.id.expiration.ms for which a block is used.  Each id stays young for at
# least the rest of that time.
_HOLD_SHARE: Final = 1 / 24


class ProducerIds:
    """This gateway's block of producer ids.  hold_seconds: how long a block is used."""

    def __init__(self, coordinator: Coordinator, hold_seconds: float = MAX_HOLD_SECONDS) -> None:
        self._coordinator = coordinator
        self._hold_seconds = hold_seconds
        self._left = range(0)
        self._good_until = -inf
        self._reserving = trio.Lock()

    async def take(self) -> int:
        """Return a producer id that was never used.

        Raises:
          CoordinatorUnavailable: no block could be reserved.
          ProposalFailed: no id is left.
        """
        if not self._has_one:
            async with self._reserving:
                if not self._has_one:
                    await self._reserve()
                return self._give()  # even if the reservation took longer than a block is used
        return self._give()

    @property
    def _has_one(self) -> bool:
        return bool(self._left) and trio.current_time() < self._good_until

    async def _reserve(self) -> None:
        begun = trio.current_time()
        first = await self._coordinator.propose(ReserveProducerIds(BLOCK))
        self._left, self._good_until = range(first, first + BLOCK), begun + self._hold_seconds

    def _give(self) -> int:
        given, self._left = self._left[0], self._left[1:]
        return given


def hold_seconds(expiration_ms: int) -> float:
    """Return how long ids of a block may be given out, if states expire after expiration_ms."""
    return min(MAX_HOLD_SECONDS, expiration_ms / 1000 * _HOLD_SHARE)
