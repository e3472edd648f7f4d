"""The pure parts of an import: the walk of a unit, its objects, the order of publication."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.worlds.wire_client import records_batch
from tidegate_coordination.client.fetched_batches import BadBatch
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome, Refusal
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_pipeline.importing import partition_import
from tidegate_pipeline.importing.counters import COUNTERS_A_UNIT, ObjectCounters
from tidegate_pipeline.importing.object_filling import FilledObject, ObjectFiller
from tidegate_pipeline.importing.partition_import import TRIES, UNITS_AHEAD, PartitionImport
from tidegate_pipeline.importing.publishing import end_after, placing_before, proposals, refusal_of
from tidegate_pipeline.importing.unit_walk import UnitWalk
from tidegate_pipeline.importing.work import (
    ANOTHERS,
    Ending,
    ImportTask,
    ImportUnit,
    UnitDone,
    WrittenBatch,
    WrittenObject,
)
from tidegate_protocol import batches as pb
from tidegate_storage.objects.wal import read_wal

# The source knows the topic by its shown id.
TOPIC = Topic(b"s" * 16, "t", [0], 1, {}, shown_id=b"t" * 16)
UNIT = ImportUnit(
    1, TOPIC.topic_id, TOPIC.shown_id, "t", 0, 10, 20, ANOTHERS, -1, 1 << 30, (5, 6, 7)
)
TASK = ImportTask("c", 1, "import", -9, 4, 1 << 20, 100, (UNIT,))


def stored(*bases: int, count: int = 2) -> memoryview:
    """Batches as a leader stores them."""
    found = bytearray()
    for base in bases:
        data = bytearray(records_batch(*[b"v"] * count))
        pb.set_base_offset(memoryview(data), 0, base_offset=base, leader_epoch=3)
        found += data
    return memoryview(found)


def bases(walk: UnitWalk, records: memoryview) -> list[int]:
    return [each.mirrored.base_offset for each in walk.take(records)]


# -- the walk ----------------------------------------------------------------------------------


def test_a_unit_has_the_batches_that_begin_in_it() -> None:
    walk = UnitWalk.begin(UNIT)
    assert bases(walk, stored(9, 11, 15, 19, 21)) == [11, 15, 19]
    assert (walk.ending, walk.next_offset) == (Ending.WHOLE, 21)


def test_a_gap_at_the_end_of_a_unit_belongs_to_it() -> None:
    walk = UnitWalk.begin(UNIT)
    assert bases(walk, stored(10, 30)) == [10]
    assert (walk.ending, walk.next_offset) == (Ending.WHOLE, 20)
    nothing = UnitWalk.begin(UNIT)
    assert bases(nothing, stored(30)) == []
    assert (nothing.ending, nothing.next_offset) == (Ending.WHOLE, 20)


def test_the_first_unit_has_the_batch_that_holds_its_start() -> None:
    first = replace(UNIT, least=7)
    assert bases(UnitWalk.begin(first), stored(9, 11)) == [9, 11]
    with pytest.raises(BadBatch, match="begins before it"):
        UnitWalk.begin(replace(UNIT, least=10)).take(stored(9, 11))


def test_a_unit_goes_on_with_the_next_portion() -> None:
    walk = UnitWalk.begin(UNIT)
    assert bases(walk, stored(10, 12)) == [10, 12]
    assert (walk.ending, walk.position, walk.epoch) == (None, 14, 3)
    assert bases(walk, stored(12, 14, 18)) == [14, 18]
    assert walk.ending is Ending.WHOLE


def test_a_unit_ends_early_once_its_bytes_are_used_up() -> None:
    walk = UnitWalk.begin(replace(UNIT, budget_bytes=1))
    assert bases(walk, stored(10, 12)) == [10, 12]
    assert (walk.ending, walk.next_offset) == (Ending.EARLY, 14)


def test_an_empty_unit_is_whole() -> None:
    assert UnitWalk.begin(replace(UNIT, stop=10)).ending is Ending.WHOLE


# -- objects -----------------------------------------------------------------------------------


def filled(task: ImportTask, unit: ImportUnit, records: memoryview) -> list[FilledObject]:
    walk, filler = UnitWalk.begin(unit), ObjectFiller(task, unit)
    batches = walk.take(records)
    count = filler.fitting(batches)
    walk.cut(batches[count:])
    return [*filler.add(batches[:count]), *filler.rest()]


def test_objects_hold_the_bytes_as_they_are() -> None:
    records = stored(10, 14, 18)
    [only] = filled(TASK, UNIT, records)
    contents = read_wal(only.body)
    [entry] = contents.slices
    assert contents.bytes_of(entry) == records
    assert contents.identity == (-9, 4, 5)
    assert [each.base_offset for each in only.written.batches] == [10, 14, 18]
    assert only.key == "c/1/wal/import/-9-4/000000000005"


def test_objects_are_bounded_by_bytes_and_batches() -> None:
    records = stored(10, 12, 14)
    size = len(records) // 3
    by_bytes = filled(replace(TASK, object_bytes=2 * size), UNIT, records)
    by_count = filled(replace(TASK, object_batches=2), UNIT, records)
    for objects in (by_bytes, by_count):
        assert [len(each.written.batches) for each in objects] == [2, 1]
        assert [each.written.counter for each in objects] == [5, 6]


def test_a_unit_ends_early_once_its_counters_are_used_up() -> None:
    task = replace(TASK, object_batches=1)
    walk, filler = UnitWalk.begin(UNIT), ObjectFiller(task, UNIT)
    batches = walk.take(stored(10, 12, 14, 16, 18))
    assert filler.fitting(batches) == 3
    walk.cut(batches[3:])
    assert (walk.ending, walk.next_offset) == (Ending.EARLY, 16)


# -- publication -------------------------------------------------------------------------------


def written(counter: int, *offsets: tuple[int, int]) -> WrittenObject:
    batches = [
        WrittenBatch(40 + at, 1, (1, 9, 0, -1, -1, -1, -1, 0), base, following, 3, 0)
        for at, (base, following) in enumerate(offsets)
    ]
    return WrittenObject(counter, 100, tuple(batches))


def test_each_batch_follows_the_one_before_it_also_across_objects() -> None:
    done = UnitDone(1, Ending.WHOLE, 20, (written(5, (11, 12), (14, 15)), written(6, (15, 20))))
    made = list(proposals(4, UNIT, done, 8))
    ends = [(each.after, each.next_offset) for one in made for each in one.mirrored.values()]
    assert ends == [(8, 12), (12, 15), (15, 20)]
    assert [each.name for each in made] == [(4, 5), (4, 6)]
    assert end_after(done, 8) == 20
    assert end_after(UnitDone(1, Ending.WHOLE, 20), 8) == 8


@pytest.mark.parametrize(("first", "base"), [(9, 9), (10, 10), (12, 10), (None, 10)])
def test_a_copy_moves_to_the_first_batch_that_the_source_still_has(
    first: int | None, base: int
) -> None:
    objects = () if first is None else (written(5, (first, 13)),)
    done = UnitDone(1, Ending.WHOLE, 20, objects)
    unit = replace(UNIT, least=4)
    placing = placing_before(unit, done, 4)
    assert placing is not None
    assert (placing.after, placing.log_start, placing.next_offset) == (4, base, base)
    assert placing_before(unit, done, 10) is None
    assert placing_before(UNIT, done, 4) is None


def test_the_first_refusal_is_said() -> None:
    good = BatchOutcome(None, 1, -1, 0)
    bad = BatchOutcome(Refusal.MISPLACED, -1, -1, -1)
    assert refusal_of([good]) == ""
    assert refusal_of([good, bad]) == Refusal.MISPLACED.value
    assert "before" in refusal_of([BatchOutcome(None, -1, -1, 0)])


# -- the plan of a partition -------------------------------------------------------------------


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> PartitionImport:
    """A partition with offsets 0 to 1000; an offset takes a byte, and a unit 100 bytes."""
    monkeypatch.setattr(partition_import, "UNIT_BYTES", 100)
    found = PartitionImport(TOPIC, 0, 7)
    found.begin(Partition(7, TOPIC.topic_id, 0), 0, 1000)
    return found


def units(each: PartitionImport) -> list[ImportUnit]:
    found: list[ImportUnit] = []
    while each.may_plan:
        found.append(each.next_unit(len(found), ()))
    return found


def whole(unit: ImportUnit, next_offset: int = -1, ending: Ending = Ending.WHOLE) -> UnitDone:
    following = unit.stop if next_offset < 0 else next_offset
    return UnitDone(unit.number, ending, following, (), following - unit.start)


def published(each: PartitionImport) -> list[int]:
    found: list[int] = []
    for unit, done in each.publishable():
        found.append(unit.start)
        each.published(unit, done)
    return found


def begun(each: PartitionImport) -> Sequence[ImportUnit]:
    """Let the first unit show how many bytes an offset takes."""
    [first] = units(each)
    assert (first.start, first.stop, first.least) == (0, 1000, 0)
    assert each.take(first, whole(first, 50, Ending.EARLY))
    assert published(each) == [0]
    return units(each)


def test_the_first_unit_is_alone_and_the_others_tile_the_rest(planned: PartitionImport) -> None:
    others = begun(planned)
    starts = [50 + 100 * at for at in range(UNITS_AHEAD)]
    assert [(each.start, each.stop) for each in others] == [(at, at + 100) for at in starts]


def test_so_many_units_are_under_way_at_most(planned: PartitionImport) -> None:
    planned.offset_bytes = 1.0
    found = units(planned)
    assert [each.start for each in found] == list(range(0, 100 * UNITS_AHEAD, 100))
    assert [each.least for each in found] == [0] + [ANOTHERS] * (UNITS_AHEAD - 1)


def test_units_are_published_in_the_order_of_offsets(planned: PartitionImport) -> None:
    planned.offset_bytes = 1.0
    found = units(planned)
    for each in (found[2], found[1]):
        planned.take(each, whole(each))
        assert published(planned) == []
    planned.take(found[0], whole(found[0], 107))
    assert published(planned) == [0, 100, 200]
    assert planned.publish_at == 300


def test_a_rest_is_done_before_all_others(planned: PartitionImport) -> None:
    planned.offset_bytes = 1.0
    found = units(planned)
    planned.take(found[1], whole(found[1]))
    planned.take(found[0], whole(found[0], 30, Ending.EARLY))
    assert published(planned) == [0]
    [rest] = units(planned)[:1]
    assert (rest.start, rest.stop) == (30, 100)
    planned.take(rest, whole(rest))
    assert published(planned) == [30, 100]


def test_a_failed_unit_is_done_again_and_a_partition_is_given_up(
    planned: PartitionImport,
) -> None:
    for _ in range(TRIES - 1):
        [unit] = units(planned)
        planned.take(unit, UnitDone(unit.number, Ending.FAILED, unit.start, text="no"))
        planned.failed("no")
    assert planned.problem == ""
    planned.failed("no")
    assert planned.problem == "no"
    assert planned.is_over
    assert units(planned) == []


def test_results_of_an_earlier_beginning_do_not_count(planned: PartitionImport) -> None:
    [old] = units(planned)
    planned.begin(Partition(7, TOPIC.topic_id, 0), 0, 2000)
    assert not planned.take(old, whole(old))
    [new] = units(planned)
    assert not planned.take(old, whole(old))
    assert planned.take(new, whole(new))
    assert planned.stop == 1000


def test_nothing_beyond_a_unit_without_more_batches_is_published(
    planned: PartitionImport,
) -> None:
    planned.offset_bytes = 1.0
    found = units(planned)
    planned.take(found[1], whole(found[1]))
    planned.take(found[0], whole(found[0], 40, Ending.NO_MORE))
    assert published(planned) == [0]
    assert planned.is_over


def test_a_source_that_gives_nothing_far_below_its_end_has_failed(
    planned: PartitionImport,
) -> None:
    planned.offset_bytes = 1.0
    first, *_ = units(planned)
    done = planned.judged(first, whole(first, 40, Ending.NO_MORE))
    assert done.ending is Ending.FAILED
    assert "from offset 40 on, and ends at 1000" in done.text
    last = replace(first, stop=1000)
    assert planned.judged(last, whole(last, 40, Ending.NO_MORE)).ending is Ending.NO_MORE


def test_what_was_written_while_a_partition_was_planned_anew_does_not_count(
    planned: PartitionImport,
) -> None:
    [old] = units(planned)
    planned.take(old, whole(old))
    planned.begin(Partition(7, TOPIC.topic_id, 0, next_offset=30), 0, 1000)
    planned.published(old, whole(old))
    assert planned.publish_at == 30


def test_a_copy_that_the_source_overtook_begins_where_the_source_does() -> None:
    found = PartitionImport(TOPIC, 0, 7)
    found.begin(Partition(7, TOPIC.topic_id, 0, next_offset=30), 500, 1000)
    [unit] = units(found)
    assert (unit.start, unit.least, unit.epoch) == (500, 30, -1)


def test_what_is_copied_already_is_over() -> None:
    found = PartitionImport(TOPIC, 0, 7)
    found.begin(Partition(7, TOPIC.topic_id, 0, next_offset=30), 0, 30)
    assert found.is_over
    assert found.left_bytes == 0


# -- counters ----------------------------------------------------------------------------------


def test_counters_that_a_unit_did_not_use_are_given_out_again() -> None:
    counters = ObjectCounters()
    first, second = counters.take(), counters.take()
    assert (*first, *second) == tuple(range(2 * COUNTERS_A_UNIT))
    unit = replace(UNIT, counters=first)
    counters.release(unit, UnitDone(1, Ending.WHOLE, 20, (written(first[0], (10, 12)),)))
    third = counters.take()
    assert third == (*first[1:], 2 * COUNTERS_A_UNIT)
