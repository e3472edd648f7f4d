"""Proposes the steps of transactions; any gateway may propose any step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.transactions.ending import EndAnswer, EndTransaction
from tidegate_coordination.rules.transactions.growing import GrowTransaction
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_coordination.state.transactions.rows import NO_ID

from ..network.call import Call
from ..network.receiver import CloseConnection
from .arrivals import began_at
from .producer_ids import ProducerIds


@dataclass(frozen=True, slots=True)
class ProducerName:
    """A transactional id with the producer id and epoch that its client has."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(slots=True)
class StepCounters:
    """concurrent: the number of ends refused because the producer's next transaction had begun."""

    concurrent: int = 0


@dataclass(frozen=True, slots=True)
class TransactionSteps:
    """See the module's head.

    All methods may raise CoordinatorUnavailable: the outcome is unknown; the client repeats the
    step, and a repeated step does no harm.
    """

    coordinator: Coordinator
    producer_ids: ProducerIds
    counters: StepCounters = field(default_factory=StepCounters)

    async def initialise(
        self, transactional_id: str, timeout_ms: int, expected_id: int, expected_epoch: int
    ) -> EndAnswer:
        """Give a transactional id its next producer epoch; abort its open transaction."""

        def proposal(spare_id: int) -> InitialiseTransactionalId:
            return InitialiseTransactionalId(
                transactional_id, timeout_ms, expected_id, expected_epoch, spare_id
            )

        is_known = self.coordinator.state.transactions.get(transactional_id) is not None
        return await self.with_spare_id(proposal, is_likely=not is_known)

    async def end(
        self, producer: ProducerName, *, committed: bool, bumps: bool, began: int
    ) -> EndAnswer:
        """Commit or abort; see EndTransaction."""

        def proposal(spare_id: int) -> EndTransaction:
            return EndTransaction(
                producer.transactional_id,
                producer.producer_id,
                producer.epoch,
                committed,
                bumps,
                began,
                spare_id,
            )

        answer = await self.with_spare_id(proposal)
        if answer.refusal is TransactionRefusal.CONCURRENT:
            self.counters.concurrent += 1
        return answer

    async def began(self, call: Call, transactional_id: str) -> int:
        """Return where the open transaction began to which a request of protocol version 1 belongs.

        Nothing in the request tells the transaction from the next one.  If the client still waits
        for the answer, it has not begun the next transaction.  If the client is gone, the request
        is not proposed.

        Raises:
          CloseConnection: the client is gone.
        """
        await self.coordinator.catch_up()
        began = began_at(self.coordinator.state, transactional_id)
        if call.is_gone():
            raise CloseConnection()
        return began

    async def grow(
        self,
        producer: ProducerName,
        partitions: tuple[tuple[bytes, int], ...] = (),
        groups: tuple[str, ...] = (),
    ) -> TransactionRefusal | None:
        """Add partitions, as (topic id, partition), and groups."""
        return await self.coordinator.propose(
            GrowTransaction(
                producer.transactional_id, producer.producer_id, producer.epoch, partitions, groups
            )
        )

    async def with_spare_id(
        self, proposal: Callable[[int], Proposal[EndAnswer]], *, is_likely: bool = False
    ) -> EndAnswer:
        """Propose, with a spare producer id if the rules ask for one.

        is_likely: the rules will probably ask.
        """
        spare_id = await self.producer_ids.take() if is_likely else NO_ID
        while True:
            answer = await self.coordinator.propose(proposal(spare_id))
            if answer.refusal is not TransactionRefusal.NEEDS_PRODUCER_ID:
                return answer
            spare_id = await self.producer_ids.take()
