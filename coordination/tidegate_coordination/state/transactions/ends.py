"""How transactions ended, as far as this replica saw it: for metrics and log lines."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final, NamedTuple

from ...events import transactions as tev

KEPT_NAMES: Final = 100


class End(NamedTuple):
    """cause: tev.CAUSE_*."""

    committed: bool
    cause: int


class Ends:
    """counts: since the replica began to read the log.

    by_operators: the transactional ids whose transactions operators aborted last; the last one is
      the newest.
    """

    def __init__(self) -> None:
        self.counts: Final[Counter[End]] = Counter()
        self.by_operators: Final[deque[str]] = deque(maxlen=KEPT_NAMES)

    def note(self, event: tev.TransactionEnded, name: str) -> None:
        """Count the end of an open transaction."""
        self.counts[End(event.committed, event.cause)] += 1
        if event.cause == tev.CAUSE_OPERATOR:
            self.by_operators.append(name)
