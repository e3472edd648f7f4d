"""Forwards requests of transactional ids to the source of a link, until the ids move here.

While an id has a fence, a transaction that is open at the source continues there to its end, and no
new transaction begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.groups.group_offsets import ID_KEY
from tidegate_coordination.state.migration.source_groups import GroupFence, is_named
from tidegate_coordination.state.transactions.rows import TransactionState as OwnState
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tidegate_protocol.messages.describe_transactions import (
    TransactionState as DescribedTransaction,
)
from tidegate_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

from ...network.call import Call
from .coordinators import (
    ANY_FENCE,
    FENCE_SECONDS,
    NO_FENCE,
    NotForwarded,
    SourceForwards,
    SourceRequest,
)

DESCRIBE: Final = "DescribeTransactions"
DURATIONS_SINCE: Final = 1
_UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
AGAIN_SECONDS: Final = 0.2


class TransactionForwards(SourceForwards):
    """The forwarded transactional ids of one gateway."""

    key_type: ClassVar[int] = ID_KEY
    refused: ClassVar[ErrorCode] = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    def link_of(self, key: str) -> str:
        """See SourceForwards."""
        return self._state.link_groups.link_of_id(key)

    def fence_of(self, key: str) -> GroupFence | None:
        """See SourceForwards."""
        return self._state.link_groups.fence_of_id(key)

    def _is_in(self, fence: GroupFence, key: str) -> bool:
        return is_named(fence.ids, key)

    async def admitted(self, transactional_id: str) -> int:
        """Wait until a request that may begin a transaction may begin.

        Return the number of the fence that the request may pass, since the id's transaction is open
        at the source.  Return NO_FENCE if there is no fence any more, or after a timeout; then the
        present state decides about the request.
        """
        with trio.move_on_after(FENCE_SECONDS):
            while (fence := self.fence_of(transactional_id)) is not None:
                if await self._is_open(transactional_id):
                    return fence.number
                with trio.move_on_after(AGAIN_SECONDS):
                    await self._changed.wait()
        return NO_FENCE

    async def listed(
        self, request: ListTransactionsRequest, max_version: int
    ) -> list[TransactionState]:
        """Return the forwarded ids that sources list, without sources that are down."""
        found: dict[str, TransactionState] = {}

        def make(version: int) -> ListTransactionsRequest:
            wanted = ListTransactionsRequest(request.state_filters, request.producer_id_filters)
            if version >= DURATIONS_SINCE:
                wanted.duration_filter = request.duration_filter
            return wanted

        async def ask(source: ClassicCluster, node_id: int) -> None:
            answer: ListTransactionsResponse = await source.call_broker(
                node_id, "ListTransactions", make, max_version=max_version
            )
            found.update({each.transactional_id: each for each in answer.transaction_states})

        if self._state.links.with_ids:
            await self.ask_all_brokers(ask)
        return [each for each in found.values() if self.takes(each.transactional_id)]

    async def described(
        self, call: Call, transactional_ids: Sequence[str]
    ) -> dict[str, DescribedTransaction]:
        """Return forwarded ids as their sources describe them."""

        async def ask(name: str) -> DescribedTransaction:
            asked = SourceRequest(
                name, DESCRIBE, partial(_describe, name), 0, call.client_id, passes=ANY_FENCE
            )
            try:
                answer = await self.call(asked)
            except NotForwarded as refused:
                return _unknown(refused.code, name)
            states: list[DescribedTransaction] = answer.response.transaction_states
            return states[0] if states else _unknown(_UNAVAILABLE, name)

        return await self.ask_each(transactional_ids, ask, partial(_unknown, _UNAVAILABLE))

    async def _is_open(self, transactional_id: str) -> bool:
        make = partial(_describe, transactional_id)
        asked = SourceRequest(transactional_id, DESCRIBE, make, 0, "", passes=ANY_FENCE)
        try:
            answer = await self.call(asked)
        except NotForwarded:
            return False
        response: DescribeTransactionsResponse = answer.response
        ongoing = OwnState.ONGOING.shown
        return any(each.transaction_state == ongoing for each in response.transaction_states)


def _describe(transactional_id: str, _version: int) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest([transactional_id])


def _unknown(code: ErrorCode, transactional_id: str) -> DescribedTransaction:
    return DescribedTransaction(error_code=code, transactional_id=transactional_id)
