"""The transactional ids in the order of their creation, in blocks.

Snapshots, and the search for unused ids, go through a million names in pieces.  A list of all would
take 10 ms to copy, and a set ten times as much.  A block changes only by growing.  If a name is
removed, the table replaces its block.  So a reader that has the blocks sees the names of that
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

BLOCK: Final = 1 << 10
"""Names in a block.  One name that is left keeps its block, of 8 KiB."""


class NameOrder:
    """See the module's head.  Numbers are this replica's own: no snapshot has them."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[str | None]] = {}
        self._oldest: dict[int, int] = {}  # no name of the block was used before this log time
        self._next = 0

    @property
    def end(self) -> int:
        """Return the number of the next name."""
        return self._next

    def add(self, name: str, used_ms: int) -> int:
        """Add a new name; return its number.  used_ms: log time."""
        number = self._next
        self._next += 1
        at = number // BLOCK
        self._blocks.setdefault(at, []).append(name)
        self._oldest[at] = min(used_ms, self._oldest.get(at, used_ms))
        return number

    def remove(self, number: int) -> None:
        """Remove a name."""
        at, place = divmod(number, BLOCK)
        block = self._blocks[at] = self._blocks[at].copy()
        block[place] = None
        if len(block) == BLOCK and not any(block):
            del self._blocks[at], self._oldest[at]

    def names(self) -> Iterator[str]:
        """Yield the present names, even if names are added or removed during the iteration."""
        blocks = list(self._blocks.values())
        if blocks:
            blocks[-1] = blocks[-1].copy()
        return (name for block in blocks for name in block if name is not None)

    def idle(self, before_ms: int, used_ms: Callable[[str], int]) -> Iterator[str]:
        """Yield the names that were last used before a log time.

        used_ms: when a name was last used; it never falls.  Nothing may change during the
        iteration.
        """
        for at, block in self._blocks.items():
            if self._oldest[at] < before_ms:
                used = [(used_ms(name), name) for name in block if name is not None]
                self._oldest[at] = min((each for each, _ in used), default=before_ms)
                yield from (name for each, name in used if each < before_ms)
