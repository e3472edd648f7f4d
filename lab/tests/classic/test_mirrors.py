"""Gateways mirror topics of a classic cluster, the model: every byte, offset and bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Cluster, Running, cluster
from tests.worlds.wire_client import WireClient, records_batch
from tidegate_coordination.rules.draining import DrainGateway, ResumeGateway
from tidegate_coordination.rules.migration.mirrors import SetLink
from tidegate_coordination.state.records.partitions import Partition
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.records import Record, build_batch, walk
from tidegate_simulation.classic.dial import ClassicServers, open_servers
from tidegate_simulation.classic.log.batch_checks import check_client_batch, one_batch
from tidegate_simulation.classic.log.faults import raise_log_start, remove_records
from tidegate_simulation.classic.log.model_log import WATERMARK, ModelLog
from tidegate_simulation.classic.model_cluster import ModelCluster
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_3_9, KAFKA_4_3, Profile
from tidegate_simulation.classic.topic_settings import TopicSettings
from tidegate_storage.stores.object_store import ObjectStore

NOW_MS = 1_700_000_000_000
SETTINGS = {"link.fetch.wait.ms": "100", "link.topics.interval.ms": "1000", "lease.ms": "12000"}
MAX_BYTES = 1 << 24
OPEN = TopicSettings()


@dataclass(slots=True)
class World:
    """A source of two brokers with topic `t` of two partitions, and gateways with a link to it."""

    source: ModelCluster
    servers: ClassicServers
    ours: Cluster
    gateways: list[Running]

    def log(self, index: int = 0) -> ModelLog:
        return self.source.partition("t", index).log

    def write(self, count: int = 1, index: int = 0, **head: int) -> None:
        """Write a batch at the source."""
        records = [Record(at, NOW_MS + at, b"k", b"v%d" % at) for at in range(count)]
        self.write_raw(build_batch(records, **head), index)

    def write_raw(self, raw: bytes, index: int = 0) -> None:
        log = self.log(index)
        log.append(check_client_batch(one_batch(raw, 9), OPEN, NOW_MS), OPEN, NOW_MS)
        self.source.replicated(self.source.partition("t", index), log.end_offset)

    def mark(self, producer_id: int, *, committed: bool) -> None:
        """End the transaction of a producer in partition 0."""
        self.log().append_marker(producer_id, 0, committed=committed, settings=OPEN, now_ms=NOW_MS)
        self.source.replicated(self.source.partition("t", 0), self.log().end_offset)

    async def gateway(self, store: ObjectStore | None = None) -> Running:
        node_id = len(self.gateways) + 1
        self.gateways.append(await self.ours.start(node_id, Clock(), store=store))
        return self.gateways[-1]

    async def link(self, *patterns: str) -> None:
        servers = "b1:9092,b2:9092"
        link = SetLink("src", self.source.cluster_id, servers, patterns or ("t",))
        assert await self.gateways[0].gateway.coordinator.propose(link) is None

    def copy(self, index: int = 0, at: int = 0) -> Partition | None:
        state = self.gateways[at].gateway.coordinator.state
        topic = state.topics.by_name.get("t")
        if topic is None or index >= len(topic.partition_numbers):
            return None
        return state.partitions[topic.partition_numbers[index]]

    async def copied(self, index: int = 0) -> Partition:
        """Wait until a copy is complete, with the same bytes and bounds."""
        log = self.log(index)

        def is_complete() -> bool:
            copy = self.copy(index)
            ends = (log.log_start, log.high_watermark)
            return copy is not None and (copy.log_start, copy.next_offset) == ends

        await becomes(is_complete)
        copy = self.copy(index)
        assert copy is not None
        assert copy.last_stable_offset == log.last_stable_offset
        client = self.gateways[0].world.connect()
        for isolation in (0, 1):
            theirs = await self.read_source(index, isolation)
            assert await read(client, index, log.log_start, isolation) == theirs
        return copy

    async def read_source(self, index: int, isolation: int) -> tuple[bytes, list[tuple[int, int]]]:
        log = self.log(index)
        isolation_name = "committed" if isolation else WATERMARK
        found = log.read(log.log_start, MAX_BYTES, isolation_name, whole_first=True)
        rows = found.aborted or ()
        return found.records, sorted((each.producer_id, each.first_offset) for each in rows)


async def read(
    client: WireClient, index: int, offset: int, isolation: int
) -> tuple[bytes, list[tuple[int, int]]]:
    """All bytes from an offset on, and the aborted transactions."""
    found, aborted = b"", set[tuple[int, int]]()
    while True:
        partition = fe.FetchPartition(index, fetch_offset=offset, partition_max_bytes=MAX_BYTES)
        request = fe.FetchRequest(
            max_bytes=MAX_BYTES,
            session_epoch=-1,
            isolation_level=isolation,
            topics=[fe.FetchTopic("t", partitions=[partition])],
        )
        answer: fe.FetchResponse = await client.call("Fetch", 12, request)
        [data] = answer.responses[0].partitions
        assert data.error_code == E.NONE
        records = bytes(cast("memoryview", data.records or b""))
        found += records
        rows = data.aborted_transactions or []
        aborted |= {(each.producer_id, each.first_offset) for each in rows}
        if not records:
            return without_empty(found), sorted(aborted)
        offset = max(header.last_offset for _, header in walk(memoryview(records))) + 1


def without_empty(batches: bytes) -> bytes:
    """The batches with records; gateways answer an empty batch where no records are left."""
    whole = memoryview(batches)
    return b"".join(
        whole[at : at + header.size_bytes] for at, header in walk(whole) if header.record_count
    )


async def becomes(holds: Callable[[], object]) -> None:
    with trio.fail_after(120):
        while not holds():  # noqa: ASYNC110 - time makes it true
            await trio.sleep(0.05)


@asynccontextmanager
async def mirroring(
    gateways: int = 1, *, profile: Profile = KAFKA_4_3, more: Mapping[str, str] | None = None
) -> AsyncIterator[World]:
    settings = {**SETTINGS, **(more or {})}
    source = ModelCluster(Random(1), profile=profile)
    for node_id in (1, 2):
        source.add_broker(node_id, f"b{node_id}", 9092)
    source.create_topic("t", 2, replication_factor=2)
    async with open_servers(source, Random(2)) as servers, cluster(settings) as ours:
        ours.source_dial = servers.dial
        world = World(source, servers, ours, [])
        for _ in range(gateways):
            await world.gateway()
        yield world


async def test_a_topic_is_copied_with_its_id_and_every_byte(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        world.write(1, producer_id=7, producer_epoch=0, base_sequence=0)
        world.write(5, 1)
        await world.link()
        for index in (0, 1):
            await world.copied(index)
        world.write(2)
        copy = await world.copied()
        assert copy.topic_id == world.source.topics["t"].topic_id
        assert copy.producers[7].epoch == 0


@pytest.mark.parametrize("profile", [KAFKA_2_1, KAFKA_3_9])
async def test_an_older_source_is_copied(profile: Profile, autojump_clock: MockClock) -> None:
    async with mirroring(profile=profile) as world:
        world.write(3)
        await world.link()
        world.write(1, producer_id=7, producer_epoch=0, base_sequence=0)
        world.write(2)
        await world.copied()


async def test_leader_epochs_are_the_sources(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link()
        for node_id in (2, 1, 2):
            world.write(2)
            world.source.move_leader("t", 0, node_id)
        world.write(1)
        copy = await world.copied()
        expected = world.log().epochs
        for offset in range(copy.next_offset):
            assert copy.epoch_at(offset) == expected.epoch_of(offset)


async def test_metadata_tells_the_sources_epoch(autojump_clock: MockClock) -> None:
    """With another epoch, every fetch of a client would be fenced."""
    async with mirroring() as world:
        await world.link()
        for epoch, node_id in enumerate((1, 2, 1)):
            world.source.move_leader("t", 0, node_id)
            world.write(1)
            copy = await world.copied()
            assert (await told_epochs(world))[0] == copy.leader_epoch >= epoch


async def told_epochs(world: World) -> list[int]:
    request = md.MetadataRequest([md.MetadataRequestTopic(name="t")])
    answer: md.MetadataResponse = (
        await world.gateways[0].world.connect().call("Metadata", 9, request)
    )
    [told] = answer.topics
    return [each.leader_epoch for each in told.partitions]


async def test_offsets_that_compaction_left_out_stay_left_out(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        for _ in range(4):
            world.write(3)
        remove_records(world.log(), {1, 3, 4, 5, 8, 11})
        await world.link()
        await world.copied()


async def test_transactions_and_their_aborts_are_the_sources(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link()
        for producer_id in (7, 8, 9):
            head = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
            world.write(2, producer_id=producer_id, **head)
        world.mark(8, committed=False)
        world.write(1)
        await world.copied()
        world.mark(7, committed=True)
        await world.copied()
        world.mark(9, committed=False)
        await world.copied()


@pytest.mark.parametrize("start", [3, 4, 6, 9])
async def test_a_source_whose_log_begins_late(autojump_clock: MockClock, start: int) -> None:
    """The log starts at the beginning of a batch, inside a batch, or at the end."""
    async with mirroring() as world:
        for _ in range(3):
            world.write(3)
        raise_log_start(world.log(), start)
        await world.link()
        await world.copied()
        world.write(2)
        await world.copied()


async def test_log_starts_follow_the_source(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        for _ in range(3):
            world.write(3)
        await world.link()
        await world.copied()
        raise_log_start(world.log(), 5)
        copy = await world.copied()
        assert copy.log_start == 5


async def test_a_copy_that_retention_overtook_begins_anew(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        await world.link()
        await world.copied()
        for node_id in (1, 2):
            world.servers.stop_broker(node_id)
        await trio.sleep(5)
        for _ in range(3):
            world.write(3)
        raise_log_start(world.log(), 7)
        for node_id in (1, 2):
            world.servers.start_broker(node_id)
        await world.copied()


async def test_an_end_beyond_the_last_batch(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        world.write(3)
        await world.link()
        await world.copied()
        log = world.log()
        world.write(3)
        log.batches.pop()
        await world.copied()
        world.write(1)
        await world.copied()


async def test_partitions_and_configs_follow_the_source(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link()
        await world.copied()
        world.source.add_partitions("t", 3)
        world.source.set_config("t", "retention.ms", "12345", trio.current_time())
        world.write(2, 2)
        await world.copied(2)
        topic = world.gateways[0].gateway.coordinator.state.topics.by_name["t"]
        await becomes(lambda: topic.configs == {"retention.ms": "12345"})


async def test_only_matching_topics_are_mirrored(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        for name in ("orders-1", "orders-2", "other", "__consumer_offsets"):
            world.source.create_topic(name, 1)
        await world.link("orders-.*", "t")
        topics = world.gateways[0].gateway.coordinator.state.topics.by_name
        await becomes(lambda: {"orders-1", "orders-2", "t"} <= topics.keys())
        await trio.sleep(5)
        assert topics.keys() == {"orders-1", "orders-2", "t"}


async def test_gateways_share_the_work_and_take_over(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=3) as world:
        world.source.create_topic("many", 12)
        await world.link("t", "many")
        running = [each.gateway.links.running for each in world.gateways]
        await becomes(lambda: all("src" in each and each["src"].mirror for each in running))

        def shares() -> list[int]:
            mirrors = [each["src"].mirror for each in running]
            return [len(each.mirrors) if each is not None else 0 for each in mirrors]

        await becomes(lambda: sum(shares()) == 14)
        assert min(shares()) > 0
        world.gateways[2].stop()
        for index in (0, 1):
            world.write(2, index)
            await world.copied(index)


async def test_links_go_on_after_all_gateways_drained(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link()
        await world.copied()
        coordinator = world.gateways[0].gateway.coordinator
        await coordinator.propose(DrainGateway(1))
        await trio.sleep(10)
        await coordinator.propose(ResumeGateway(1))
        world.write(2)
        await world.copied()


async def test_no_client_creates_a_topic_of_a_link(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await world.link("t", "later-.*")
        client = world.gateways[0].world.connect()
        for name, code in (("later-1", E.UNKNOWN_TOPIC_OR_PARTITION), ("own", E.NONE)):
            request = md.MetadataRequest([md.MetadataRequestTopic(name=name)])
            [answer] = (await client.call("Metadata", 9, request)).topics
            assert answer.error_code == code


async def test_clients_can_read_but_not_write(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        world.write(3)
        await world.link()
        await world.copied()
        client = world.gateways[0].world.connect()
        assert await client.fetch_values("t", 0, 0) == [b"v0", b"v1", b"v2"]
        for _ in range(2):
            answer = await client.produce("t", 0, records_batch(b"x"))
            assert answer.error_code == E.TOPIC_AUTHORIZATION_FAILED
            assert "link src" in answer.error_message
        partition = lo.ListOffsetsPartition(0, timestamp=NOW_MS + 1)
        request = lo.ListOffsetsRequest(-1, topics=[lo.ListOffsetsTopic("t", [partition])])
        found = (await client.call("ListOffsets", 6, request)).topics[0].partitions[0]
        assert found.offset == 1
        metadata = await client.call("Metadata", 9, md.MetadataRequest(None))
        assert [each.name for each in metadata.topics] == ["t"]
