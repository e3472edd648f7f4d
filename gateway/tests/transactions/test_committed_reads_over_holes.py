"""Readers of committed records after the marker of an abort was lost with its segment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fetch.test_fetch_holes import rows, skip
from tests.fetch.test_fetch_segments import AT_ONCE, merge
from tests.worlds.fetch_world import NOW_MS, World, batch, batches_of, fetch_world
from tidegate_coordination.rules.records.transactional_batches import TRANSACTIONAL as IN_ONE
from tidegate_coordination.rules.transactions.ending import EndAnswer, EndTransaction
from tidegate_coordination.rules.transactions.growing import GrowTransaction
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.control_batches import commits
from tidegate_protocol.messages.fetch import PartitionData
from tidegate_protocol.records import decode_records, read_header

SPANS = replace(AT_ONCE, least_kept_bytes=0, least_span_ms=0)
MINUTE = 60_000


class Producer:
    """An older client, whose transactions all have one epoch. write() sends one record."""

    def __init__(self, world: World, who: EndAnswer) -> None:
        self._world = world
        self._who = who
        self._sequence = 0

    async def write(self, value: str) -> None:
        name, who = self._world.partition("t"), self._who
        place = ((name.topic_id, 0),)
        await self._world.coordinator.propose(
            GrowTransaction("x", who.producer_id, who.epoch, place)
        )
        data = batch(
            value,
            timestamp=self._world.now_ms,
            attributes=TRANSACTIONAL,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=self._sequence,
        )
        self._sequence += 1
        [outcome] = await self._world.write(("t", 0, data), flags=IN_ONE)
        assert outcome.refusal is None

    async def end(self, *, committed: bool) -> None:
        row = self._world.state.transactions.get("x")
        assert row is not None
        who = (self._who.producer_id, self._who.epoch)
        answer = await self._world.coordinator.propose(
            EndTransaction("x", *who, committed, bumps=False, began=row.began)
        )
        assert answer.refusal is None


async def producer_of(world: World) -> Producer:
    proposal = InitialiseTransactionalId("x", 3_600_000, spare_id=77)
    return Producer(world, await world.coordinator.propose(proposal))


def committed(data: PartitionData) -> list[str]:
    """Return the values of an answer that a client shows, as the Java client does (KIP-98)."""
    begin = sorted(
        (each.first_offset, each.producer_id) for each in data.aborted_transactions or []
    )
    dropping: set[int] = set()
    shown: list[str] = []
    for each in batches_of(data):
        header = read_header(each)
        while begin and begin[0][0] <= header.last_offset:
            dropping.add(begin.pop(0)[1])
        records = list(decode_records(each, max_decompressed_bytes=1 << 20))
        if header.is_control:
            if commits(bytes(each[61:])) is False:
                dropping.discard(header.producer_id)
        elif header.producer_id not in dropping:
            shown += [bytes(record.value or b"").decode() for record in records]
    return shown


async def read(world: World) -> list[str]:
    """Return all committed values, read fetch by fetch."""
    offset, shown = world.partition("t").log_start, list[str]()
    while offset < world.partition("t").last_stable_offset:
        data = await world.fetch("t", offset, isolation_level=1)
        assert data.error_code == 0
        shown += committed(data)
        offset = read_header(batches_of(data)[-1]).last_offset + 1
    return shown


@pytest.mark.parametrize("is_merged", [False, True])
async def test_a_lost_marker_hides_no_later_transaction(is_merged: bool) -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1, retention_ms=str(MINUTE))
        producer = await producer_of(world)
        await world.write(("t", 0, batch("before")))
        await producer.write("aborted")
        world.now_ms = NOW_MS + MINUTE
        await world.create("tick")
        await producer.end(committed=False)
        await merge(world, SPANS)
        assert [(row.base_offset, row.next_offset) for row in rows(world)] == [(0, 2), (2, 3)]
        await skip(world, 1, 2)
        await producer.write("committed")
        await producer.end(committed=True)
        if is_merged:
            await merge(world, SPANS)
        assert await read(world) == ["before", "committed"]
        from_the_hole = await world.fetch("t", 2, isolation_level=1)
        assert committed(from_the_hole) == ["committed"]
