"""A cluster of gateways that only write: logs, objects, backups and restores without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random

import trio

from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.backup.recovery import recover_from_copies
from tidegate_coordination.backup.restore import RestoreReport, Work, look_at_target, restore
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint, TopicCreated
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.metadata_versions import FIRST
from tidegate_coordination.log.metadata_log import MetadataLog, Trimmed
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.rules.proposal import TOPICS, Decided, View
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_protocol.records import Record, build_batch, decode_records, read_header, walk
from tidegate_storage.objects.keys import wal_key
from tidegate_storage.objects.ownership import claim_prefix, newest_timeline, read_owner
from tidegate_storage.objects.wal import OpenWal, WalIdentity
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import ObjectStore

CLUSTER = "cluster-of-tests"
NOW = 1_700_000_000.0


def now() -> float:
    return NOW + trio.current_time()


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def batch_of(*values: bytes, producer: tuple[int, int] | None = None) -> bytes:
    """producer: (producer id, first sequence)."""
    records = [
        Record(index, 1_700_000_000_000, None, each, ()) for index, each in enumerate(values)
    ]
    if producer is None:
        return build_batch(records)
    return build_batch(
        records, producer_id=producer[0], producer_epoch=0, base_sequence=producer[1]
    )


@dataclass(frozen=True)
class CreateTopic:
    name: str
    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=frozenset({TOPICS}), init=False)

    def decide(self, view: View) -> Decided[None]:
        return Decided((TopicCreated(topic_id(self.name), self.name, 1, 1, {}),), None)


@dataclass
class Writer:
    """A gateway that writes WAL objects of one partition each."""

    store: ObjectStore
    coordinator: Coordinator
    node_id: int
    counters: count[int] = field(default_factory=count)

    async def create_topic(self, name: str) -> None:
        await self.coordinator.propose(CreateTopic(name))

    async def store_object(
        self, *slices: tuple[str, bytes]
    ) -> tuple[WalName, int, list[BatchFacts]]:
        """Put an object and do not commit it."""
        name, body, batches = self.seal_object(*slices)
        await self.put(name, body)
        return name, len(body), batches

    async def put(self, name: WalName, body: bytes) -> None:
        await self.store.put(object_key(self.coordinator.state, name), body)

    def next_identity(self) -> WalIdentity:
        return WalIdentity(self.node_id, self.coordinator.incarnation, next(self.counters))

    def seal_object(self, *slices: tuple[str, bytes]) -> tuple[WalName, bytes, list[BatchFacts]]:
        """Make an object and do not store it."""
        identity = self.next_identity()
        wal = OpenWal()
        for topic, batch in slices:
            header = read_header(batch)
            wal.append(topic_id(topic), 0, batch, header.record_count, header.max_timestamp, header)
        sealed = wal.seal(identity)
        return (
            WalName(identity.incarnation, identity.counter),
            bytes(sealed.body),
            [
                BatchFacts(
                    each.topic_id,
                    each.partition,
                    each.start_byte,
                    each.size_bytes,
                    each.record_count,
                    each.max_timestamp,
                    header.crc,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.base_sequence + header.record_count - 1,
                )
                for each in sealed.batches
                for header in [read_header(sealed.body, each.start_byte)]
            ],
        )

    async def write(self, *slices: tuple[str, bytes]) -> list[BatchOutcome]:
        stored = await self.store_object(*slices)
        return await self.coordinator.propose(CommitWal(*stored))


@asynccontextmanager
async def writers(
    log: MetadataLog, store: ObjectStore, *node_ids: int, highest_version: int = FIRST
) -> AsyncIterator[list[Writer]]:
    """Start gateways that read to the log's end; stop them without a last entry.

    highest_version: at least that of the log, so that they may join.
    """
    async with trio.open_nursery() as nursery:
        made: list[Writer] = []
        for node_id in node_ids:
            coordinator = Coordinator(log, await replayed(log), rng=Random(node_id), wall_clock=now)
            nursery.start_soon(coordinator.run)
            proposal = Register(
                node_id, f"key {node_id}", "az1", ENDPOINTS, "0", CLUSTER,
                highest_version=max(highest_version, coordinator.state.metadata_version),
            )  # fmt: skip
            answer = await coordinator.propose(proposal)
            assert isinstance(answer, int)
            coordinator.incarnation = answer
            state = coordinator.state
            await claim_prefix(store, CLUSTER, timeline=state.timeline, created_by="0")
            made.append(Writer(store, coordinator, node_id))
        yield made
        nursery.cancel_scope.cancel()


ENDPOINTS = (Endpoint("PLAINTEXT", "h", 1),)


async def replayed(log: MetadataLog) -> ClusterState:
    snapshot = await log.load_snapshot()
    state = ClusterState() if snapshot is None else ClusterState.decode(b"".join(snapshot.chunks))
    entries = await log.read(state.position + 1, 1 << 30)
    assert not isinstance(entries, Trimmed)
    for each in entries:
        state.apply(each.position, decode_entry(each.payload, each.position))
    return state


async def back_up(log: MetadataLog, store: ObjectStore) -> int:
    state = await replayed(log)
    report = await Copier(log, store, state.cluster_id, state.timeline).copy()
    assert report.position == state.position
    return report.position


async def restored(
    store: ObjectStore, log: MetadataLog, *, copies: ObjectStore | None = None
) -> RestoreReport:
    """Restore as the command does."""
    owner = await read_owner(copies or store)
    assert owner is not None
    target = await look_at_target(log)
    elsewhere = copies is not None
    work = Work(
        store, owner, log, Random(7), now, lambda text: None, "0", must_have_objects=elsewhere
    )
    recovered = None
    if target.state is None:
        newest = await newest_timeline(store, owner)
        recovered = await recover_from_copies(
            copies or store, owner, lambda text: None, newest=newest
        )
    return await restore(work, recovered, target)


async def values(state: ClusterState, store: ObjectStore, topic: str) -> dict[int, bytes]:
    """All records of a topic with one partition, by offset, as read from its runs."""
    [number] = state.topics.by_name[topic].partition_numbers
    partition = state.partitions[number]
    found: dict[int, bytes] = {}
    for index in range(len(partition.runs)):
        run = partition.runs[index]
        name = state.objects.name(run.object_number)
        node_id, zone = state.gateways.homes[name.incarnation]
        timeline = state.timeline_of(name.incarnation)
        key = wal_key(CLUSTER, timeline, zone, node_id, *name)
        data = memoryview(await store.get_range(key, run.position, run.length))
        offset = run.base_offset
        for at, header in walk(data):
            whole = data[at : at + header.size_bytes]
            for record in decode_records(whole, max_decompressed_bytes=1 << 20):
                found[offset] = record.value or b""
                offset += 1
    return found


def memory_store() -> MemoryObjectStore:
    """A store whose clock follows trio's."""
    return MemoryObjectStore(now)
