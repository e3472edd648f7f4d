"""Transactional producers, as Java's (transaction.version 2) and as librdkafka's (version 1).

A life begins with InitProducerId, which aborts what the life before left open.  It ends when the
client is fenced, or when it leaves a transaction open, or the end of one unanswered.  Twins share a
transactional id, so each fences the other.

EndTxn without an answer is sent again, often to another gateway.  What a transaction has written is
in the history by its name: see checks/checks_transactions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    offset_fetch,
    txn_offset_commit,
)

from ..clients.client import Disconnected, ProtocolBroken
from ..clients.producers import DONE, RETRIABLE, Batch, Producer
from ..clients.workload import Key, Workload
from ..members.groups import GroupClient
from ..plans.expiry_plan import OFFSETS
from .ledger import NOTHING, Ledger

TIMEOUT_MS: Final = 60_000
_FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
_MUST_ABORT: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.MESSAGE_TOO_LARGE,  # the configs of topics change
    }
)


class Step(Enum):
    """The result of a step of a transaction."""

    DONE = "done"
    MUST_ABORT = "the transaction can only be aborted"
    OVER = "this life of the client is over"


class Transactor(Producer):
    """See the module's head.

    is_new: whether it speaks transaction.version 2.  tidies: whether it aborts at its end what is
    left open, so that readers of committed records reach the end.
    """

    def __init__(self, workload: Workload, name: str, ledger: Ledger, *, is_new: bool) -> None:
        super().__init__(workload, name)
        self._ledger = ledger
        self._is_new = is_new
        self._version = self.rng.choice((12, 13) if is_new else (3, 9, 11))
        self.transactional_id = ledger.transactional_id
        self.attributes = TRANSACTIONAL
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}
        self._added: set[Key] = set()
        self._group = GroupClient(self.client, ledger.group_id)
        self._key = ledger.key
        self._staged = NOTHING

    async def run(self) -> None:
        """Live until no operation is left; then abort what may be open."""
        while self.workload.operations_left > 0:
            if await self._begin_life():
                await self._live()
            await self.client.pause(2.0)
        self.transaction = ""
        while not await self._begin_life(is_last=True):
            await self.client.pause(1.0)
        await self._look_at_offset()
        self.client.close()

    async def _live(self) -> None:
        while self.workload.take():
            if await self._transact() is Step.OVER:
                return
            await self.client.pause(2.0)

    async def _begin_life(self, *, is_last: bool = False) -> bool:
        """Get the next epoch; False if the cluster has no transactions yet, or gives no answer."""
        request = init_producer_id.InitProducerIdRequest(self.transactional_id, TIMEOUT_MS)
        try:
            answer = await self.client.call("InitProducerId", init_producer_id, 4, request)
        except Disconnected:
            return False
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return is_last  # below the level, nothing can be open
        if code in _AGAIN:
            return False
        if code is not ErrorCode.NONE or not 0 <= answer.producer_epoch < 32_767:
            raise ProtocolBroken(f"InitProducerId: {code.name} {answer}")
        self._producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}
        self._note_epoch()
        return True

    async def _transact(self) -> Step:
        """Do one transaction; OVER: its end is unknown, or this client is fenced."""
        self.transaction, self._added = self._ledger.begin(), set()
        self._staged = NOTHING
        step = Step.DONE
        for _ in range(self.rng.randint(1, 4)):
            if step is Step.DONE:
                step = await self._write(self.rng.choice(self.workload.keys))
        if step is Step.DONE and self.rng.random() < 0.4:
            step = await self._stage()
        if step is Step.OVER or self.rng.random() < 0.08:
            return Step.OVER
        must_abort = step is Step.MUST_ABORT
        step = await self._end(committed=not must_abort and self.rng.random() < 0.75)
        if step is Step.DONE:
            await self._look_at_offset()
        # Sequence numbers of refused batches are missing, and only a new epoch begins at zero.
        return Step.OVER if must_abort and not self._is_new else step

    # -- what is part of the transaction ---------------------------------------------------------

    async def _write(self, key: Key) -> Step:
        step = await self._add_partition(key)
        if step is not Step.DONE:
            return step
        batch = self.make(key, self._producer, self._sequences)
        while True:
            code, offset = await self._attempt(batch)
            if code in DONE:
                self.history.ok(batch.invoke, offset=offset if code == ErrorCode.NONE else -1)
                return Step.DONE
            if code not in RETRIABLE:
                self.history.info(batch.invoke, error=code.name)
                return self._step_of(code, "Produce")
            await self.client.pause(1.0)

    async def _attempt(self, batch: Batch) -> tuple[ErrorCode, int]:
        try:
            sent = await self.submit(await self.client.connection(), [batch], -1)
            response = await sent.reply.wait(self.rng.choice((2.0, 15.0, 40.0)))
        except Disconnected:
            self.client.close()
            return ErrorCode.NETWORK_EXCEPTION, -1
        [(_, code, offset)] = self.results(sent, response)
        if code in RETRIABLE:
            self.client.close()
        return code, offset

    async def _add_partition(self, key: Key) -> Step:
        if self._is_new or key in self._added:
            return Step.DONE
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(key.topic, [key.partition])
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            [], self.transactional_id or "", *self._producer, [topic]
        )

        def code_of(answer: Any) -> int:
            [result] = answer.results_by_topic_v3_and_below
            return int(result.results_by_partition[0].partition_error_code)

        step = await self._repeat("AddPartitionsToTxn", add_partitions_to_txn, 3, request, code_of)
        self._added |= {key} if step is Step.DONE else set()
        return step

    async def _stage(self) -> Step:
        """Commit an offset of the id's group in the transaction, as no member."""
        if not self._is_new:
            adding = add_offsets_to_txn.AddOffsetsToTxnRequest(
                self.transactional_id or "", *self._producer, self._ledger.group_id
            )
            step = await self._repeat(
                "AddOffsetsToTxn", add_offsets_to_txn, 3, adding, lambda answer: answer.error_code
            )
            if step is not Step.DONE:
                return step
        offset = self._ledger.next_offset()
        row = txn_offset_commit.TxnOffsetCommitRequestPartition(self._key.partition, offset)
        request = txn_offset_commit.TxnOffsetCommitRequest(
            self.transactional_id or "",
            self._ledger.group_id,
            *self._producer,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(self._key.topic, [row])],
        )
        while True:
            try:
                version = 5 if self._is_new else 3
                answer = await self._group.call(
                    "TxnOffsetCommit", txn_offset_commit, version, request
                )
            except Disconnected:
                await self.client.pause(1.0)
                continue
            code = ErrorCode(answer.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                self._staged = offset
                return Step.DONE
            if code not in _AGAIN:
                return self._step_of(code, "TxnOffsetCommit")
            self._group.forget()
            await self.client.pause(1.0)

    async def _repeat(
        self, name: str, messages: Any, version: int, request: Any, code_of: Callable[[Any], int]
    ) -> Step:
        """Send a request until it has a lasting answer."""
        while True:
            try:
                answer = await self.client.call(name, messages, version, request)
            except Disconnected:
                await self.client.pause(1.0)
                continue
            code = ErrorCode(code_of(answer))
            if code is ErrorCode.NONE:
                return Step.DONE
            if code not in _AGAIN:
                return self._step_of(code, name)
            self.client.close()
            await self.client.pause(1.0)

    def _step_of(self, code: ErrorCode, name: str) -> Step:
        if code in _FENCED:
            return Step.OVER
        if code in _MUST_ABORT:
            return Step.MUST_ABORT
        raise ProtocolBroken(f"{name} of {self.transaction}: {code.name}")

    # -- the end ---------------------------------------------------------------------------------

    async def _end(self, *, committed: bool) -> Step:
        """End the transaction; OVER: the outcome is unknown, or the client is fenced."""
        value = {"txn": self.transaction, "commit": committed}
        invoke = self.history.invoke(self.client.name, "end_txn", value)
        version = 5 if self._is_new else 3
        request = end_txn.EndTxnRequest(self.transactional_id or "", *self._producer, committed)
        is_sure = True  # whether no earlier attempt may have had an effect
        if committed:
            self._ledger.tries(self._staged)
        while True:
            try:
                answer = await self.client.call("EndTxn", end_txn, version, request)
            except Disconnected:
                is_sure = False
                if self.rng.random() < 0.2:
                    self.history.info(invoke)
                    return Step.OVER
                await self.client.pause(1.0)
                continue
            code = ErrorCode(answer.error_code)
            if code in _AGAIN:
                self.client.close()
                await self.client.pause(1.0)
                is_sure = is_sure and code is ErrorCode.CONCURRENT_TRANSACTIONS
                continue
            break
        if code is ErrorCode.NONE:
            self.history.ok(invoke)
            self._ledger.ended(self._staged, committed=committed)
            return self._go_on(answer)
        if code not in _FENCED and code not in _MUST_ABORT:
            raise ProtocolBroken(f"EndTxn of {self.transaction}: {code.name}")
        if is_sure:
            self.history.fail(invoke, error=code.name)
            self._ledger.ended(self._staged, committed=False)
        else:
            self.history.info(invoke, error=code.name)
        return Step.OVER

    def _go_on(self, answer: Any) -> Step:
        """Take the epoch that a new client goes on with."""
        if self._is_new:
            self._producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}
            self._note_epoch()
        return Step.DONE

    def _note_epoch(self) -> None:
        producer_id, epoch = self._producer
        value = {"id": self.transactional_id, "producer": producer_id, "epoch": epoch}
        self.history.note(self.client.name, "ok", "epoch", value)

    async def _look_at_offset(self) -> None:
        """Ask for the group's offset, unless a transaction has staged one (KIP-447)."""
        topic = offset_fetch.OffsetFetchRequestTopics(
            self._key.topic, partition_indexes=[self._key.partition]
        )
        asked = offset_fetch.OffsetFetchRequestGroup(self._ledger.group_id, topics=[topic])
        request = offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True)
        possible = set(self._ledger.possible)
        try:
            answer = await self.client.call("OffsetFetch", offset_fetch, 8, request)
        except Disconnected:
            return
        [group] = answer.groups
        if group.error_code:
            return
        part = group.topics[0].partitions[0]
        if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return
        # A twin may have ended another transaction meanwhile.
        possible |= self._ledger.possible
        if OFFSETS in self.workload.world.settings:
            possible.add(NOTHING)  # it may have expired
        if part.committed_offset not in possible:
            text = f"{self._ledger.group_id} has {part.committed_offset}, not {sorted(possible)}"
            self.workload.world.complain("wrong staged offset", text)
