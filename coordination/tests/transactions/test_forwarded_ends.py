"""Steps of a transaction that other gateways forward share an entry, and see each other's."""

from __future__ import annotations

from typing import Any

from tests.worlds.transaction_world import OLD, TransactionWorld, batch
from tidegate_coordination.rules.numbered import Numbered
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.records.batch_outcomes import Refusal


def forwarded(world: TransactionWorld, *proposals: Proposal[Any]) -> list[Any]:
    """Put forwarded proposals into one entry; return their answers, not encoded."""
    answers: list[Any] = []

    def encoded(answer: Any) -> bytes:
        answers.append(answer)
        return b"\xc0"

    world.propose(
        *(Numbered(1, number, 0, 0, 0, each, encoded) for number, each in enumerate(proposals, 1))
    )
    return answers


def test_a_transaction_begins_once_in_a_partition_though_its_batches_share_an_entry() -> None:
    world = TransactionWorld()
    who = world.init()
    commits = [world.commit_wal(batch(who, each)) for each in range(2)]
    answers = forwarded(world, *commits, world.end_proposal(who))
    assert [each.refusal for outcomes in answers[:2] for each in outcomes] == [None, None]
    assert answers[2].epoch == who.epoch + 1
    assert world.partition().next_offset == 3
    assert not world.partition().open


def test_a_late_batch_in_the_entry_of_the_end_is_refused() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    world.write(batch(who, 0, flags=OLD))
    late = world.commit_wal(batch(who, 1, flags=OLD))
    answers = forwarded(world, world.end_proposal(who, bumps=False), late)
    assert [each.refusal for each in answers[1]] == [Refusal.NOT_IN_TRANSACTION]
    assert world.partition().next_offset == 2
