"""Which batches a search by time walks, and its results if only bounds of times are known."""

from __future__ import annotations

from array import array
from typing import Any, cast

import pytest
from trio.testing import MockClock

from tidegate_coordination.events.cluster import RUN_LOG_APPEND_TIME, RUN_WALKED, Run
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.fetch import time_search
from tidegate_gateway.fetch.log_reader import LogReader
from tidegate_gateway.fetch.offsets_records import Found
from tidegate_gateway.work.client import Client
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol import batch_walk
from tidegate_protocol.batches import read_header, with_header
from tidegate_protocol.records import Record, build_batch
from tidegate_storage.objects.prepared_runs import PreparedRun

POOL = inline_pools().records.of(Client("c"))
PARTITION = Partition(0, b"t" * 16, 0)


def prepared(base: int, batches: list[tuple[int, ...]], **head: int) -> PreparedRun:
    """Return a run of batches of records with these times.

    head: replaces fields in all headers.
    """
    data, offsets, starts = b"", array("q"), array("I")
    for times in batches:
        records = [Record(base + at, time, b"k", b"v") for at, time in enumerate(times)]
        raw = build_batch(records)
        batch, _ = with_header(memoryview(raw), read_header(raw)._replace(**head))
        offsets.append(base)
        starts.append(len(data))
        data += bytes(batch)
        base += len(times)
    starts.append(len(data))
    return PreparedRun(memoryview(data), offsets, starts, base, base)


class Runs:
    """A reader of runs in memory, by their first offset.  read: first offsets of the read runs."""

    def __init__(self, *runs: PreparedRun) -> None:
        self._runs = {each.base_offsets[0]: each for each in runs}
        self.read: list[int] = []

    async def parts(self, partition: Partition, row: RunRow, offset: int) -> list[RunRow]:
        return [row]

    async def run_at(self, partition: Partition, row: RunRow) -> PreparedRun:
        self.read.append(row.base_offset)
        return self._runs[row.base_offset]


def row(run: PreparedRun, max_timestamp: int, flags: int = 0) -> RunRow:
    return RunRow(run.base_offsets[0], run.next_offset, 0, 0, 0, max_timestamp, 0, flags)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the first offset of each batch that is walked."""
    found: list[int] = []
    real = batch_walk.walk_batch

    def walk_batch(batch: memoryview, header: Any, **options: Any) -> Any:
        found.append(header.base_offset)
        return real(batch, header, **options)

    monkeypatch.setattr(time_search, "walk_batch", walk_batch)
    return found


@pytest.mark.parametrize(
    ("flags", "walked"),
    [(RUN_WALKED, [2]), (RUN_LOG_APPEND_TIME, [2]), (0, [0, 2])],
)
async def test_batches_before_the_answer_are_walked_only_if_headers_may_lie(
    flags: int, walked: list[int], walks: list[int], autojump_clock: MockClock
) -> None:
    run = prepared(0, [(10, 11), (20, 21), (30, 31)])
    reader = cast(LogReader, Runs(run))
    found = await time_search._first_in_run(reader, POOL, PARTITION, row(run, 31, flags), 21, 0)
    assert found == Found(3, 21)
    assert walks == walked


@pytest.mark.parametrize("claimed", [-1, 0, 25, 1 << 50])
async def test_a_false_header_hides_no_record_and_invents_none(
    claimed: int, autojump_clock: MockClock
) -> None:
    run = prepared(0, [(10, 11), (20, 21)], max_timestamp=claimed)
    reader = cast(LogReader, Runs(run))
    for timestamp, offset, expected in [
        (0, 0, Found(0, 10)),
        (12, 0, Found(2, 20)),
        (12, 3, Found(3, 21)),
        (22, 0, None),
        (None, 0, Found(3, 21)),
    ]:
        found = await time_search._first_in_run(
            reader, POOL, PARTITION, row(run, 21), timestamp, offset
        )
        assert found == expected


def partition_of(log_start: int, *rows: RunRow) -> Partition:
    """Return a partition of these runs."""
    partition = Partition(0, b"t" * 16, 0)
    for base, end, number, position, length, newest, check, flags in rows:
        run = Run(0, position, length, base, end - base, newest, check, flags)
        partition.fold_run(run, number)
    partition.log_start = log_start
    return partition


async def test_the_newest_record_is_found_behind_parts_with_later_bounds(
    autojump_clock: MockClock,
) -> None:
    """Merges give each chunk the largest time of its mirrored run, and headers may be false."""
    first, second, third = (
        prepared(0, [(10, 50)]),
        prepared(2, [(60, 61)]),
        prepared(4, [(95, 70)]),
    )
    runs = Runs(first, second, third)
    reader = cast(LogReader, runs)
    for bounds, read in [
        ((100, 100, 95), [0, 2, 4]),
        ((50, 61, 100), [4]),
        ((98, 97, 96), [0, 2, 4]),
        ((50, 61, 95), [4]),  # the bounds of the others are below 95
    ]:
        rows = [row(run, at) for run, at in zip((first, second, third), bounds, strict=True)]
        partition = partition_of(1, *rows)
        none = time_search._NOTHING
        in_parts = await time_search._largest_in_parts(reader, POOL, partition, rows, none)
        assert in_parts == await time_search.find_largest(reader, POOL, partition) == Found(4, 95)
        assert runs.read == 2 * read
        runs.read.clear()


@pytest.mark.parametrize("bounds", [(50, 50), (60, 50), (50, 60), (60, 60)])
async def test_of_equally_new_records_the_first_is_found(
    bounds: tuple[int, int], autojump_clock: MockClock
) -> None:
    first, second = prepared(0, [(50, 50)]), prepared(2, [(50, 10)])
    reader = cast(LogReader, Runs(first, second))
    partition = partition_of(0, row(first, bounds[0]), row(second, bounds[1]))
    assert await time_search.find_largest(reader, POOL, partition) == Found(0, 50)


async def test_below_the_log_start_no_record_is_newest(autojump_clock: MockClock) -> None:
    first, second = prepared(0, [(90, 20), (30, 40)]), prepared(4, [(35, 10)])
    reader = cast(LogReader, Runs(first, second))
    rows = row(first, 90), row(second, 35)
    assert await time_search.find_largest(reader, POOL, partition_of(1, *rows)) == Found(3, 40)
    assert await time_search.find_largest(reader, POOL, partition_of(4, *rows)) == Found(4, 35)


async def test_records_without_times_are_not_newest(autojump_clock: MockClock) -> None:
    first = prepared(0, [(-1, -1)])
    reader = cast(LogReader, Runs(first))
    for bound in (-1, 50):
        partition = partition_of(0, row(first, bound))
        assert await time_search.find_largest(reader, POOL, partition) is None


async def test_a_search_for_the_newest_record_looks_into_few_runs_that_promise_too_much(
    autojump_clock: MockClock,
) -> None:
    many = [prepared(2 * at, [(at, at)]) for at in range(time_search.MAX_LOOKS + 10)]
    runs = Runs(*many)
    reader = cast(LogReader, runs)
    partition = partition_of(0, *(row(each, 1000 + at) for at, each in enumerate(many)))
    newest = len(many) - 1
    assert await time_search.find_largest(reader, POOL, partition) == Found(2 * newest, newest)
    assert len(runs.read) == time_search.MAX_LOOKS
