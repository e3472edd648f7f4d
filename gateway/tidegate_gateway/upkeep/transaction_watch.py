"""Counts how transactions end, and logs at level INFO which ones operators aborted.

`tidegate transaction abort` writes to the metadata log itself, without a gateway.  So each gateway
logs the aborts that it reads in the log.
"""

from __future__ import annotations

from collections import Counter

import structlog

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.transactions import CAUSE_OPERATOR
from tidegate_coordination.state.changes import TRANSACTIONS
from tidegate_coordination.state.transactions.ends import End

_log = structlog.get_logger("tidegate.transactions")

_BY_OPERATOR = End(False, CAUSE_OPERATOR)


class TransactionWatch:
    """Looks at the ends of transactions from the gateway's start on."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._ends = coordinator.state.transactions.ends
        self._before = Counter(self._ends.counts)
        self._logged = self._ends.counts[_BY_OPERATOR]
        coordinator.listen(self._on_change, TRANSACTIONS)

    def count(self, end: End) -> int:
        """Return how many transactions ended in this way since the gateway's start."""
        return self._ends.counts[end] - self._before[end]

    def _on_change(self, touched: set[int]) -> None:
        """See Coordinator.listen()."""
        aborted = self._ends.counts[_BY_OPERATOR]
        if aborted == self._logged:
            return
        new = aborted - self._logged
        self._logged = aborted
        for name in list(self._ends.by_operators)[-new:]:
            _log.info("an operator aborted a transaction", transactional_id=name)
