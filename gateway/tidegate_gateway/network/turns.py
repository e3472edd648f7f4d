"""Lets other tasks run while a handler makes a long answer.

At a few bytes a row, one request may ask for hundreds of thousands of rows.
"""

from __future__ import annotations

from typing import Final

import trio

# A row costs from one to some twenty microseconds.
ROWS_AT_ONCE: Final = 100
# The cost of placing a partition (placement.py), in rows.  When a gateway joins or leaves, all are
# placed again.
PLACED_PARTITION: Final = 4


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
