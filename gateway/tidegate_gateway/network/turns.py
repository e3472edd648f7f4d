"""Lets other tasks run while a handler makes a long answer.

At a few bytes a row, one request may ask for hundreds of thousands of rows.

So a long answer is not a snapshot: each row shows the state at its turn.  A row that is removed
before its turn is left out.  A row that is added after the first turn is missing.  A Kafka broker
that reads its tables while they change gives such answers, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Final, TypeVar

import trio

Key = TypeVar("Key", str, int)

# A row costs from one to some twenty microseconds.
ROWS_AT_ONCE: Final = 100
# The cost of placing a partition (placement.py), in rows.  When a gateway joins or leaves, all
# partitions are placed again.
PLACED_PARTITION: Final = 4
SORTED_AT_ONCE: Final = 1_000


class Turns:
    """Counts the rows of one answer."""

    def __init__(self) -> None:
        self._left = ROWS_AT_ONCE

    async def count(self, rows: int = 1) -> bool:
        """Count rows; return whether other tasks ran, so that the caller's view may be stale."""
        self._left -= rows
        if self._left > 0:
            return False
        self._left = ROWS_AT_ONCE
        await trio.lowlevel.checkpoint()
        return True


async def in_order(copied: Iterable[Key], turns: Turns) -> Iterator[Key]:
    """Return keys in order, sorted in turns; `copied` must not change meanwhile."""
    left = iter(copied)
    runs: list[list[Key]] = []
    while run := sorted(islice(left, SORTED_AT_ONCE)):
        runs.append(run)
        await turns.count(len(run) // 10)
    return merge(*runs)
