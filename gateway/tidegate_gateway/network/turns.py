"""Lets others run while a long answer is made: a few bytes a row may ask for 100,000s of rows."""

from __future__ import annotations

from typing import Final

import trio

# A row costs from one to some twenty microseconds.
ROWS_AT_ONCE: Final = 100
# What it costs to place a partition (placement.py), in rows.  When a gateway comes or goes, all are
# placed anew.
PLACED_PARTITION: Final = 4


class Turns:
    """Counts the rows of one answer."""

    def __init__(self) -> None:
        self._left = ROWS_AT_ONCE

    async def count(self, rows: int = 1) -> bool:
        """Count rows; True if others ran meanwhile, so that what was read of the state is old."""
        self._left -= rows
        if self._left > 0:
            return False
        self._left = ROWS_AT_ONCE
        await trio.lowlevel.checkpoint()
        return True
