"""Transactional ids at the source of a link (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import BrokerUnreachable, ClassicError, Refused
from tidegate_coordination.rules.migration.units import IdToMove
from tidegate_coordination.state.migration.source_groups import is_named
from tidegate_coordination.state.transactions.rows import TransactionState as OwnState
from tidegate_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tidegate_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_STATES: Final = {each.shown: each for each in OwnState}
_AT_REST: Final = frozenset(_STATES) - {OwnState.ONGOING.shown}
OPEN_TEXT: Final = "transactional id {} has an open transaction"


class SourceId(NamedTuple):
    """A transactional id as its coordinator lists it."""

    name: str
    producer_id: int
    state: str
    node_id: int

    @property
    def is_at_rest(self) -> bool:
        """Return whether the id has no transaction that is open or being ended."""
        return self.state in _AT_REST


async def listed_ids(
    source: ClassicCluster, names: Iterable[str], takes: Callable[[str], bool]
) -> list[SourceId]:
    """Return the transactional ids that match the names of a link, sorted.

    takes: returns whether gateways forward an id.  An id that this cluster had before is not
    forwarded.

    Raises:
      ClassicError: a broker does not say.
    """
    names, found, errors = tuple(names), dict[str, SourceId](), list[ClassicError]()
    await source.refresh([])

    async def ask(node_id: int) -> None:
        try:
            for each in await _listed_at(source, node_id):
                name = each.transactional_id
                if is_named(names, name) and takes(name):
                    found[name] = SourceId(name, each.producer_id, each.transaction_state, node_id)
        except ClassicError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        for each in list(source.metadata.brokers):
            nursery.start_soon(ask, each)
    if errors:
        raise errors[0]
    return [each for _, each in sorted(found.items())]


async def _listed_at(source: ClassicCluster, node_id: int) -> list[TransactionState]:
    answer: ListTransactionsResponse = await source.call_broker(
        node_id, "ListTransactions", ListTransactionsRequest(), max_version=0
    )
    if answer.error_code:  # such as COORDINATOR_LOAD_IN_PROGRESS
        raise Refused("the list of transactional ids", answer.error_code)
    return answer.transaction_states


async def ids_to_move(
    source: ClassicCluster, names: Iterable[str], takes: Callable[[str], bool]
) -> list[IdToMove] | str:
    """Return the ids that match a link's names, or why they cannot move now, for a person.

    Raises:
      ClassicError: the source does not say.
    """
    by_node: defaultdict[int, list[str]] = defaultdict(list)
    for each in await listed_ids(source, names, takes):
        if not each.is_at_rest:
            return OPEN_TEXT.format(each.name)
        by_node[each.node_id].append(each.name)
    found: list[IdToMove] = []
    for node_id, theirs in by_node.items():
        answer: DescribeTransactionsResponse = await source.call_broker(
            node_id, "DescribeTransactions", DescribeTransactionsRequest(theirs)
        )
        for row in answer.transaction_states:
            name = row.transactional_id
            if row.error_code:
                raise Refused(f"transactional id {name}", row.error_code)
            if row.transaction_state not in _AT_REST:
                return OPEN_TEXT.format(name)
            producer = row.producer_id, row.producer_epoch
            state = int(_STATES[row.transaction_state])
            found.append(IdToMove(name, *producer, row.transaction_timeout_ms, state))
        if len(answer.transaction_states) != len(theirs):
            raise BrokerUnreachable(f"broker {node_id} did not describe all transactional ids.")
    return sorted(found, key=lambda each: each.transactional_id)
