"""The reading half of a gateway, on a log and a store in memory, with helpers that write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register, TellSettings
from tidegate_coordination.rules.housekeeping import MoveLogStarts
from tidegate_coordination.rules.records.batch_outcomes import (
    BatchFacts,
    BatchOutcome,
    append_time_topics,
)
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import CreateTopics, DeleteTopics, NewTopic, TopicKey
from tidegate_coordination.state.changes import PARTITIONS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_gateway.fetch.fetch_plan import FetchSettings
from tidegate_gateway.fetch.fetch_sessions import FetchSessions
from tidegate_gateway.fetch.fetch_waiters import FetchWaiters
from tidegate_gateway.fetch.lending.object_lender import ObjectLender
from tidegate_gateway.fetch.lending.zone_reads import ObjectPeers, ZoneReads
from tidegate_gateway.fetch.log_reader import LogReader
from tidegate_gateway.fetch.read_ahead import ReadAhead
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.network.reply_memory import ReplyMemory
from tidegate_gateway.network.transport import Part
from tidegate_gateway.requests.records.fetch import Fetch
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_gateway.zones.read_steering import ReadSteering
from tidegate_gateway.zones.zone_finder import ZoneFinder
from tidegate_gateway.zones.zone_settings import zone_maps
from tidegate_protocol.messages import fetch as codec
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidegate_protocol.records import Record, build_batch, decode_records, read_header, walk
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.objects.keys import wal_key
from tidegate_storage.objects.wal import OpenWal, WalIdentity
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.files.file_part import FilePart
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import StoreUnavailable

NOW_MS = 1_700_000_000_000
NOTHING_SET: Mapping[str, str] = {}
WORLD_SECONDS = 3_600.0  # the limit for a whole test, on trio's clock

Written = tuple[str, int, bytes]
"""Topic, partition, batch."""


def is_append_time(topic: Topic) -> bool:
    return topic.configs.get("message.timestamp.type") == "LogAppendTime"


class Store(MemoryObjectStore):
    """A store that records range reads, and can be slow, fail, or damage bytes."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.reads: list[tuple[str, int, int]] = []
        self.is_away = False
        self.trouble: Exception = StoreUnavailable("away")
        self.seconds = 0.0
        # how many of the next reads return damaged bytes
        self.damaged_reads = 0

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        self.reads.append((key, start, length))
        await trio.sleep(self.seconds)
        if self.is_away:
            raise self.trouble
        body = await super().get_range(key, start, length)
        if not self.damaged_reads:
            return body
        self.damaged_reads -= 1
        return bytes(each ^ 0x55 for each in body)

    def damage(self, key: str, position: int) -> None:
        body, modified_at = self._objects[key]
        changed = bytearray(body)
        changed[position] ^= 1
        self._objects[key] = (bytes(changed), modified_at)


class World:
    """One gateway.  adopts: whether it keeps the objects that it writes in memory."""

    def __init__(
        self,
        log: MemoryLog,
        store: Store,
        node_id: int,
        settings: FetchSettings,
        cache_bytes: int,
        disk: DiskCache | None = None,
        zone: str = "zone-a",
        peers: ObjectPeers | None = None,
        zone_id_map: str = "",
        reply_bytes: int = 256 << 20,
    ) -> None:
        self.memory_log = log
        self.log = FaultyLog(log, LogFaults(), Random(node_id))
        self.store = store
        self.node_id = node_id
        self.settings = settings
        self.state = ClusterState()
        self.now_ms = NOW_MS
        self.coordinator = Coordinator(
            self.log, self.state, rng=Random(node_id), wall_clock=lambda: self.now_ms / 1000
        )
        self.cache: RangeCache[object] = RangeCache(cache_bytes)
        self.zone = zone
        self.lender = ObjectLender(store, self.cache)
        maps = zone_maps(BrokerSettings({"zone.id.map": zone_id_map}))
        self.zone_reads = (
            ZoneReads(self.coordinator, zone, self.lender, peers, zone_id_of=maps.id_of)
            if peers
            else None
        )
        self.reader = LogReader(
            self.coordinator,
            store,
            self.cache,
            settings=settings,
            disk=disk,
            zone=self.zone_reads,
        )
        self.waiters = FetchWaiters(self.state.partitions)
        self.coordinator.listen(self.waiters.on_change, PARTITIONS)
        self.sessions = FetchSessions(Random(node_id), max_sessions=2)
        self.read_ahead = ReadAhead(self.reader)
        self.reply_memory = ReplyMemory(reply_bytes)
        zones = ZoneFinder(zone_maps(BrokerSettings()), self.state.gateways)
        self.fetcher = Fetch(
            self.coordinator,
            self.reader,
            self.waiters,
            self.sessions,
            settings,
            self.read_ahead,
            ReadSteering(ClusterView(self.state, zones), 1, "zone-a"),
            self.reply_memory,
        )
        self.adopts = False
        self._connections: list[Peer] = []
        self._counter = 0

    def use_read_ahead(self, read_ahead: ReadAhead) -> None:
        """Replace the read-ahead by one with other bounds."""
        self.read_ahead = read_ahead
        self.fetcher = replace(self.fetcher, read_ahead=read_ahead)

    async def register(
        self, *, lends: bool = True, level: int = NEWEST, static: Mapping[str, str] = NOTHING_SET
    ) -> None:
        """Register the gateway.  static: the static settings that it tells the other gateways."""
        endpoints = [Endpoint("PLAINTEXT", "localhost", 9092)]
        if self.zone_reads is not None and lends:
            endpoints.append(Endpoint(PEER_LISTENER, f"node{self.node_id}", 9644))
        proposal = Register(
            self.node_id,
            f"key-{self.node_id}",
            self.zone,
            tuple(endpoints),
            "1",
            "c" * 22,
            highest_version=level,
        )
        answer = await self.coordinator.propose(proposal)
        assert isinstance(answer, int)
        self.coordinator.incarnation = answer
        await self.coordinator.propose(TellSettings(answer, dict(static)))

    async def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        topic_id = Random(f"{name}{self.state.position}").randbytes(16)
        named = {key.replace("_", "."): value for key, value in configs.items()}
        await self.coordinator.propose(
            CreateTopics([NewTopic(topic_id, name, partitions, configs=named)])
        )
        return topic_id

    async def delete(self, name: str) -> None:
        await self.coordinator.propose(DeleteTopics([TopicKey(name)]))

    async def move_log_start(self, name: str, partition: int, offset: int) -> None:
        number = self.partition(name, partition).number
        await self.coordinator.propose(MoveLogStarts(((number, offset),)))

    def partition(self, name: str, index: int = 0) -> Partition:
        return self.state.partitions[self.state.topics.by_name[name].partition_numbers[index]]

    def key(self, name: WalName) -> str:
        node_id, zone = self.state.gateways.homes[name.incarnation]
        return wal_key(
            self.state.cluster_id,
            self.state.timeline,
            zone,
            node_id,
            name.incarnation,
            name.counter,
        )

    async def write(self, *written: Written, flags: int = 0) -> list[BatchOutcome]:
        """Commit batches in one object, which no gateway has in memory unless `adopts` is set.

        flags: see BatchFacts.
        """
        wal = OpenWal()
        for name, partition, batch in written:
            header = read_header(batch)
            topic_id = self.state.topics.by_name[name].topic_id
            wal.append(
                topic_id, partition, batch, header.record_count, header.max_timestamp, header
            )
        name_of = WalName(self.coordinator.incarnation, self._counter)
        self._counter += 1
        sealed = wal.seal(WalIdentity(self.node_id, *name_of))
        await self.store.put(self.key(name_of), sealed.body)
        facts = [
            BatchFacts(
                each.topic_id,
                each.partition,
                each.start_byte,
                each.size_bytes,
                each.record_count,
                each.max_timestamp,
                read_header(sealed.body, each.start_byte).crc,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.base_sequence + header.last_offset_delta,
                flags,
            )
            for each in sealed.batches
            if (header := read_header(sealed.body, each.start_byte))
        ]
        if self.adopts:
            self.reader.adopt(name_of, self.key(name_of), sealed.body)
        stamped = append_time_topics(self.coordinator.state, facts, is_append_time)
        commit = CommitWal(name_of, len(sealed.body), facts, stamped, is_walked=True)
        return await self.coordinator.propose(commit)

    async def ask(self, request: FetchRequest, version: int = 12) -> FetchResponse:
        """Fetch with encoded and decoded messages, so that the answer is as a client sees it."""
        decoded = codec.decode_request(
            memoryview(bytes(codec.encode_request(request, version))), version
        )
        # Each call has a new connection, which is kept: its id must not be used again by chance.
        self._connections.append(Peer("localhost", 1, "PLAINTEXT"))
        call = Call(version, "test", self._connections[-1])
        response = await self.fetcher.handle(call, decoded)
        parts: Sequence[Part] = codec.encode_response(response, version)
        raw = b"".join(each.read() if isinstance(each, FilePart) else each for each in parts)
        return codec.decode_response(memoryview(raw), version)

    async def fetch(
        self, name: str, offset: int, *, partition: int = 0, version: int = 12, **fields: Any
    ) -> PartitionData:
        """Fetch one partition by name."""
        wanted = FetchPartition(
            partition, fetch_offset=offset, partition_max_bytes=fields.pop("partition_max", 1 << 20)
        )
        wanted.current_leader_epoch = fields.pop("epoch", -1)
        request = FetchRequest(
            min_bytes=fields.pop("min_bytes", 1), topics=[FetchTopic(name, partitions=[wanted])]
        )
        for field, value in fields.items():
            setattr(request, field, value)
        response = await self.ask(request, version)
        assert response.error_code == 0
        return response.responses[0].partitions[0]


@asynccontextmanager
async def fetch_world(
    settings: FetchSettings | None = None,
    cache_bytes: int = 64 << 20,
    gateways: int = 1,
    disk: DiskCache | None = None,
    reply_bytes: int = 256 << 20,
    level: int = NEWEST,
) -> AsyncIterator[list[World]]:
    """Run gateways that share a log and a store.  The first one writes.

    disk: the disk cache of the last gateway, which runs here.
    """
    log, store = MemoryLog(), Store()
    worlds = [
        World(
            log,
            store,
            node_id,
            settings or FetchSettings(),
            cache_bytes,
            disk if node_id == gateways else None,
            reply_bytes=reply_bytes,
        )
        for node_id in range(1, gateways + 1)
    ]
    with trio.fail_after(WORLD_SECONDS):
        async with trio.open_nursery() as nursery:
            if disk is not None:
                nursery.start_soon(disk.run)
            for world in worlds:
                nursery.start_soon(world.coordinator.run)
                await world.register(level=level)
            yield worlds
            nursery.cancel_scope.cancel()


def batch(*values: str, timestamp: int = NOW_MS, **fields: Any) -> bytes:
    """Return a producer's batch with one record per value; time stamps rise by one."""
    records = [
        Record(offset, timestamp + offset, None, value.encode())
        for offset, value in enumerate(values)
    ]
    return build_batch(records, **fields)


def batches_of(data: PartitionData) -> list[bytes]:
    """Return the batches of an answer; their CRCs are not checked."""
    raw = bytes(_whole(data))
    found = []
    for position, header in walk(memoryview(raw)):
        found.append(raw[position : position + header.size_bytes])
    return found


def records_of(data: PartitionData) -> list[tuple[int, str]]:
    """Return (offset, value) of all records of an answer."""
    return [
        (record.offset, (record.value or b"").decode())
        for each in batches_of(data)
        for record in decode_records(each, max_decompressed_bytes=1 << 20)
    ]


def _whole(data: PartitionData) -> bytes | bytearray | memoryview:
    assert data.records is not None
    assert not isinstance(data.records, list)
    return data.records
