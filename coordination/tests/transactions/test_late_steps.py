"""Requests of protocol version 1 that waited while their transaction ended and another began."""

from __future__ import annotations

from tests.worlds.transaction_world import GROUP, OLD, TransactionWorld, batch, row
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, Refusal
from tidegate_coordination.rules.records.transactional_batches import began_of, with_began
from tidegate_coordination.rules.transactions.ending import EndAnswer
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal as R
from tidegate_coordination.rules.transactions.staging import StageOffsets


def stamped(world: TransactionWorld, who: EndAnswer, sequence: int) -> BatchFacts:
    """A batch that arrives now, and waits for the store."""
    return batch(who, sequence, flags=with_began(OLD, world.id().began))


def staging(world: TransactionWorld, who: EndAnswer, offset: int) -> StageOffsets:
    """Offsets that arrive now, and wait for the log."""
    began = world.id().began
    name = ("x", who.producer_id, who.epoch)
    return StageOffsets(GROUP, 1, -1, (row(offset),), *name, False, began)


def test_flags_hold_a_position() -> None:
    flags = with_began(OLD, 1 << 40)
    assert (flags & 3, began_of(flags)) == (OLD, 1 << 40)
    assert began_of(OLD) == 0


def test_a_batch_of_its_own_transaction_is_taken() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    assert world.write(stamped(world, who, 0))[0].refusal is None
    assert world.write(stamped(world, who, 1))[0].refusal is None


def test_a_late_batch_does_not_join_the_next_transaction() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    late = stamped(world, who, 0)
    world.end(who, committed=False, bumps=False)
    assert world.write(late)[0].refusal is Refusal.NOT_IN_TRANSACTION
    world.grow(who, 0)
    assert world.write(late)[0].refusal is Refusal.LATE_IN_TRANSACTION
    [outcome] = world.write(stamped(world, who, 0))  # the client reuses the sequence
    assert (outcome.refusal, outcome.base_offset) == (None, 1)


def test_a_batch_that_arrived_while_nothing_was_open_joins_none() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    world.end(who, bumps=False)
    late = batch(who, 0, flags=with_began(OLD, world.state.position))
    world.grow(who, 0)
    assert world.write(late)[0].refusal is Refusal.LATE_IN_TRANSACTION


def test_a_late_batch_with_a_known_sequence_is_not_written_again() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, 0)
    sent = stamped(world, who, 0)
    world.write(sent)
    world.end(who, bumps=False)
    world.grow(who, 0)
    assert world.write(sent)[0].refusal is Refusal.LATE_IN_TRANSACTION
    assert world.partition().next_offset == 2


def test_late_offsets_do_not_replace_those_of_the_next_transaction() -> None:
    world = TransactionWorld()
    who = world.init()
    world.grow(who, groups=(GROUP,))
    late = staging(world, who, 5)
    assert world.propose(late) == [[True]]
    world.end(who, bumps=False)
    world.grow(who, groups=(GROUP,))
    assert world.propose(staging(world, who, 7)) == [[True]]
    assert world.propose(late) == [R.CONCURRENT]
    world.end(who, bumps=False)
    assert world.offset == 7
