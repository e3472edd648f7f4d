"""Planted bugs of the pipeline, and of reading and deleting merged objects; see planted_bugs.py.

`unwatched` switches the simulator's own checks of segments off, so that clients must notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.bugs.records.test_planted_bugs import WrongCache, in_gateway
from tests.worlds.planted_bugs import Plant, must_be_found, put_in_place, untried
from tests.worlds.rule_search import in_rules
from tidegate_coordination.coordinator.replica import Replica
from tidegate_coordination.events.cluster import Segment, SegmentsPublished
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.housekeeping import collectable
from tidegate_coordination.rules.proposal import Decided
from tidegate_coordination.rules.records import segments as segment_rules
from tidegate_coordination.rules.records.segments import Publication, PublishSegments
from tidegate_coordination.state.records.objects import ObjectTable
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.fetch.segment_rows import chunk_rows
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.tasks import merge_task, segment_writing
from tidegate_pipeline.tasks.sources import place, runs_of
from tidegate_simulation.checks.segment_checks import walk_batches
from tidegate_storage.objects.segment_format import HEADER_BYTES, TRAILER
from tidegate_storage.objects.segments import FinalBatch, SegmentBuilder


def unwatched(plant: Plant) -> Plant:
    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr("tidegate_simulation.invariants.invariants.check_published", lambda *_: None)
        plant(patch)

    both.__name__ = f"{plant.__name__}_unwatched"
    return both


# -- publishing -----------------------------------------------------------------------------------


def publishes_over_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_rules, "_judge", lambda view, unit, taken: Publication.PUBLISHED)


def publishes_after_its_end(patch: pytest.MonkeyPatch) -> None:
    """A driver does not check which incarnations are live, not even its own."""
    has_ended = Replica.has_left.fget  # type: ignore[attr-defined]

    def decide(self: PublishSegments, view: Any) -> Any:
        answers = tuple(segment_rules._judge(view, each, set()) for each in self.units)
        pairs = zip(self.units, answers, strict=True)
        good = tuple(each.event() for each, answer in pairs if answer is Publication.PUBLISHED)
        event = SegmentsPublished(self.incarnation, good)
        return Decided((event,) if good else (), answers)

    def is_gateway_and_has_ended(self: Any) -> bool:
        home = self.state.gateways.homes.get(self.incarnation, (-1, ""))
        return bool(home[0] >= 0 and has_ended(self))

    patch.setattr(PublishSegments, "decide", decide)
    patch.setattr(Replica, "has_left", property(is_gateway_and_has_ended))


def releases_parents_twice(patch: pytest.MonkeyPatch) -> None:
    real = ObjectTable.supersede

    def wrong(self: Any, number: int, log_time_ms: int) -> None:
        real(self, number, log_time_ms)
        if number not in self.dead:
            self.release(number, log_time_ms)

    patch.setattr(ObjectTable, "supersede", wrong)


def releases_no_parents(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, number: int, log_time_ms: int) -> None:
        self._superseded.add(number)

    patch.setattr(ObjectTable, "supersede", wrong)


def deletes_parents_itself(patch: pytest.MonkeyPatch) -> None:
    """The driver deletes parents itself, before it publishes their segments, which may fail."""
    real = Driver._publish

    async def wrong(self: Any, finished: Any) -> int:
        state = self._coordinator.state
        keys = [
            object_key(state, state.objects.name(row.object_number))
            for each, _ in finished
            for row in each.parents
        ]
        await self._runner._store.delete_many(keys)
        return await real(self, finished)

    patch.setattr(Driver, "_publish", wrong)


# -- merging --------------------------------------------------------------------------------------


def _prove_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_writing.Proof, "__eq__", lambda self, other: True)


class ForgetsTimes(SegmentBuilder):
    def append(self, batch: FinalBatch) -> None:
        super().append(batch._replace(max_timestamp=0))


def drops_batches(patch: pytest.MonkeyPatch) -> None:
    def append(self: Any, batch: FinalBatch) -> None:
        self.seen = getattr(self, "seen", 0) + 1
        if self._batches != 1 or self.seen % 3:
            real(self, batch)

    real = SegmentBuilder.append
    patch.setattr(SegmentBuilder, "append", append)
    _prove_nothing(patch)


def forgets_times(patch: pytest.MonkeyPatch) -> None:
    put_in_place(patch, merge_task, "SegmentBuilder", ForgetsTimes)


def reorders_sources(patch: pytest.MonkeyPatch) -> None:
    real = merge_task._build

    def wrong(task: Any, unit: Any, read: Any) -> Any:
        first, *rest = unit.sources
        if len(rest) > 2:
            swapped = (first, rest[1], rest[0], *rest[2:])
            unit = msgspec.structs.replace(unit, sources=swapped)
        return real(task, unit, read)

    patch.setattr(merge_task, "_build", wrong)


def reorders_unproven(patch: pytest.MonkeyPatch) -> None:
    def prove(body: bytearray) -> segment_writing.Proof:
        proof = segment_writing.Proof()
        end = TRAILER.unpack_from(body, len(body) - TRAILER.size)[0]
        for batch in walk_batches(bytes(body[HEADER_BYTES:end])):
            proof.take(batch.base_offset, batch.crc, batch.records)
        return proof

    reorders_sources(patch)
    patch.setattr(merge_task, "prove", prove)


def writes_another_partition(patch: pytest.MonkeyPatch) -> None:
    real = merge_task._build

    def wrong(task: Any, unit: Any, read: Any) -> Any:
        for other in task.units:
            is_alike = other.base_offset == unit.base_offset and other is not unit
            if is_alike and all(place(each) in read for each in other.sources):
                return real(task, other, read)
        return real(task, unit, read)

    patch.setattr(merge_task, "_build", wrong)


def forgets_append_times(patch: pytest.MonkeyPatch) -> None:
    real = runs_of

    def wrong(topic_id: bytes, partition: int, source: Any, stored: Any) -> Any:
        return real(topic_id, partition, msgspec.structs.replace(source, append_time=-1), stored)

    patch.setattr(merge_task, "runs_of", wrong)


def ends_one_too_soon(patch: pytest.MonkeyPatch) -> None:
    real: Any = Segment

    def wrong(*fields: Any) -> Any:
        return real(*fields[:5], fields[5] - 1, *fields[6:])

    patch.setattr(segment_writing, "Segment", wrong)


def ends_unjudged(patch: pytest.MonkeyPatch) -> None:
    ends_one_too_soon(patch)
    patch.setattr(segment_rules, "_is_sound", lambda unit: True)


# -- reading --------------------------------------------------------------------------------------


def _in_chunks(patch: pytest.MonkeyPatch, change: Any) -> None:
    def wrong(row: RunRow, index: Any, offset: int) -> Iterator[RunRow]:
        yield from change(list(chunk_rows(row, index, offset)))

    for module in ("segment_rows", "log_reader"):
        patch.setattr(f"tidegate_gateway.fetch.{module}.chunk_rows", wrong)


def begins_one_chunk_late(patch: pytest.MonkeyPatch) -> None:
    _in_chunks(patch, lambda rows: rows[1:] or rows)


def looks_one_chunk_further(patch: pytest.MonkeyPatch) -> None:
    def change(rows: Sequence[RunRow]) -> list[RunRow]:
        shifted = [one._replace(position=other.position) for one, other in pairwise(rows)]
        return [*shifted, rows[-1]]

    _in_chunks(patch, change)


class ForgetsTheObject(WrongCache):
    """The keys of runs, chunks and indexes omit the object's name."""

    def wrong(self, key: Any) -> Any:
        return ("any", key[1]) if isinstance(key[0], tuple) else key


# -- deleting -------------------------------------------------------------------------------------


def has_no_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "tidegate_gateway.upkeep.housekeeper.collectable",
        lambda state, _, copied_ms, **more: collectable(state, 0, copied_ms, **more),
    )


def does_not_wait_for_the_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "tidegate_gateway.upkeep.housekeeper.collectable",
        lambda state, grace_ms, _, **more: collectable(state, grace_ms, **more),
    )


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (
            untried(publishes_over_anything),
            {in_rules("replaces runs twice"), "segment", "state broken"},
            77,
        ),
        (publishes_after_its_end, {"invariant 8"}, 21),
        (releases_parents_twice, {in_rules("cannot be folded"), "invariant 4"}, 32),
        (releases_no_parents, {in_rules("are needed"), "invariant 4"}, 3),
        (deletes_parents_itself, {"not stored"}, 5),
        (drops_batches, {"segment"}, 6),
        (unwatched(drops_batches), {"skipped", "lost"}, 6),
        (forgets_times, {"segment"}, 3),
        (unwatched(forgets_times), {"wrong time search", "retained too short"}, 17),
        (reorders_sources, {"not merged"}, 5),
        (reorders_unproven, {"segment"}, 5),
        (unwatched(reorders_unproven), {"false error", "non-monotonic poll", "skipped"}, 5),
        (writes_another_partition, {"segment"}, 10),
        (unwatched(writes_another_partition), {"foreign record", "false error", "lost"}, 45),
        (forgets_append_times, {"segment"}, 3),
        (ends_one_too_soon, {"not merged"}, 5),
        (untried(ends_unjudged), {"segment"}, 5),
        (begins_one_chunk_late, {"skipped"}, 5),
        (looks_one_chunk_further, {"false error"}, 5),
        (in_gateway(ForgetsTheObject, "RangeCache"), {"foreign record", "false error"}, 4),
        (has_no_grace, {"deleted too soon"}, 3),
        (does_not_wait_for_the_copy, {"deleted before the copy"}, 5),
    ],
)
def test_planted_bug_of_the_pipeline_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, lambda plan: plan.pipelines.drivers > 0)
