"""The steps of a transactional producer: of transaction.version 2 as Java's, or 1 as librdkafka's.

A producer starts with InitProducerId, which aborts the open transaction of the former start.  After
an error it may ask with its own epoch (KIP-360).  It repeats a request until the answer is final,
often at another gateway.  In the history the sends of a transaction have its name: see
checks/checks_transactions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import trio

from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

from ..clients.client import Client, Disconnected, ProtocolBroken
from ..clients.producers import DONE, RETRIABLE, Batch, Producer
from ..clients.workload import Key, Workload
from ..members.groups import GroupClient
from .ledger import NOTHING, Ledger
from .steps import AGAIN, FENCED, GONE, MUST_ABORT, NOT_A_MEMBER, Step

TIMEOUT_MS: Final = 60_000
_HURRIED_SECONDS: Final = 0.4


class Member(NamedTuple):
    """A consumer's membership of its group; of no member by default."""

    generation: int = -1
    member_id: str = ""


NO_MEMBER: Final = Member()


class TransactionalProducer(Producer):
    """See the module's head.  is_new: whether it speaks transaction.version 2."""

    timeout_ms = TIMEOUT_MS
    give_up_share = 0.15  # of failed attempts to write
    double_share = 0.1  # of ends that are sent to two gateways
    # Of ends whose connection closes with the request in flight.  Before version 2, only the
    # gateways keep such a request from ending the next transaction.
    hurry_shares = (0.45, 0.15)

    def __init__(self, workload: Workload, name: str, ledger: Ledger, *, is_new: bool) -> None:
        super().__init__(workload, name)
        self.ledger = ledger
        self.is_new = is_new
        self._version = self.rng.choice((12, 13) if is_new else (3, 9, 11))
        self.transactional_id = ledger.transactional_id
        self.attributes = TRANSACTIONAL
        self.producer = (-1, -1)
        self._sequences: dict[int, int] = {}
        self._added: set[Key] = set()
        self._other = Client(workload.world, f"{name} elsewhere")
        self.staged = NOTHING
        self.was_staged_twice = False
        self._last_end: end_txn.EndTxnRequest | None = None

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self._other.close()

    # -- lives -----------------------------------------------------------------------------------

    async def begin_life(self, *, is_last: bool = False, goes_on: bool = False) -> bool:
        """Get the next epoch; return False without an answer.

        Below the level of transactions, return is_last, since nothing can be open there.  goes_on:
        ask with the present id and epoch; False if another client has fenced it.
        """
        expected = self.producer if goes_on else (-1, -1)
        request = init_producer_id.InitProducerIdRequest(
            self.transactional_id, self.timeout_ms, *expected
        )
        try:
            answer = await self.client.call("InitProducerId", init_producer_id, 4, request)
        except Disconnected:
            return False
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return is_last  # below the level, nothing can be open
        if code in AGAIN or (goes_on and code in FENCED):
            return False
        if code is not ErrorCode.NONE or not 0 <= answer.producer_epoch < 32_767:
            raise ProtocolBroken(f"InitProducerId: {code.name} {answer}")
        self._take((answer.producer_id, answer.producer_epoch))
        return True

    def _take(self, producer: tuple[int, int]) -> None:
        """Continue with an epoch; its sequences begin at zero."""
        self.producer, self._sequences = producer, {}
        value = {"id": self.transactional_id, "producer": producer[0], "epoch": producer[1]}
        self.history.note(self.client.name, "ok", "epoch", value)

    async def tidy_up(self) -> None:
        """Abort what this client may have left open, so that readers get to the end."""
        self.transaction = ""
        while not await self.begin_life(is_last=True):
            await self.client.pause(1.0)

    # -- what is part of the transaction ---------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction."""
        self.transaction, self._added = self.ledger.begin(), set()
        self.staged, self.was_staged_twice = NOTHING, False

    async def write(self, key: Key, of: Sequence[int] = ()) -> Step:
        """Write a batch; of: for each record, the input value that it was made from."""
        step = await self._add_partition(key)
        if step is not Step.DONE:
            return step
        batch = self.make(key, self.producer, self._sequences, of=of)
        while True:
            code, offset = await self._attempt(batch)
            if code in DONE and (self.uses_ids or not self.has_vanished(key)):
                self.history.ok(batch.invoke, offset=offset if code == ErrorCode.NONE else -1)
                return Step.DONE
            if code in DONE:
                # Perhaps the next topic of the name has the batch, and its sequence numbers.
                self.history.info(batch.invoke)
                return Step.MUST_ABORT
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.may_vanish(key):
                # The topic was created again, and has no state of the producer: the client raises
                # its epoch.
                self.history.info(batch.invoke)
                return Step.OVER
            if code not in RETRIABLE:
                self.history.info(batch.invoke, error=code.name)
                return self._step_of(code, "Produce", key)
            if self.rng.random() < self.give_up_share:
                self.history.info(batch.invoke)
                return Step.MUST_ABORT  # it may arrive after the abort
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
        if self.is_new or key in self._added:
            return Step.DONE
        topic = add_partitions_to_txn.AddPartitionsToTxnTopic(key.topic, [key.partition])
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            [], self.transactional_id or "", *self.producer, [topic]
        )

        def code_of(answer: Any) -> int:
            [result] = answer.results_by_topic_v3_and_below
            return int(result.results_by_partition[0].partition_error_code)

        step = await self._repeat(
            "AddPartitionsToTxn", add_partitions_to_txn, 3, request, code_of, key
        )
        self._added |= {key} if step is Step.DONE else set()
        return step

    async def stage(
        self, group: GroupClient, key: Key, offset: int, member: Member = NO_MEMBER
    ) -> Step:
        """Commit an offset of a group in the transaction."""
        if not self.is_new:
            adding = add_offsets_to_txn.AddOffsetsToTxnRequest(
                self.transactional_id or "", *self.producer, group.group_id
            )
            step = await self._repeat(
                "AddOffsetsToTxn", add_offsets_to_txn, 3, adding, lambda answer: answer.error_code
            )
            if step is not Step.DONE:
                return step
        row = txn_offset_commit.TxnOffsetCommitRequestPartition(key.partition, offset)
        request = txn_offset_commit.TxnOffsetCommitRequest(
            self.transactional_id or "",
            group.group_id,
            *self.producer,
            *member,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(key.topic, [row])],
        )
        while True:
            try:
                version = 5 if self.is_new else 3
                answer = await group.call("TxnOffsetCommit", txn_offset_commit, version, request)
            except Disconnected:
                self.was_staged_twice = True
                await self.client.pause(1.0)
                continue
            code = ErrorCode(answer.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                self.staged = offset
                return Step.DONE
            if code not in AGAIN:
                return self._step_of(code, "TxnOffsetCommit")
            group.forget()
            await self.client.pause(1.0)

    async def _repeat(
        self,
        name: str,
        messages: Any,
        version: int,
        request: Any,
        code_of: Callable[[Any], int],
        key: Key | None = None,
    ) -> Step:
        """Repeat a request until its answer is final."""
        while True:
            try:
                answer = await self.client.call(name, messages, version, request)
            except Disconnected:
                await self.client.pause(1.0)
                continue
            code = ErrorCode(code_of(answer))
            if code is ErrorCode.NONE:
                return Step.DONE
            if code not in AGAIN:
                return self._step_of(code, name, key)
            self.client.close()
            await self.client.pause(1.0)

    def _step_of(self, code: ErrorCode, name: str, key: Key | None = None) -> Step:
        if code is ErrorCode.INVALID_PRODUCER_EPOCH and self.is_new and self.rng.random() < 0.5:
            return Step.MUST_ABORT  # perhaps only a time-out; the abort will show it (KIP-890)
        if code in FENCED:
            return Step.OVER
        is_gone = key is not None and code in GONE and self.may_vanish(key)
        if code in MUST_ABORT or code in NOT_A_MEMBER or is_gone:
            return Step.MUST_ABORT
        raise ProtocolBroken(f"{name} of {self.transaction}: {code.name}")

    def may_vanish(self, key: Key) -> bool:
        """Return whether another client may delete a key's topic."""
        return False

    def has_vanished(self, key: Key) -> bool:
        """Return whether another client may have deleted a key's topic by now."""
        return False

    # -- the end ---------------------------------------------------------------------------------

    async def end(self, *, committed: bool) -> Step:
        """End the transaction; OVER: the outcome is unknown, or the client is fenced."""
        value = {"txn": self.transaction, "commit": committed, "new": self.is_new}
        invoke = self.history.invoke(self.client.name, "end_txn", value)
        request = end_txn.EndTxnRequest(self.transactional_id or "", *self.producer, committed)
        self._last_end = request
        if committed:
            self.ledger.tries(self.staged)
        answer, is_sure = await self._settle(request)
        if answer is None:
            self.history.info(invoke)
            return Step.OVER
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self.history.ok(invoke)
            self.ledger.ended(self.staged, committed=committed)
            if self.is_new:
                self._take((answer.producer_id, answer.producer_epoch))
            return Step.DONE
        if code not in FENCED and code not in MUST_ABORT:
            raise ProtocolBroken(f"EndTxn of {self.transaction}: {code.name}")
        if is_sure:
            self.history.fail(invoke, error=code.name)
            self.ledger.ended(self.staged, committed=False)
        else:
            self.history.info(invoke, error=code.name)
        return Step.OVER

    async def _settle(self, request: end_txn.EndTxnRequest) -> tuple[Any, bool]:
        """Return a final answer or None, and whether no other attempt can have had an effect."""
        is_sure = True
        draw = self.rng.random()
        if draw < self.double_share:
            is_sure = False
            if not await self._twice(request):
                return None, False
        is_hurried = draw >= 1.0 - self.hurry_shares[self.is_new]
        seconds = self.rng.random() * _HURRIED_SECONDS if is_hurried else 20.0
        while True:
            try:
                answer = await self._call_end(self.client, request, seconds)
            except Disconnected:
                is_sure, seconds = False, 20.0
                if not is_hurried and self.rng.random() < 0.2:
                    return None, False
                await self.client.pause(0.1 if is_hurried else 1.0)
                continue
            code = ErrorCode(answer.error_code)
            if code not in AGAIN:
                return answer, is_sure
            self.client.close()
            await self.client.pause(1.0)
            is_sure = is_sure and code is ErrorCode.CONCURRENT_TRANSACTIONS

    async def _call_end(
        self, client: Client, request: end_txn.EndTxnRequest, seconds: float = 20.0
    ) -> Any:
        version = 5 if self.is_new else 3
        return await client.call("EndTxn", end_txn, version, request, timeout_seconds=seconds)

    async def _twice(self, request: end_txn.EndTxnRequest) -> bool:
        """Send an end to two gateways; their answers must agree.

        Returns False if a request of version 1 may still arrive: it could end the next transaction.
        """
        answers: list[Any] = []

        async def attempt(client: Client) -> None:
            await client.pause(0.3)
            try:
                answers.append(await self._call_end(client, request))
            except Disconnected:
                client.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, self.client)
            nursery.start_soon(attempt, self._other)
        if self.rng.random() < 0.5:
            self._other.close()
        self._compare(answers)
        return self.is_new or len(answers) == 2

    def _compare(self, answers: Sequence[Any]) -> None:
        """Check that two answers are the same, unless another client came between them."""
        done = [each for each in answers if ErrorCode(each.error_code) is ErrorCode.NONE]
        codes = {ErrorCode(each.error_code) for each in answers if each not in done}
        if any(each != done[0] for each in done) or (done and codes - {*AGAIN, *FENCED}):
            text = f"{self.transaction} has two answers: {answers}"
            self.workload.world.complain("two ends", text)

    async def end_the_last_again(self) -> None:
        """Send the end of the last transaction once more, as a network that delays packets might.

        The request must not end the present transaction, or the checks complain.
        """
        if self._last_end is None or not self.is_new:
            return
        try:
            answer = await self._call_end(self._other, self._last_end, 5.0)
        except Disconnected:
            return
        code = ErrorCode(answer.error_code)
        if code not in {ErrorCode.NONE, *AGAIN, *FENCED, *MUST_ABORT}:
            raise ProtocolBroken(f"EndTxn repeated late: {code.name}")
