"""A restore with transactions that were open at the copy of the log or in its lost end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from trio.testing import MockClock

from tests.recovery.test_backup_gateway import restored
from tests.worlds.wire_client import (
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    wire_world,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.records import decode_records, walk
from tidegate_storage.stores.memory_store import MemoryObjectStore

T, GROUP = "t", "g"
FENCED = {
    E.INVALID_PRODUCER_EPOCH,
    E.PRODUCER_FENCED,
    E.INVALID_PRODUCER_ID_MAPPING,
}
VERSIONS = pytest.mark.parametrize("version", [1, 2])


@dataclass
class Writer:
    """A client of one transactional id, which speaks version 1 or 2 of the protocol."""

    world: WireWorld
    topic_id: bytes
    name: str
    version: int
    producer: tuple[int, int] = (-1, -1)
    sequences: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def client(self) -> WireClient:
        return self.world.connect()

    async def begin(self) -> None:
        request = ip.InitProducerIdRequest(self.name, 60_000)
        answer = await self.client.call("InitProducerId", 3 + self.version, request)
        assert answer.error_code == E.NONE
        self.producer, self.sequences = (answer.producer_id, answer.producer_epoch), {}

    async def write(self, *partitions: int) -> set[int]:
        """Write the writer's name to partitions; return the codes."""
        if self.version == 1:
            topics = [ap.AddPartitionsToTxnTopic(T, list(partitions))]
            adding = ap.AddPartitionsToTxnRequest([], self.name, *self.producer, topics)
            answer = await self.client.call("AddPartitionsToTxn", 3, adding)
            [result] = answer.results_by_topic_v3_and_below
            codes = {each.partition_error_code for each in result.results_by_partition}
            if codes != {E.NONE}:
                return codes
        return {await self._write_one(each) for each in partitions}

    async def _write_one(self, partition: int) -> int:
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + 1
        batch = records_batch(
            self.name.encode(),
            attributes=TRANSACTIONAL,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=sequence,
        )
        named = "" if self.version == 2 else T
        topic_id = self.topic_id if self.version == 2 else bytes(16)
        request = produce_request(
            [(named, partition, batch)], transactional_id=self.name, topic_id=topic_id
        )
        answer = await self.client.call("Produce", 11 + 2 * (self.version - 1), request)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def stage(self, offset: int) -> int:
        if self.version == 1:
            adding = ao.AddOffsetsToTxnRequest(self.name, *self.producer, GROUP)
            await self.client.call("AddOffsetsToTxn", 3, adding)
        part = tc.TxnOffsetCommitRequestPartition(0, offset)
        topics = [tc.TxnOffsetCommitRequestTopic(T, [part])]
        request = tc.TxnOffsetCommitRequest(self.name, GROUP, *self.producer, topics=topics)
        answer = await self.client.call("TxnOffsetCommit", 2 * self.version + 1, request)
        return int(answer.topics[0].partitions[0].error_code)

    async def commit(self) -> int:
        request = et.EndTxnRequest(self.name, *self.producer, True)
        answer = await self.client.call("EndTxn", 3 + self.version, request)
        if self.version == 2 and not answer.error_code:
            self.producer, self.sequences = (answer.producer_id, answer.producer_epoch), {}
        return int(answer.error_code)


async def committed_values(world: WireWorld, partition: int) -> list[bytes | None]:
    """Return the values that a client with read_committed sees."""
    asked = fe.FetchPartition(partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fe.FetchRequest(
        max_bytes=1 << 20,
        isolation_level=1,
        session_epoch=-1,
        topics=[fe.FetchTopic(topic=T, partitions=[asked])],
    )
    answer = await world.connect().call("Fetch", 12, request)
    [found] = answer.responses[0].partitions
    data = memoryview(found.records or b"")
    aborted = {(each.producer_id, each.first_offset) for each in found.aborted_transactions}
    return [
        record.value
        for at, header in walk(data)
        if not header.is_control
        and not any(header.producer_id == each and header.base_offset >= at for each, at in aborted)
        for record in decode_records(
            data[at : at + header.size_bytes], max_decompressed_bytes=1 << 20
        )
    ]


async def committed_offset(world: WireWorld) -> tuple[int, int]:
    topics = [of.OffsetFetchRequestTopics(T, partition_indexes=[0])]
    groups = [of.OffsetFetchRequestGroup(GROUP, topics=topics)]
    request = of.OffsetFetchRequest(groups=groups, require_stable=True)
    answer: Any = await world.connect().call("OffsetFetch", 8, request)
    [found] = answer.groups[0].topics[0].partitions
    return found.committed_offset, found.error_code


@VERSIONS
async def test_open_transactions_end_with_the_log_that_is_lost(
    version: int, autojump_clock: MockClock
) -> None:
    """`kept` was committed before the copy, and `open` was open at the copy.

    `lost` and `ended` began in the lost end of the log, and `ended` was committed there.
    """
    store, new_log = MemoryObjectStore(), MemoryLog()
    async with wire_world(store=store, log=MemoryLog()) as world:
        topic_id = await world.create_topic(T, 2)
        writers = [
            Writer(world, topic_id, name, version) for name in ("kept", "open", "lost", "ended")
        ]
        kept, opened, lost, ended = writers
        await kept.begin()
        assert await kept.write(0, 1) == {E.NONE}
        assert await kept.stage(1) == E.NONE
        assert await kept.commit() == E.NONE
        await opened.begin()
        assert await opened.write(0) == {E.NONE}
        assert await opened.stage(2) == E.NONE
        await world.gateway.keepers.backup.copy_once()
        assert await opened.write(1) == {E.NONE}
        for each in (lost, ended):
            await each.begin()
            assert await each.write(0, 1) == {E.NONE}
        assert await ended.commit() == E.NONE
    report = await restored(store, new_log)
    assert report.salvage.records == 0
    assert sum(report.salvage.refused.values()) == 5

    async with wire_world(store=store, log=new_log, seed=2) as world:
        assert [await committed_values(world, each) for each in (0, 1)] == [[b"kept"], [b"kept"]]
        assert await committed_offset(world) == (1, E.NONE)
        for each in writers:  # zombies
            each.world = world
            assert await each.commit() in FENCED
            assert await each.write(0) <= FENCED
        for each in writers:
            await each.begin()
            assert await each.write(0, 1) == {E.NONE}
            assert await each.commit() == E.NONE
        for partition in (0, 1):
            names = [b"kept", b"kept", b"open", b"lost", b"ended"]
            assert await committed_values(world, partition) == names
