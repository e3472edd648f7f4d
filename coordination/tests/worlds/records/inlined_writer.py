"""Gateways of backup_world.py that commit objects inside the log, and move them to the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from tests.worlds.backup_world import Writer
from tidegate_coordination.events.cluster import MetadataVersionSet, Run
from tidegate_coordination.events.metadata_versions import INLINED
from tidegate_coordination.rules.proposal import TOPICS, Decided, View
from tidegate_coordination.rules.records.inlining import CommitInlined, MoveInlined, Stretch
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.objects.wal import OpenWal


@dataclass(frozen=True)
class RaiseVersion:
    """Raise the level to that of inlined objects."""

    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=frozenset({TOPICS}), init=False)

    def decide(self, view: View) -> Decided[None]:
        return Decided((MetadataVersionSet(INLINED),), None)


async def begin(writer: Writer, *topics: str) -> None:
    await writer.coordinator.propose(RaiseVersion())
    for topic in topics:
        await writer.create_topic(topic)


async def inline(writer: Writer, *slices: tuple[str, bytes]) -> WalName:
    """Commit an object inside the log; its body is not stored."""
    name, body, batches = writer.seal_object(*slices)
    commit = CommitWal(name, len(body), batches)
    assert await writer.coordinator.propose(CommitInlined.of(commit, body)) is not None
    return name


async def store_moved(writer: Writer) -> tuple[WalName, int, tuple[Stretch, ...]]:
    """Store one object of all batches that are inside the log, and do not commit it."""
    state, wal = writer.coordinator.state, OpenWal()
    inlined = state.objects.inlined
    parents: dict[int, list[RunRow]] = {}
    for number, partition in state.partitions.items():
        for at in range(len(partition.runs)):
            row = partition.runs[at]
            body = inlined.body(row.object_number)
            if body is not None:
                topic = state.topics.by_id[partition.topic_id]
                data = body[row.position : row.position + row.length]
                count = row.next_offset - row.base_offset
                wal.append(topic.topic_id, partition.index, data, count, row.max_timestamp, row)
                parents.setdefault(number, []).append(row)
    identity = writer.next_identity()
    sealed = wal.seal(identity, source_of=partial(_source_of, state))
    places = {_row(each.token): each.start_byte for each in sealed.batches}
    stretches = tuple(
        Stretch(number, tuple(rows), tuple(_run(number, row, places[row]) for row in rows))
        for number, rows in parents.items()
    )
    name = WalName(identity.incarnation, identity.counter)
    await writer.put(name, bytes(sealed.body))
    return name, len(sealed.body), stretches


async def move(writer: Writer) -> WalName:
    """Move all batches that are inside the log to the store."""
    stored = await store_moved(writer)
    assert await writer.coordinator.propose(MoveInlined(*stored)) == len(stored[2])
    return stored[0]


def _source_of(state: ClusterState, token: object) -> WalName:
    name = state.objects.name(_row(token).object_number)
    assert isinstance(name, WalName)
    return name


def _row(token: object) -> RunRow:
    assert isinstance(token, RunRow)
    return token


def _run(partition: int, row: RunRow, position: int) -> Run:
    count = row.next_offset - row.base_offset
    place = (position, row.length, row.base_offset, count)
    return Run(partition, *place, row.max_timestamp, row.check, row.flags)
