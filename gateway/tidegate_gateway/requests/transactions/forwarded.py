"""Requests of one transactional id, which go to the source of a link while the id is there.

InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.  Other ids are served
by the handler of the API.  A transaction cannot span two clusters, so its id, its topics and its
groups must all belong to the same link.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

from ...migration.forward.coordinators import ANY_FENCE, NO_FENCE, NotForwarded, SourceForwards
from ...migration.forward.groups import GroupForwards
from ...migration.forward.transactions import TransactionForwards
from ...network.call import Call, Handler
from ..forwarding import Forwarded
from .add_partitions_to_txn import SEVERAL_SINCE
from .end_txn import BUMPS_SINCE
from .txn_offset_commit import MAY_ADD_SINCE

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNTRIED: Final = ErrorCode.OPERATION_NOT_ATTEMPTED


class OneId(Forwarded[TransactionForwards]):
    """See the module's head.  groups: the forwarded groups of this gateway."""

    def __init__(
        self,
        local: Handler,
        forwards: TransactionForwards,
        groups: GroupForwards,
        coordinator: Coordinator,
    ) -> None:
        super().__init__(local, forwards, coordinator)
        self._groups = groups

    def _key(self, request: Any) -> str | None:
        return request.transactional_id or None

    async def _enter(self, _request: Any, key: str, /) -> int:
        return await self._forwards.admitted(key)

    def _is_true(self, request: Any, response: Any, key: str, /) -> bool:
        return self._forwards.takes(key) or self._holds_here(request, response)

    def _holds_here(self, _request: Any, _response: Any, /) -> bool:
        """Return whether the source's answer also holds for an id that has moved here meanwhile."""
        return False


class ForwardedInitProducerId(OneId):
    """InitProducerId: without a transactional id, this cluster gives out the producer id."""

    api_key: ClassVar[int] = ApiKey.INIT_PRODUCER_ID
    messages: ClassVar[ModuleType] = init_producer_id

    async def _enter(self, _request: Any, name: str, /) -> int:
        await self._forwards.unfenced(name)  # it ends the id's open transaction
        return NO_FENCE


class ForwardedAddPartitionsToTxn(OneId):
    """AddPartitionsToTxn; the versions of brokers are not forwarded."""

    api_key: ClassVar[int] = ApiKey.ADD_PARTITIONS_TO_TXN
    messages: ClassVar[ModuleType] = add_partitions_to_txn
    splits_at: ClassVar[int] = SEVERAL_SINCE

    def _key(self, request: add_partitions_to_txn.AddPartitionsToTxnRequest) -> str | None:
        return request.v3_and_below_transactional_id or None

    def _misplaced(
        self, _call: Call, request: add_partitions_to_txn.AddPartitionsToTxnRequest, key: str, /
    ) -> add_partitions_to_txn.AddPartitionsToTxnResponse | None:
        link = self._forwards.link_of(key)
        codes = {each.name: self._code(each.name, link) for each in request.v3_and_below_topics}
        if all(code is _UNTRIED for code in codes.values()):
            return None
        return _partitions(request, codes)

    def _code(self, name: str, link: str) -> ErrorCode:
        topic = self._state.topics.by_name.get(name)
        if topic is None:
            return _UNKNOWN
        return _UNTRIED if topic.link == link else _DENIED


def _partitions(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, codes: dict[str, ErrorCode]
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    topics = [
        add_partitions_to_txn.AddPartitionsToTxnTopicResult(
            topic.name,
            [
                add_partitions_to_txn.AddPartitionsToTxnPartitionResult(index, codes[topic.name])
                for index in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


class ForwardedAddOffsetsToTxn(OneId):
    """AddOffsetsToTxn."""

    api_key: ClassVar[int] = ApiKey.ADD_OFFSETS_TO_TXN
    messages: ClassVar[ModuleType] = add_offsets_to_txn

    def _misplaced(
        self, call: Call, request: add_offsets_to_txn.AddOffsetsToTxnRequest, key: str, /
    ) -> Any:
        if self._groups.link_of(request.group_id) == self._forwards.link_of(key):
            return None
        return self._refused(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)


class ForwardedTxnOffsetCommit(OneId):
    """TxnOffsetCommit, which goes to the coordinator of the group."""

    api_key: ClassVar[int] = ApiKey.TXN_OFFSET_COMMIT
    messages: ClassVar[ModuleType] = txn_offset_commit
    splits_at: ClassVar[int] = MAY_ADD_SINCE

    async def _enter(self, request: txn_offset_commit.TxnOffsetCommitRequest, name: str, /) -> int:
        passes = await self._forwards.admitted(name)
        fence = self._groups.fence_of(request.group_id)
        if fence is None or fence.number == passes:
            return passes
        await self._groups.unfenced(request.group_id)
        return NO_FENCE

    def _counted(self, key: str, passes: int, /) -> AbstractContextManager[None]:
        return self._forwards.counted(key, passes)

    def _way(
        self, request: txn_offset_commit.TxnOffsetCommitRequest, _name: str, /
    ) -> tuple[SourceForwards, str]:
        return self._groups, request.group_id

    def _misplaced(
        self, call: Call, request: txn_offset_commit.TxnOffsetCommitRequest, key: str, /
    ) -> Any:
        if self._groups.link_of(request.group_id) == self._forwards.link_of(key):
            return None
        return self._refused(call, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)


class ForwardedEndTxn(OneId):
    """EndTxn: no fence holds it back, since the open transaction has to end."""

    api_key: ClassVar[int] = ApiKey.END_TXN
    messages: ClassVar[ModuleType] = end_txn
    splits_at: ClassVar[int] = BUMPS_SINCE

    async def _enter(self, _request: Any, _name: str, /) -> int:
        return ANY_FENCE

    async def _outlast(self, name: str, /) -> None:
        """Wait until a switch of the id has ended.

        The switch may have read the id's epoch before this EndTxn raised it.

        Raises:
          NotForwarded: the switch has not ended in time; the client repeats the request.
        """
        fence = self._forwards.fence_of(name)
        if fence is not None and fence.switch:
            await self._forwards.unfenced(name)
            if self._forwards.fence_of(name) is not None:
                raise NotForwarded(ErrorCode.NOT_COORDINATOR)

    def _holds_here(self, request: end_txn.EndTxnRequest, response: end_txn.EndTxnResponse) -> bool:
        """Return whether the id has the answered producer id and epoch here.

        It must have no open transaction, either.
        """
        table = self._state.transactions
        row = table.get(request.transactional_id)
        is_bumped = response.producer_epoch >= 0
        answered = (
            (response.producer_id, response.producer_epoch)
            if is_bumped
            else (request.producer_id, request.producer_epoch)
        )
        return (
            not response.error_code
            and row is not None
            and not row.is_open
            and (row.producer_id, row.epoch) == answered
        )
