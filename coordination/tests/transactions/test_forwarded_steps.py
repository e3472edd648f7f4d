"""Steps of transactions that came from other gateways, and share an entry at the leader."""

from __future__ import annotations

from typing import Any

from tests.worlds.transaction_world import OLD, TransactionWorld, batch
from tidegate_coordination.forwarding import codec
from tidegate_coordination.rules.numbered import Numbered
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.records.wal import Refusal


def forwarded(*proposals: Proposal[Any]) -> list[Numbered]:
    """Number them, as the gateway does that sends them to the leader."""
    numbers = enumerate(proposals, start=1)
    return [Numbered(1, number, 0, 0, 0, each, codec.encode) for number, each in numbers]


def test_batches_of_one_transaction_share_an_entry() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    world.propose(
        *forwarded(
            world.commit_wal(batch(who, 0, flags=OLD)), world.commit_wal(batch(who, 1, flags=OLD))
        )
    )
    transaction = world.state.transactions.open_of("x")
    assert transaction is not None
    assert transaction.partitions == {0: 0}
    assert world.partition().next_offset == 2


def test_a_late_batch_is_fenced_by_an_end_in_its_own_entry() -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    late = world.commit_wal(batch(who, 0, 1))
    answers = world.propose(*forwarded(world.end_proposal(who), late))
    [outcome] = codec.decode_answer("CommitWal", answers[1])
    assert outcome.refusal is Refusal.STALE_PRODUCER_EPOCH
    assert not world.id().is_open
    assert world.partition(1).next_offset == 0


def test_an_end_ends_what_was_written_in_its_own_entry() -> None:
    world = TransactionWorld()
    who = world.init()
    world.write(batch(who, 0))
    more = world.commit_wal(batch(who, 0, 1))
    world.propose(*forwarded(more, world.end_proposal(who)))
    assert [world.partition(each).next_offset for each in (0, 1)] == [2, 2]
    assert [world.partition(each).last_stable_offset for each in (0, 1)] == [2, 2]
