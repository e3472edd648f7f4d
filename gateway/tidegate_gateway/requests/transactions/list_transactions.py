"""ListTransactions: versions 0-2 (KIP-664, KIP-994, KIP-1152).

Tools ask every broker and add the answers up.  So a gateway lists the ids that hash to it among all
live gateways.  As in Kafka, the filter of durations counts from the start of an id's last
transaction, also if that has ended; an id without one passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol

import re2

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.placement.rendezvous import choose
from tidegate_coordination.state.transactions.rows import TransactionalId
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import list_transactions as wire
from tidegate_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

from ...network.call import Call
from ...network.turns import Turns

# Kafka's names; some name states that no transaction has here.
_STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)
_RE2: Any = re2  # it has no types


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object: ...


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """See the module's head."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.LIST_TRANSACTIONS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: ListTransactionsRequest
    ) -> ListTransactionsResponse:
        """List this gateway's share of the ids that pass all filters."""
        matches = _matcher(request.transactional_id_pattern)
        if matches is None:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        await self.coordinator.catch_up()
        turns = Turns()
        found: list[TransactionState] = []
        for name in list(self.coordinator.state.transactions.names()):
            row = self.coordinator.state.transactions.get(name)
            is_wanted = row is not None and self._is_wanted(row, request) and matches(name)
            if row is not None and is_wanted and self._is_own(name):
                found.append(TransactionState(name, row.producer_id, row.state.shown))
            await turns.count()
        unknown = [each for each in request.state_filters if each not in _STATES]
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)

    def _is_wanted(self, row: TransactionalId, request: ListTransactionsRequest) -> bool:
        if request.state_filters and row.state.shown not in request.state_filters:
            return False
        if request.producer_id_filters and row.producer_id not in request.producer_id_filters:
            return False
        # As in Kafka, a transaction that has ended counts from its start, too.
        age_ms = self.coordinator.state.log_time_ms - row.started_ms
        return request.duration_filter < 0 or age_ms > request.duration_filter

    def _is_own(self, name: str) -> bool:
        """Return whether the id hashes to this gateway."""
        brokers = {each.node_id: each for each in self.coordinator.state.gateways.brokers()}
        if not brokers:
            return True
        chosen = brokers[choose(name.encode(), list(brokers))]
        return chosen.incarnation == self.coordinator.incarnation


def _matcher(pattern: str | None) -> Callable[[str], object] | None:
    """Return what a name must pass; None if the pattern is no regular expression."""
    if not pattern:
        return lambda _: True
    options = _RE2.Options()
    options.log_errors = False
    try:
        compiled: _Pattern = _RE2.compile(pattern, options)
    except _RE2.error:
        return None
    return compiled.fullmatch
