"""Planted bugs of offsets in transactions, of consume-process-produce, and of tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_coordination.events.cluster import ClaimTaken
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.rules.consumer_groups.groups import GROUP_CLAIMS
from tidegate_coordination.rules.proposal import Decided, View
from tidegate_coordination.rules.transactions.staging import StageOffsets
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.transactions.table import TransactionTable
from tidegate_gateway.requests.groups import offset_fetch
from tidegate_gateway.requests.transactions.add_partitions_to_txn import AddPartitionsToTxn
from tidegate_gateway.requests.transactions.describe_transactions import DescribeTransactions
from tidegate_gateway.requests.transactions.list_transactions import ListTransactions
from tidegate_gateway.transactions.steps import ProducerName
from tidegate_protocol.messages.describe_transactions import DescribeTransactionsResponse
from tidegate_simulation.plans.faults import FaultPlan


def loses_offsets_with_the_claim(patch: pytest.MonkeyPatch) -> None:
    """Staged offsets vanish when another gateway takes the group over."""
    real = ClusterState.__init__

    def init(self: ClusterState, *arguments: Any) -> None:
        real(self, *arguments)
        taken, tables = self._folds[ClaimTaken]

        def fold(event: ClaimTaken) -> None:
            taken(event)
            if event.name.startswith(GROUP_CLAIMS):
                self._parts.transactions.offsets_deleted(event.name.removeprefix(GROUP_CLAIMS))

        self._folds[ClaimTaken] = fold, tables

    patch.setattr(ClusterState, "__init__", init)


def publishes_older_offsets(patch: pytest.MonkeyPatch) -> None:
    """A transaction overwrites an offset that was committed after it had staged its own."""
    patch.setattr(TransactionTable, "overtake", lambda *_: None)


def stages_for_former_generations(patch: pytest.MonkeyPatch) -> None:
    """A member of a former generation still commits offsets in a transaction."""
    patch.setattr(ClassicGroup, "check_staging", lambda *_: None)
    real = StageOffsets.decide

    def decide(self: StageOffsets, view: View) -> Decided[Any]:
        object.__setattr__(self, "generation", -1)
        return real(self, view)

    patch.setattr(StageOffsets, "decide", decide)


def ignores_require_stable(patch: pytest.MonkeyPatch) -> None:
    """A consumer that requires stable offsets gets an offset from before an open transaction."""
    patch.setattr(offset_fetch._Pending, "__init__", _without_state)


def _without_state(self: Any, state: Any) -> None:
    object.__setattr__(self, "state", None)


def adds_when_asked_to_verify(patch: pytest.MonkeyPatch) -> None:
    """A check of a partition adds it to the transaction."""

    async def verify(self: AddPartitionsToTxn, call: Any, wanted: Any, places: Any) -> Any:
        producer = (wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
        await self.steps.grow(ProducerName(*producer), tuple(places))
        return await real(self, call, wanted, places)

    real = AddPartitionsToTxn._verify
    patch.setattr(AddPartitionsToTxn, "_verify", verify)


def lists_all_ids_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Each gateway lists all ids, so tools show each several times."""
    patch.setattr(ListTransactions, "_is_own", lambda self, name: True)


def describes_the_past(patch: pytest.MonkeyPatch) -> None:
    """A gateway describes transactions as of its replica, which may lack the last entries."""

    async def handle(self: DescribeTransactions, call: Any, request: Any) -> Any:
        rows = [self._describe(name) for name in request.transactional_ids]
        return DescribeTransactionsResponse(transaction_states=rows)

    patch.setattr(DescribeTransactions, "handle", handle)


def has_etl(plan: FaultPlan) -> bool:
    return plan.transactions.has_etl


def any_plan(plan: FaultPlan) -> bool:
    return True


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed", "is_concerned"),
    [
        (loses_offsets_with_the_claim, {"invariant 13"}, 37, any_plan),
        (publishes_older_offsets, {"wrong staged offset"}, 1, any_plan),
        (stages_for_former_generations, {"zombie staged"}, 1, has_etl),
        (ignores_require_stable, {"wrong description", "processed twice"}, 5, any_plan),
        (adds_when_asked_to_verify, {"wrong description"}, 4, any_plan),
        (lists_all_ids_everywhere, {"wrong list of transactions"}, 1, any_plan),
        (describes_the_past, {"wrong description"}, 25, any_plan),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_offsets_and_tools_are_found(
    plant: Plant,
    expected: set[str],
    first_seed: int,
    is_concerned: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, is_concerned, transactions=True)
