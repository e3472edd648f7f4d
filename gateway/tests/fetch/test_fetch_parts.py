"""The parts of the fetch path by themselves: prepared runs, passes, waiters."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.fetch_world import batch, fetch_world
from tidegate_coordination.events.cluster import Run
from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway.fetch.fetch_plan import ReadPass
from tidegate_gateway.fetch.fetch_waiters import FetchWaiters
from tidegate_gateway.fetch.prepared_runs import CorruptRun, PreparedRun, prepare_run
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidegate_protocol.records import read_header
from tidegate_storage.objects.runs import run_check

TOPIC = b"t" * 16


def one_run(*batches: bytes, base_offset: int = 0) -> tuple[bytes, RunRow]:
    raw = b"".join(batches)
    headers = [read_header(each) for each in batches]
    count = sum(header.record_count for header in headers)
    check = run_check(TOPIC, 3, [header.crc for header in headers])
    return raw, RunRow(base_offset, base_offset + count, 0, 0, len(raw), 9, check, 0)


def prepared(raw: bytes, row: RunRow, partition: Partition | None = None) -> PreparedRun:
    partition = partition or Partition(0, TOPIC, 3)
    return prepare_run(memoryview(bytearray(raw)), row, partition, "the-key")


def test_a_prepared_run_knows_its_batches() -> None:
    raw, row = one_run(batch("a", "b"), batch("c"), base_offset=100)
    run = prepared(raw, row)

    assert list(run.base_offsets) == [100, 102]
    assert [run.find(offset) for offset in (0, 100, 101, 102, 200)] == [0, 0, 0, 1, 1]
    assert [read_header(run.batch(index)).base_offset for index in (0, 1)] == [100, 102]
    with pytest.raises(TypeError):
        run.view[0] = 1  # a served run is read-only


@pytest.mark.parametrize(
    "other", [Partition(0, TOPIC, 4), Partition(0, b"u" * 16, 3)], ids=["partition", "topic"]
)
def test_batches_of_others_are_refused(other: Partition) -> None:
    raw, row = one_run(batch("a"), base_offset=7)
    with pytest.raises(CorruptRun, match=f"the-key.*partition {other.index}, offset 7.*not commi"):
        prepared(raw, row, other)


def test_a_run_in_another_order_is_refused() -> None:
    first, second = batch("a"), batch("b")
    _, row = one_run(first, second)
    with pytest.raises(CorruptRun, match="not committed for this partition"):
        prepared(second + first, row)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda raw: raw[:-1], "can lie here"),
        (lambda raw: raw + b"x" * 5, "cut short"),
        (lambda raw: raw[:16] + b"\x01" + raw[17:], "magic 1"),
        (lambda raw: raw[:8] + bytes(4) + raw[12:], "batch of 0 bytes"),
        (lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), "CRC"),
        (lambda raw: raw + raw, "holds records up to 2"),
        (lambda raw: b"", "holds records up to 0"),
    ],
)
def test_damage_is_seen_before_anything_is_written(damage: object, reason: str) -> None:
    raw, row = one_run(batch("a"))
    damaged = bytearray(damage(raw))  # type: ignore[operator]
    before = bytes(damaged)
    with pytest.raises(CorruptRun, match=reason):
        prepare_run(memoryview(damaged), row, Partition(0, TOPIC, 3), "the-key")
    assert bytes(damaged) == before


def test_nothing_at_or_above_the_end_offset_is_read() -> None:
    """With read_committed the end is the last stable offset: later batches are not read."""
    partition = Partition(0, TOPIC, 3)
    runs: dict[int, PreparedRun] = {}
    for _ in range(2):
        raw, row = one_run(batch("a", "b"), batch("c"), base_offset=partition.next_offset)
        partition.fold_run(Run(0, 0, row.length, row.base_offset, 3, 9, row.check, 0), 0)
        runs[row.base_offset] = prepared(raw, row)

    def bytes_below(end_offset: int) -> int:
        plan = ReadPass(lambda _, row: runs[row.base_offset], lambda _: None, {}, 10**6)
        pieces = plan.read(partition, 0, end_offset, 10**6)
        assert isinstance(pieces, list)
        return sum(map(len, pieces))

    long, short = len(batch("a", "b")), len(batch("c"))
    assert [bytes_below(end) for end in (0, 2, 3, 5, 6)] == [
        0,
        long,
        long + short,
        2 * long + short,
        2 * (long + short),
    ]


async def test_records_that_do_not_fit_the_reply_are_not_loaded() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(("a", 0, batch("x" * 500)))
        await world.write(("a", 1, batch("x" * 500)))
        partitions = [FetchPartition(p, partition_max_bytes=10**6) for p in (0, 1)]
        topics = [FetchTopic("a", partitions=partitions)]
        await world.ask(FetchRequest(min_bytes=1, max_bytes=400, topics=topics))

    assert len(world.store.reads) == 1


def grow(partition: Partition, length: int) -> None:
    partition.fold_run(Run(partition.number, 0, length, partition.next_offset, 1, 9, 0, 0), 0)


async def test_a_waiter_counts_the_bytes_that_came(autojump_clock: trio.testing.MockClock) -> None:
    table = PartitionTable()
    one, other = (table[number] for number in table.add(TOPIC, 0, 2))
    waiters = FetchWaiters(table)
    woken: list[str] = []

    async def wait(name: str, seen: dict[int, int], missing_bytes: int) -> None:
        await waiters.wait(seen, missing_bytes, trio.current_time() + 10)
        woken.append(name)

    async def change(*numbers: int) -> list[str]:
        waiters.on_change(set(numbers))
        await trio.testing.wait_all_tasks_blocked()
        found, woken[:] = sorted(woken), []
        return found

    async with trio.open_nursery() as nursery:
        grow(one, 100)
        nursery.start_soon(wait, "any", {0: 1}, 1)
        nursery.start_soon(wait, "much", {0: 1, 1: 0}, 100)
        nursery.start_soon(wait, "elsewhere", {1: 0}, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert await change(0) == []  # the partition changed, but did not grow
        grow(one, 60)
        assert await change(0) == ["any"]
        assert await change(0) == []
        grow(other, 39)
        assert await change(1) == ["elsewhere"]
        grow(one, 1)
        assert await change(0, 1) == ["much"]
        assert len(waiters) == 0
    assert trio.current_time() < 1


async def test_a_healed_partition_is_sent_again_with_nothing_new_in_it() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        wanted = FetchTopic("a", partitions=[FetchPartition(0, partition_max_bytes=1000)])
        world.store.is_away = True
        first = await world.ask(FetchRequest(min_bytes=1, session_epoch=0, topics=[wanted]))
        wanted.partitions[0].fetch_offset = 1
        healed, quiet = [
            await world.ask(
                FetchRequest(
                    min_bytes=1,
                    session_id=first.session_id,
                    session_epoch=epoch,
                    topics=[wanted],
                )
            )
            for epoch in (1, 2)
        ]

    assert first.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert healed.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert quiet.responses == []
