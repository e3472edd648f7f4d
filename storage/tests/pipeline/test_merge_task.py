"""Merge tasks in this process: segments become one, and results hold the errors."""

from __future__ import annotations

from tidegate_pipeline.tasks.merge_task import run_task
from tidegate_pipeline.tasks.work import Asked, MergeTask, MergeUnit, Source
from tidegate_protocol.batches import set_base_offset
from tidegate_protocol.records import Record, build_batch
from tidegate_storage.objects.cost_sums import KindBook
from tidegate_storage.objects.keys import segment_key
from tidegate_storage.objects.segment_format import HEADER_BYTES, AbortedTransaction, read_segment
from tidegate_storage.objects.segments import FinalBatch, SegmentBuilder
from tidegate_storage.stores.counting_store import CountingStore
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer

TOPIC = b"t" * 16
INCARNATION = 9


async def stored_segment(
    store: MemoryObjectStore, base_offset: int, *aborted: AbortedTransaction
) -> Source:
    """Put a segment of three records."""
    data = bytearray(build_batch([Record(at, 5 + at, None, b"value") for at in range(3)]))
    set_base_offset(data, 0, base_offset=base_offset, leader_epoch=0)
    builder = SegmentBuilder(TOPIC, 0, base_offset)
    builder.append(FinalBatch(data, base_offset + 3, 3, 7))
    for each in aborted:
        builder.add_aborted(each)
    sealed = builder.seal(base_offset + 3)
    key = f"source-{base_offset}"
    await store.put(key, sealed.body)
    position = HEADER_BYTES + sealed.length
    return Source(
        key,
        position,
        sealed.length,
        base_offset,
        base_offset + 3,
        sealed.index.check,
        -1,
        len(sealed.body) - position,
    )


def task_of(*units: MergeUnit) -> MergeTask:
    return MergeTask("c", 1, INCARNATION, 1 << 20, units)


async def test_a_merge_carries_aborted_transactions_over() -> None:
    store = MemoryObjectStore(lambda: 0.0)
    across, inside = AbortedTransaction(7, 1, 4), AbortedTransaction(8, 3, 3)
    sources = (
        await stored_segment(store, 0, across),
        await stored_segment(store, 3, across, inside),
    )

    [result] = await run_task(store, task_of(MergeUnit(1, TOPIC, 0, sources)), 5)

    assert (result.error, result.records) == ("", 6)
    body = await store.get(segment_key("c", 1, TOPIC, 0, 0, INCARNATION, 5))
    assert read_segment(body).aborted == (across, inside)


class Strange(MemoryObjectStore):
    """A store that breaks its contract for some keys."""

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if key == "source-3":
            raise ValueError("a range of 3")
        return await super().get_range(key, start, length)

    async def put(self, key: str, body: Buffer) -> None:
        if "/00000000000000000006-" in key:
            raise ZeroDivisionError
        await super().put(key, body)


async def test_an_unexpected_error_fails_its_unit_alone() -> None:
    store = Strange(lambda: 0.0)
    units = [
        MergeUnit(at, TOPIC, 0, (await stored_segment(store, base_offset),))
        for at, base_offset in enumerate((0, 3, 6, 9))
    ]

    results = await run_task(store, task_of(*units), 5)

    assert [each.number for each in results] == [0, 1, 2, 3]
    first, unread, unwritten, last = (each.error for each in results)
    assert (first, last) == ("", "")
    assert unread.startswith("object source-3: ValueError: a range of 3 (unexpected, at test_merge")
    assert unwritten.startswith("ZeroDivisionError (unexpected, at test_merge_task.py:")
    assert not results[2].segments


async def test_a_task_tells_what_it_asked_of_the_store() -> None:
    book = KindBook()
    store = Strange(lambda: 0.0)
    units = [
        MergeUnit(at, TOPIC, 0, (await stored_segment(store, base_offset),))
        for at, base_offset in enumerate((0, 3, 6))
    ]

    results = await run_task(CountingStore(store, book), task_of(*units), 5)

    told, *others = (each.asked for each in results)
    assert others == [None, None]
    assert told == Asked(dict(book.requests), dict(book.stored_bytes), dict(book.got_bytes))
    assert told.requests["put segments"] == 2  # also one that failed
    assert told.stored_bytes["segments"] == sum(each.size_bytes for each in results[0].segments)
