"""Steps that other gateways forward share an entry, and each sees what the earlier ones decided."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.transaction_world import TransactionWorld, batch
from tidegate_coordination.rules.numbered import Numbered
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.records.batch_outcomes import Refusal
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_coordination.state.transactions.rows import TransactionState


class Forwarding:
    """Numbers the proposals of a gateway."""

    def __init__(self) -> None:
        self._last = 0
        self.answers: list[Any] = []

    def __call__(self, proposal: Proposal[Any]) -> Numbered:
        self._last += 1
        return Numbered(1, self._last, 0, 0, 0, proposal, self._encode)

    def _encode(self, answer: Any) -> bytes:
        self.answers.append(answer)
        return b"answer"


def test_a_forwarded_batch_sees_that_its_producer_was_fenced_in_the_same_entry() -> None:
    world, forwarded = TransactionWorld(), Forwarding()
    who = world.init()
    fence = InitialiseTransactionalId("x", 60_000)
    world.propose(forwarded(fence), forwarded(world.commit_wal(batch(who, 0))))
    _, [outcome] = forwarded.answers
    assert outcome.refusal is Refusal.STALE_PRODUCER_EPOCH


@pytest.mark.parametrize("is_forwarded", [True, False])
def test_an_initialisation_aborts_what_a_batch_of_the_same_entry_began(
    *, is_forwarded: bool
) -> None:
    world, forwarded = TransactionWorld(), Forwarding()
    who = world.init()
    steps: list[Proposal[Any]] = [
        world.commit_wal(batch(who, 0)),
        InitialiseTransactionalId("x", 60_000),
    ]
    world.propose(*(forwarded(each) if is_forwarded else each for each in steps))
    assert world.id().state is TransactionState.EMPTY
    assert world.partition().next_offset == 2, "a record and its marker"
    assert world.partition().last_stable_offset == 2
