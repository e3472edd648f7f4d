"""ListTransactions: versions 0-2 (KIP-664, KIP-994, KIP-1152).

Tools ask every broker and add the answers up.  So each gateway lists its own share: the ids that
hash to it among all live gateways.  As in Kafka, the duration filter counts from the start of an
id's last transaction, even if that transaction has ended.  An id that never had a transaction
passes.  Differs from Kafka: a pattern whose matches would take too long is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final, NamedTuple

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.name_patterns import LONG_STEPS, BadPattern, NamePattern
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

from ...migration.forward.transactions import TransactionForwards
from ...network.call import Call
from ...network.turns import Turns
from ...work.client import Client, client_of
from ...work.fair_pool import FairPool, PoolBusy

# Kafka's names of states; no transaction here is ever in some of these states.
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
# This number of steps of pattern matching counts as one row of the answer.
_STEPS_A_ROW: Final = 10_000


class _Filters(NamedTuple):
    """The filters of a request, which may name 100,000 states and producer ids."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    longer_than_ms: int

    @classmethod
    def of(cls, request: ListTransactionsRequest) -> _Filters:
        """Return the filters of a request."""
        return cls(
            frozenset(request.state_filters),
            frozenset(request.producer_id_filters),
            request.duration_filter,
        )


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """See the module's head.

    now_ms: the wall clock; log time stands still while the log gets no entries.
    """

    coordinator: Coordinator
    pool: FairPool
    now_ms: Callable[[], int]
    forwards: TransactionForwards
    api_key: ClassVar[int] = ApiKey.LIST_TRANSACTIONS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: ListTransactionsRequest
    ) -> ListTransactionsResponse:
        """List this gateway's share of the ids that pass all filters."""
        try:
            return await self._listed(call, request)
        except BadPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        except PoolBusy:  # the client repeats the request
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def _listed(
        self, call: Call, request: ListTransactionsRequest
    ) -> ListTransactionsResponse:
        client, text = client_of(call), request.transactional_id_pattern
        pattern = await self.pool.run(client, lambda _: NamePattern(text), len(text or ""))
        await self.coordinator.catch_up()
        filters, turns = _Filters.of(request), Turns()
        found: list[TransactionState] = []
        for name in self.coordinator.state.transactions.names():
            row = self.coordinator.state.transactions.get(name)
            steps = 0
            if row is not None and self._is_wanted(row, filters) and self._is_own(name):
                steps = pattern.steps(name)
                if await self._matches(client, pattern, name):
                    found.append(TransactionState(name, row.producer_id, row.state.shown))
            await turns.count(1 + steps // _STEPS_A_ROW)
        for each in await self.forwards.listed(request, call.version):
            is_wanted = not filters.states or each.transaction_state in filters.states
            name = each.transactional_id
            if is_wanted and self._is_own(name) and await self._matches(client, pattern, name):
                found.append(each)
        unknown = [each for each in request.state_filters if each not in _STATES]
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)

    async def _matches(self, client: Client, pattern: NamePattern, name: str) -> bool:
        if pattern.steps(name) < LONG_STEPS:
            return pattern.matches(name)
        return await self.pool.run(client, lambda _: pattern.matches(name))

    def _is_wanted(self, row: TransactionalId, filters: _Filters) -> bool:
        if filters.states and row.state.shown not in filters.states:
            return False
        if filters.producer_ids and row.producer_id not in filters.producer_ids:
            return False
        if filters.longer_than_ms < 0:
            return True
        # As in Kafka, the duration of an ended transaction also counts from its start.
        age_ms = max(self.now_ms(), self.coordinator.state.log_time_ms) - row.started_ms
        return age_ms > filters.longer_than_ms

    def _is_own(self, name: str) -> bool:
        """Return whether the id hashes to this gateway."""
        brokers = {each.node_id: each for each in self.coordinator.state.gateways.brokers()}
        if not brokers:
            return True
        chosen = brokers[choose(name.encode(), list(brokers))]
        return chosen.incarnation == self.coordinator.incarnation
