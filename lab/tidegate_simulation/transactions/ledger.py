"""What the clients of one transactional id know of it together, whatever happens to each of them.

Twins share it.  It numbers their transactions, and keeps which offset of the id's group may be
committed now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Final

from ..clients.workload import Key

NOTHING: Final = -1


@dataclass(slots=True)
class Ledger:
    """See the module's head.

    key: whose offset the transactions commit.
    possible: offsets of which one is committed; several while the end of a transaction is unknown.
      Offsets are staged in their order, as each life of a client fences the one before.
    """

    transactional_id: str
    key: Key
    possible: set[int] = field(default_factory=lambda: {NOTHING})
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _offsets: count[int] = field(default_factory=lambda: count(1))

    @property
    def group_id(self) -> str:
        """Return the group whose offsets the transactions commit."""
        return f"of {self.transactional_id}"

    def begin(self) -> str:
        """Begin a transaction; return its name in the history."""
        return f"{self.transactional_id}/{next(self._numbers)}"

    def next_offset(self) -> int:
        """Return an offset that was never staged."""
        return next(self._offsets)

    def tries(self, offset: int) -> None:
        """Note that a commit of a staged offset is asked for."""
        if offset != NOTHING:
            self.possible.add(offset)

    def ended(self, offset: int, *, committed: bool) -> None:
        """Note the end of a transaction that had staged an offset."""
        if offset == NOTHING:
            return
        if committed:
            self.possible = {each for each in self.possible if each >= offset}
        else:
            self.possible.discard(offset)
