"""Data as gateways leave it, made without a gateway: WAL objects in a store, commits in a log."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final, TypeAlias

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.coordinator.loading import load_state
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.log.load import open_log
from tidegate_coordination.rules.gateways import Register, TellSettings
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.topics import Created, CreateTopics, NewTopic
from tidegate_coordination.state.records.objects import WalName
from tidegate_protocol.records import read_header
from tidegate_storage.objects.keys import wal_key
from tidegate_storage.objects.ownership import claim_prefix
from tidegate_storage.objects.wal import OpenWal, PlacedBatch, WalIdentity
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore

from ..errors import BenchError

OBJECT_BYTES: Final = 8 << 20
LOAD_SECONDS: Final = 120.0
NODE_ID: Final = 1
ZONE: Final = "bench"

PlacedRecords: TypeAlias = tuple[int, bytes]
"""A partition, and a batch for it."""


def write_topic(
    store_url: str,
    log_url: str,
    name: str,
    partitions: int,
    batches: Iterable[PlacedRecords],
    configs: Mapping[str, str] | None = None,
) -> int:
    """Create a topic and commit batches to it, in their order; return their bytes.

    The function creates the cluster if there is none yet.
    """
    return trio.run(_write, store_url, log_url, name, partitions, batches, configs or {})


async def _write(
    store_url: str,
    log_url: str,
    name: str,
    partitions: int,
    batches: Iterable[PlacedRecords],
    configs: Mapping[str, str],
) -> int:
    store = open_store(store_url)
    try:
        async with _coordinator(log_url) as coordinator:
            await claim_prefix(store, coordinator.state.cluster_id, timeline=1, created_by="bench")
            new = NewTopic(os.urandom(16), name, partitions, 1, configs=configs)
            [answer] = await coordinator.propose(CreateTopics([new]))
            if not isinstance(answer, Created):
                raise BenchError(f"the topic {name} was not created: {answer.text}")
            return await _commit_all(store, coordinator, new.topic_id, batches)
    finally:
        await store.aclose()


@asynccontextmanager
async def _coordinator(log_url: str) -> AsyncGenerator[Coordinator, None]:
    """Register a gateway at the beginning, and let it leave at the end."""
    log = await open_log(log_url)
    try:
        state = await load_state(log, deadline_seconds=LOAD_SECONDS)
        coordinator = Coordinator(log, state, rng=Random(os.urandom(16)), wall_clock=time.time)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(coordinator.run)
            cluster_id = "bench".ljust(22, "0")
            registered = Register(
                NODE_ID, "bench", ZONE, (), "0", cluster_id, highest_version=NEWEST
            )
            answer = await coordinator.propose(registered)
            if not isinstance(answer, int):
                raise BenchError("another gateway uses the log of the bench")
            coordinator.incarnation = answer
            await coordinator.propose(TellSettings(answer, {}))  # compaction needs them
            yield coordinator
            await coordinator.leave()
            nursery.cancel_scope.cancel()
    finally:
        await log.aclose()


async def _commit_all(
    store: ObjectStore, coordinator: Coordinator, topic_id: bytes, batches: Iterable[PlacedRecords]
) -> int:
    wal, counter, size_bytes = OpenWal(), 0, 0
    for partition, batch in batches:
        header = read_header(batch)
        wal.append(
            topic_id, partition, batch, header.record_count, header.max_timestamp, header.crc
        )
        size_bytes += len(batch)
        if wal.size_bytes >= OBJECT_BYTES:
            await _commit(store, coordinator, wal, counter)
            wal, counter = OpenWal(), counter + 1
    if wal.batch_count:
        await _commit(store, coordinator, wal, counter)
    return size_bytes


async def _commit(store: ObjectStore, coordinator: Coordinator, wal: OpenWal, counter: int) -> None:
    incarnation, state = coordinator.incarnation, coordinator.state
    sealed = wal.seal(WalIdentity(NODE_ID, incarnation, counter))
    timeline = state.timeline_of(incarnation)
    key = wal_key(state.cluster_id, timeline, ZONE, NODE_ID, incarnation, counter)
    await store.put(key, sealed.body)
    facts = [_facts(each) for each in sealed.batches]
    name = WalName(incarnation, counter)
    outcomes = await coordinator.propose(CommitWal(name, len(sealed.body), facts))
    if any(each.refusal is not None for each in outcomes):
        raise BenchError("batches were refused")


def _facts(batch: PlacedBatch) -> BatchFacts:
    crc: Any = batch.token
    return BatchFacts(
        batch.topic_id,
        batch.partition,
        batch.start_byte,
        batch.size_bytes,
        batch.record_count,
        batch.max_timestamp,
        crc,
        -1,
        -1,
        -1,
        -1,
    )
