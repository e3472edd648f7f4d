"""The shared knowledge of the clients of one transactional id, whatever happens to each of them.

Clients that share the id share the ledger.  It numbers their transactions, and knows which offsets
of the id's group may be committed now.
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

    key: the one whose offset the transactions commit.  are_twins: several clients share the id.

    Offsets rise in the order in which the log takes them: each start of a client fences the former
    one, and a client does one step after the other.  A later offset replaces all earlier ones,
    however late a transaction with an earlier offset ends.
    """

    transactional_id: str
    key: Key
    are_twins: bool = False
    _floor: int = NOTHING  # the highest offset that is certainly committed
    _maybe: set[int] = field(default_factory=set[int])
    _floating: set[int] = field(default_factory=set[int])  # they may be committed at any time
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _offsets: count[int] = field(default_factory=lambda: count(1))

    @property
    def group_id(self) -> str:
        """Return the group whose offsets the transactions commit."""
        return f"of {self.transactional_id}"

    @property
    def possible(self) -> set[int]:
        """Return the offsets one of which is committed."""
        return {self._floor, *self._maybe, *self._floating}

    def begin(self) -> str:
        """Begin a transaction; return its name in the history."""
        return f"{self.transactional_id}/{next(self._numbers)}"

    def next_offset(self) -> int:
        """Return an offset that was never staged."""
        return next(self._offsets)

    def tries(self, offset: int) -> None:
        """Note that an offset may be committed from now on: a client requests its commit."""
        if offset > self._floor:
            self._maybe.add(offset)

    def ended(self, offset: int, *, committed: bool) -> None:
        """Note the outcome of an offset.

        committed: this offset, or a later one, is certainly committed.  Else it never will be.
        """
        self._maybe.discard(offset)
        if committed and offset > self._floor:
            self._floor = offset
            self._maybe = {each for each in self._maybe if each > offset}

    def lost_sight(self, offset: int) -> None:
        """Note a plain commit without an answer: the network may deliver it at any time."""
        self._floating.add(offset)
