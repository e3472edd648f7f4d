"""The aborted transactions of a partition that a reader needs."""

from __future__ import annotations

from random import Random

from tests.worlds.transaction_world import TransactionWorld, batch
from tidegate_coordination.events.cluster import (
    LogStartsMoved,
    RunsSkipped,
    Segment,
    SegmentsOfPartition,
    SegmentsPublished,
    SkippedStretch,
    SkipsEnded,
)
from tidegate_coordination.state.records.aborted import Aborted, AbortedRow
from tidegate_coordination.state.records.partitions import Partition


def rows_of(aborted: Aborted) -> list[AbortedRow]:
    return [aborted[at] for at in range(len(aborted))]


def test_a_reader_hears_of_the_transactions_that_overlap_its_range() -> None:
    rng = Random(1)
    for _ in range(200):
        aborted, rows, end, opened = Aborted(), list[AbortedRow](), 0, dict[int, int]()
        for _ in range(rng.randint(1, 30)):
            producer = rng.randrange(6)
            if producer not in opened:
                opened[producer] = end
                end += rng.randint(1, 3)
                continue
            first, last = opened.pop(producer), end
            end += 1
            stable = min(opened.values(), default=end)
            if rng.random() < 0.7:
                rows.append(AbortedRow(producer, first, last, stable))
                aborted.append(*rows[-1])
        start = rng.randrange(end + 1)
        stop = min(opened.values(), default=end)
        expected = {row for row in rows if row.last >= start and row.first < stop}
        assert set(aborted.between(start, stop)) == expected
        named = [(row.first, row.producer_id) for row in aborted.between(start, stop)]
        assert aborted.named(start, stop) == named


def test_rows_below_an_offset_are_dropped() -> None:
    aborted = Aborted()
    for at in range(5):
        aborted.append(at, 10 * at, 10 * at + 5, 10 * at + 6)
    aborted.drop_below(25)
    assert [row.last for row in rows_of(aborted)] == [25, 35, 45]
    decoded = Aborted.decode(aborted.encode())  # type: ignore[arg-type]
    assert rows_of(decoded) == rows_of(aborted)


def world_with_aborts(count: int) -> TransactionWorld:
    """Return a world with transactions of one record each."""
    world = TransactionWorld()
    producer = world.init()
    for _ in range(count):
        world.write(batch(producer, 0))
        producer = world.end(producer, committed=False)
    return world


def lasts(partition: Partition) -> list[int]:
    assert partition.aborted is not None
    return [row.last for row in rows_of(partition.aborted)]


def test_deleted_records_take_their_aborted_rows_along() -> None:
    world = world_with_aborts(3)
    partition = world.partition()
    assert lasts(partition) == [1, 3, 5]
    world.apply(LogStartsMoved(((partition.number, 4),)))
    assert lasts(partition) == [5]
    assert len(partition.runs) == 2


def test_records_may_be_deleted_beyond_the_last_stable_offset() -> None:
    world = TransactionWorld()
    producer = world.init()
    world.write(batch(producer, 0), batch(producer, 1))
    partition = world.partition()
    world.apply(LogStartsMoved(((partition.number, 2),)))
    assert partition.last_stable_offset == 2
    world.end(producer, committed=False)
    assert (partition.last_stable_offset, partition.next_offset) == (3, 3)


def test_aborted_rows_stay_for_skipped_runs_that_may_come_back() -> None:
    """A merge of all remaining runs must not drop these rows: no segment's index names them."""
    world = world_with_aborts(3)
    partition = world.partition()
    number = partition.number
    hole = (SkippedStretch(number, 2, 3),)

    def merge(attempt: int, base: int, end: int) -> None:
        segment = Segment(attempt, 99, 9, 9, base, end, 5, 5)
        merged = SegmentsOfPartition(number, base, end, (segment,), end - base, 9)
        world.apply(SegmentsPublished(1, (merged,)))

    world.apply(RunsSkipped(1, hole))
    merge(1, 0, 2)
    merge(2, 3, 6)
    assert lasts(partition) == [3, 5]
    world.apply(SkipsEnded(1, hole, are_back=True))
    merge(3, 2, 3)
    assert lasts(partition) == []


def test_aborted_rows_stay_above_records_deleted_in_a_hole_at_the_front() -> None:
    world = world_with_aborts(3)
    partition = world.partition()
    hole = (SkippedStretch(partition.number, 0, 4),)
    world.apply(RunsSkipped(1, hole))
    world.apply(LogStartsMoved(((partition.number, 2),)))
    assert (partition.log_start, lasts(partition)) == (4, [3, 5])


def test_a_reader_of_what_came_back_hears_of_all_that_was_aborted_there() -> None:
    """When the first transaction ends, the log start is above the second transaction's begin."""
    world = TransactionWorld()
    first, second = world.init("first"), world.init("second")
    world.write(batch(second, 0))
    world.write(batch(first, 0))
    partition = world.partition()
    hole = (SkippedStretch(partition.number, 0, 1),)
    world.apply(RunsSkipped(1, hole))
    assert (partition.log_start, partition.last_stable_offset) == (1, 1)
    world.end(first, "first", committed=False)
    world.end(second, "second", committed=False)
    world.apply(SkipsEnded(1, hole, are_back=True))
    assert (partition.log_start, partition.last_stable_offset) == (0, 4)
    assert partition.aborted is not None
    assert partition.aborted.named(0, 1) == [(0, second.producer_id)]
