"""From the result of a unit to the proposals that make its batches readable.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate_coordination.rules.migration.mirrors import Placing
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome
from tidegate_coordination.rules.records.mirrored_batches import MirroredBatch
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.records.objects import WalName

from .work import ANOTHERS, ImportUnit, UnitDone, WrittenBatch, WrittenObject


def placing_before(unit: ImportUnit, done: UnitDone, end: int) -> Placing | None:
    """Return how a copy moves from its end before the unit is published; None: it does not.

    Records of the source can have expired only before the first unit; a later unit may begin in a
    gap that compaction left.  The first batch may begin before the source's log start, and must be
    stored here as a whole.
    """
    if unit.least == ANOTHERS or unit.start <= end:
        return None
    first = done.objects[0].batches[0].base_offset if done.objects else unit.start
    base = max(end, min(unit.start, first))
    return Placing(unit.topic_id, unit.partition, end, base, base)


def proposals(incarnation: int, unit: ImportUnit, done: UnitDone, end: int) -> Iterator[CommitWal]:
    """Yield a proposal for each object, in order; end: where the copy ends before the first."""
    for each in done.objects:
        yield _proposal(incarnation, unit, each, end)
        end = each.batches[-1].next_offset


def _proposal(incarnation: int, unit: ImportUnit, written: WrittenObject, end: int) -> CommitWal:
    mirrored: dict[int, MirroredBatch] = {}
    for each in written.batches:
        mirrored[each.position] = MirroredBatch(
            end, each.base_offset, each.next_offset, each.leader_epoch, each.kind
        )
        end = each.next_offset
    facts = [_facts(unit, each) for each in written.batches]
    name = WalName(incarnation, written.counter)
    is_walked = written.is_walked
    return CommitWal(name, written.size_bytes, facts, frozenset(), mirrored, is_walked)


def _facts(unit: ImportUnit, batch: WrittenBatch) -> BatchFacts:
    place = (unit.topic_id, unit.partition, batch.position, batch.length)
    return BatchFacts._make(place + batch.facts)


def end_after(done: UnitDone, end: int) -> int:
    """Return where the copy ends once the unit is published."""
    return done.objects[-1].batches[-1].next_offset if done.objects else end


def refusal_of(outcomes: list[BatchOutcome]) -> str:
    """Return why a batch was refused; "" if none was.

    If an object was committed before, it is not known which of its batches were accepted.
    """
    for each in outcomes:
        if each.refusal is not None:
            return each.refusal.value
        if each.base_offset < 0:
            return "they were committed before"
    return ""
