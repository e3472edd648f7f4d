"""Requests of one transactional id, which go to the source of a link while the id is there.

InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn.  Other ids are served
by the handler of the API.  A transaction cannot span two clusters: what it writes must be of the
same link, and so must its groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

from ...links.group_forwards import GroupForwards
from ...links.source_forwards import (
    ANY_FENCE,
    NO_FENCE,
    NotForwarded,
    SourceForwards,
    SourceRequest,
)
from ...links.transaction_forwards import TransactionForwards
from ...network.call import Call, Handler
from .add_partitions_to_txn import SEVERAL_SINCE
from .end_txn import BUMPS_SINCE
from .errors import UNAVAILABLE
from .txn_offset_commit import MAY_ADD_SINCE

_NONE: Final = -1
_ANY: Final = 0
"""The lowest version."""
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNTRIED: Final = ErrorCode.OPERATION_NOT_ATTEMPTED


def _same(request: Any, _version: int) -> Any:
    return request


class OneId(ABC):
    """See the module's head.  local: answers for ids of this cluster."""

    api_key: ClassVar[int]
    messages: ClassVar[ModuleType]
    # From this version on, the request says more than below: a source must speak it, too.
    splits_at: ClassVar[int] = _ANY

    def __init__(
        self,
        local: Handler,
        forwards: TransactionForwards,
        groups: GroupForwards,
        coordinator: Coordinator,
    ) -> None:
        self._local = local
        self._forwards = forwards
        self._groups = groups
        self._coordinator = coordinator
        self._state = coordinator.state

    async def handle(self, call: Call, request: Any) -> Any:
        """Return the answer of the source, or of this cluster."""
        name = self._name(request)
        passes = NO_FENCE
        if name and self._forwards.takes(name):
            passes = await self._enter(request, name)
        if not name or not self._forwards.takes(name):
            return await self._local.handle(call, request)
        if self._misplaced(request, self._forwards.link_of(name)) is not None:
            # This gateway may not have read of a topic, or that the id has moved.
            try:
                await self._coordinator.catch_up()
            except CoordinatorUnavailable:
                return self._refused(request, UNAVAILABLE)
            if not self._forwards.takes(name):
                return await self._local.handle(call, request)
            refusal = self._misplaced(request, self._forwards.link_of(name))
            if refusal is not None:
                return refusal
        return await self._forwarded(call, request, name, passes)

    async def _forwarded(self, call: Call, request: Any, name: str, passes: int) -> Any:
        forwards, key = self._way(request, name)
        try:
            with self._counted(name, passes):
                asked = self._asked(call, request, key, passes)
                response = (await forwards.call(asked)).response
            await self._outlast(name)
        except NotForwarded as refused:
            return self._refused(request, refused.code)
        if not self._forwards.takes(name) and not self._holds_here(request, response):
            return self._refused(request, ErrorCode.NOT_COORDINATOR)
        return response

    def _counted(self, _name: str, _passes: int, /) -> AbstractContextManager[None]:
        """Count the request for its id, if the way that it goes does not."""
        return nullcontext()

    async def _outlast(self, _name: str, /) -> None:
        """Wait before the answer is passed on."""
        await trio.lowlevel.checkpoint()

    def _asked(self, call: Call, request: Any, key: str, passes: int) -> SourceRequest:
        low, high = _ANY, call.version
        if self.splits_at:
            is_later = call.version >= self.splits_at
            low, high = (self.splits_at, high) if is_later else (low, min(high, self.splits_at - 1))
        return SourceRequest(
            key,
            APIS[self.api_key].name,
            partial(_same, request),
            high,
            call.client_id,
            is_change=True,
            passes=passes,
            min_version=low,
        )

    def _name(self, request: Any) -> str:
        name: str = request.transactional_id or ""
        return name

    async def _enter(self, _request: Any, name: str, /) -> int:
        """Wait for a fence; return which one the request passes, see TransactionForwards."""
        return await self._forwards.admitted(name)

    def _way(self, _request: Any, name: str, /) -> tuple[SourceForwards, str]:
        """Return where the request goes, and by which key."""
        return self._forwards, name

    def _misplaced(self, _request: Any, _link: str) -> Any:
        """Return the answer to a request that names what is not at the source; None for others."""
        return None

    def _holds_here(self, _request: Any, _response: Any) -> bool:
        """Return whether the source's answer is true of an id that has moved here meanwhile."""
        return False

    @abstractmethod
    def _refused(self, request: Any, code: ErrorCode, /) -> Any: ...


class ForwardedInitProducerId(OneId):
    """InitProducerId: without a transactional id, this cluster gives out the producer id."""

    api_key: ClassVar[int] = ApiKey.INIT_PRODUCER_ID
    messages: ClassVar[ModuleType] = init_producer_id

    async def _enter(self, _request: Any, name: str, /) -> int:
        await self._forwards.unfenced(name)  # it ends a transaction that is open
        return NO_FENCE

    def _refused(
        self, _request: init_producer_id.InitProducerIdRequest, code: ErrorCode
    ) -> init_producer_id.InitProducerIdResponse:
        return init_producer_id.InitProducerIdResponse(
            error_code=code, producer_id=_NONE, producer_epoch=_NONE
        )


class ForwardedAddPartitionsToTxn(OneId):
    """AddPartitionsToTxn; the versions of brokers are not forwarded."""

    api_key: ClassVar[int] = ApiKey.ADD_PARTITIONS_TO_TXN
    messages: ClassVar[ModuleType] = add_partitions_to_txn
    splits_at: ClassVar[int] = SEVERAL_SINCE

    def _name(self, request: add_partitions_to_txn.AddPartitionsToTxnRequest) -> str:
        return request.v3_and_below_transactional_id

    def _misplaced(
        self, request: add_partitions_to_txn.AddPartitionsToTxnRequest, link: str
    ) -> add_partitions_to_txn.AddPartitionsToTxnResponse | None:
        codes = {each.name: self._code(each.name, link) for each in request.v3_and_below_topics}
        if all(code is _UNTRIED for code in codes.values()):
            return None
        return _partitions(request, codes)

    def _code(self, name: str, link: str) -> ErrorCode:
        topic = self._state.topics.by_name.get(name)
        if topic is None:
            return _UNKNOWN
        return _UNTRIED if topic.link == link else _DENIED

    def _refused(
        self, request: add_partitions_to_txn.AddPartitionsToTxnRequest, code: ErrorCode
    ) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
        return _partitions(request, {each.name: code for each in request.v3_and_below_topics})


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
        self, request: add_offsets_to_txn.AddOffsetsToTxnRequest, link: str
    ) -> add_offsets_to_txn.AddOffsetsToTxnResponse | None:
        if self._groups.link_of(request.group_id) == link:
            return None
        return self._refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _refused(
        self, _request: add_offsets_to_txn.AddOffsetsToTxnRequest, code: ErrorCode
    ) -> add_offsets_to_txn.AddOffsetsToTxnResponse:
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)


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

    def _counted(self, name: str, passes: int, /) -> AbstractContextManager[None]:
        return self._forwards.counted(name, passes)

    def _way(
        self, request: txn_offset_commit.TxnOffsetCommitRequest, _name: str, /
    ) -> tuple[SourceForwards, str]:
        return self._groups, request.group_id

    def _misplaced(
        self, request: txn_offset_commit.TxnOffsetCommitRequest, link: str
    ) -> txn_offset_commit.TxnOffsetCommitResponse | None:
        if self._groups.link_of(request.group_id) == link:
            return None
        return self._refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _refused(
        self, request: txn_offset_commit.TxnOffsetCommitRequest, code: ErrorCode
    ) -> txn_offset_commit.TxnOffsetCommitResponse:
        topics = [
            txn_offset_commit.TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    txn_offset_commit.TxnOffsetCommitResponsePartition(each.partition_index, code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return txn_offset_commit.TxnOffsetCommitResponse(topics=topics)


class ForwardedEndTxn(OneId):
    """EndTxn: no fence holds it, since the transaction has to end."""

    api_key: ClassVar[int] = ApiKey.END_TXN
    messages: ClassVar[ModuleType] = end_txn
    splits_at: ClassVar[int] = BUMPS_SINCE

    async def _enter(self, _request: Any, _name: str, /) -> int:
        return ANY_FENCE

    async def _outlast(self, name: str, /) -> None:
        """Wait until a switch of the id has ended: it may have looked at the epoch before.

        Raises:
          NotForwarded: it has not ended; the client repeats the request.
        """
        fence = self._forwards.fence_of(name)
        if fence is not None and fence.switch:
            await self._forwards.unfenced(name)
            if self._forwards.fence_of(name) is not None:
                raise NotForwarded(ErrorCode.NOT_COORDINATOR)

    def _holds_here(self, request: end_txn.EndTxnRequest, response: end_txn.EndTxnResponse) -> bool:
        """The id moved with what the source has answered, unless more has happened since."""
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

    def _refused(self, _request: end_txn.EndTxnRequest, code: ErrorCode) -> end_txn.EndTxnResponse:
        return end_txn.EndTxnResponse(error_code=code)
