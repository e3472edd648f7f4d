"""Reads the objects that the restored state does not know, and commits them.

Salvage reads every object twice: once to learn its producers' sequences, once to commit it.  Memory
holds one object at a time, and the facts of one object for each incarnation that is left.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from tidegate_protocol.errors import InvalidBatch
from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.keys import unplaced_key
from tidegate_storage.objects.wal_reader import read_wal
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectExists,
    ObjectInfo,
    ObjectStore,
    put_idempotent,
)

from ..coordinator.coordinator import Coordinator
from ..object_names.keys import object_key
from ..rules.cluster_settings import ClusterSettings
from ..rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal, append_time_topics
from ..state.cluster import ClusterState
from ..state.records.objects import WalName, WalStatus
from ..state.topics import Topic
from .recovery import Say
from .salvage_rules import (
    Gaps,
    SalvageWal,
    SequenceIndex,
    Unpacked,
    gaps_of,
    new_batches,
    partition_of,
    unpacked,
)
from .survey import Life, ObjectsOfLife

_log = structlog.get_logger("tidegate.salvage")

SAID_EVERY: Final = 100
CLOCK_SECONDS: Final = 1.0
"""As fine as stores' clocks are."""


class Unplaced(NamedTuple):
    """Records of an object whose topic the restored state does not know; key: where they are."""

    key: str
    topic_id: str
    partition: int
    records: int


@dataclass(slots=True)
class SalvageReport:
    """The result of a salvage.

    duplicates, refused: batches.  damaged: objects that cannot be read, and why; they are kept.
    """

    objects: int = 0
    batches: int = 0
    records: int = 0
    duplicates: int = 0
    refused: dict[str, int] = field(default_factory=dict[str, int])
    unplaced: list[Unplaced] = field(default_factory=list[Unplaced])
    damaged: list[str] = field(default_factory=list[str])


class _Found(NamedTuple):
    """An object to be committed.

    batches: see new_batches().  Without any, the object is committed, too, so that it is deleted as
    one without live records is.  inside: only while sequences are learned.
    """

    key: str
    name: WalName
    size_bytes: int
    modified_at: float
    batches: list[BatchFacts]
    inside: list[Unpacked]


class Salvage:
    """Commits the objects of some incarnations.

    coordinator: its state is the restored one; it is the only writer of its log.
    """

    def __init__(
        self, coordinator: Coordinator, store: ObjectStore, lives: list[Life], say: Say
    ) -> None:
        self._coordinator = coordinator
        self._cluster = ClusterSettings(coordinator.state)
        self._store = store
        self._lives = lives
        self._say = say
        self.index = SequenceIndex(coordinator.state.producer_ids.was_given)
        self.report = SalvageReport()

    @property
    def _state(self) -> ClusterState:
        return self._coordinator.state

    async def run(self) -> None:
        """Commit all objects.  After an error, call it again: it continues where it stopped.

        Raises:
          StoreUnavailable, CoordinatorUnavailable, ProposalFailed: call it again.
        """
        await self._learn()
        queues = [self._queue(life) for life in self._lives]
        heads = {number: await self._next(*queue) for number, queue in enumerate(queues)}
        while True:
            waiting = {number: head for number, head in heads.items() if head is not None}
            if not waiting:
                return
            number, gaps = self._choose(waiting)
            chosen = waiting[number]
            await self._commit(chosen, gaps)
            self.index.remove(chosen.name.incarnation, chosen.batches)
            heads[number] = await self._next(*queues[number])

    async def _learn(self) -> None:
        looked_at = 0
        learned: set[WalName] = set()
        for life in self._lives:  # the unpacked objects may add some
            queue = self._queue(life)
            while (found := await self._next(*queue, unpacks=True)) is not None:
                await self._store_unpacked(found.inside)
                named = [(found.name, found.batches), *((name, at) for name, _, at in found.inside)]
                for name, batches in named:
                    if name not in learned:
                        learned.add(name)
                        self.index.add(name.incarnation, batches)
                looked_at += 1
                if looked_at % SAID_EVERY == 0:
                    self._say(f"looked at {looked_at} objects that the backup does not know")
        # The commit pass reads them again, and reports them.
        self.report.damaged.clear()

    async def _store_unpacked(self, inside: list[Unpacked]) -> None:
        """Store inlined objects under their own names, to be committed like all others."""
        state = self._state
        for each in inside:
            # Another mover, or an earlier call, may have stored it, perhaps with fewer batches.
            with suppress(ObjectExists):
                await put_idempotent(self._store, object_key(state, each.name), each.body)
            node_id, zone = state.gateways.homes[each.name.incarnation]
            timeline = state.timeline_of(each.name.incarnation)
            life = Life(timeline, zone, node_id, each.name.incarnation)
            if life not in self._lives:
                self._lives.append(life)

    def _queue(self, life: Life) -> tuple[int, ObjectsOfLife]:
        return life.incarnation, ObjectsOfLife(self._store, self._state.cluster_id, life)

    async def _next(
        self, incarnation: int, objects: ObjectsOfLife, *, unpacks: bool = False
    ) -> _Found | None:
        """Return the next object that is neither committed nor abandoned, by counter."""
        while (listed := await objects.next()) is not None:
            counter, info = listed
            name = WalName(incarnation, counter)
            if self._state.objects.wal_status(name) is WalStatus.UNKNOWN:
                found = await self._read(name, info, unpacks=unpacks)
                if found is not None:
                    return found
        return None

    async def _read(self, name: WalName, info: ObjectInfo, *, unpacks: bool) -> _Found | None:
        complaint = ""
        for _ in range(2):  # bytes can be damaged in transit
            try:
                body = await self._store.get(info.key)
                return _found(self._state, name, info, body, unpacks=unpacks)
            except NoSuchObject:
                return None
            except (CorruptObject, UnknownVersion, InvalidBatch) as error:
                complaint = f"{info.key}: {error}"
        self.report.damaged.append(complaint)
        return None

    def _choose(self, heads: dict[int, _Found]) -> tuple[int, Gaps]:
        """Return the oldest object that waits for no object of another incarnation.

        If all wait, some batch was refused at first and accepted when its producer repeated it.
        Then the oldest object is next.  Among objects that the store's clock cannot distinguish,
        the next one is the object that loses the fewest last copies of batches.  A gap is bridged
        only if no older object waits, because that object, or one after it, may still fill the gap.
        """
        by_age = sorted(heads, key=lambda number: (heads[number].modified_at, heads[number].name))
        passed: list[tuple[int, Gaps]] = []
        for number in by_age:
            head = heads[number]
            gaps = gaps_of(self._state, head.name.incarnation, head.batches, self.index)
            if not gaps.waits and not (gaps.bridges and passed):
                return number, gaps
            passed.append((number, gaps))
        until = heads[by_age[0]].modified_at + CLOCK_SECONDS
        oldest = [each for each in passed if heads[each[0]].modified_at < until]
        return min(oldest, key=lambda each: each[1].losses)

    async def _commit(self, found: _Found, gaps: Gaps) -> None:
        unplaced = [each for each in found.batches if partition_of(self._state, each) is None]
        if unplaced:
            is_all = len(unplaced) == len(found.batches)
            self._note_unplaced(await self._kept(found, is_all=is_all), unplaced)
            if is_all:
                return
        before = _next_offsets(self._state, found.batches)
        stamped = append_time_topics(self._state, found.batches, self._is_append_time)
        outcomes = await self._coordinator.propose(
            SalvageWal(found.name, found.size_bytes, found.batches, stamped, bridges=gaps.bridges)
        )
        self._count(found.batches, outcomes, before)

    def _is_append_time(self, topic: Topic) -> bool:
        return self._cluster.of(topic).timestamp_type_is_append

    async def _kept(self, found: _Found, *, is_all: bool) -> str:
        """Keep records without a topic when the rest of their object is deleted; return the key."""
        if is_all:
            return found.key  # nothing will refer to the object, so nothing will delete it
        key = unplaced_key(self._state.cluster_id, self._state.timeline, found.key)
        await put_idempotent(self._store, key, await self._store.get(found.key))
        return key

    def _note_unplaced(self, key: str, batches: list[BatchFacts]) -> None:
        records: dict[tuple[str, int], int] = {}
        for batch in batches:
            place = (batch.topic_id.hex(), batch.partition)
            records[place] = records.get(place, 0) + batch.record_count
        rows = [Unplaced(key, *place, count) for place, count in records.items()]
        self.report.unplaced += rows
        for row in rows:
            _log.warning("records of a topic that the backup does not know", **row._asdict())

    def _count(
        self, batches: list[BatchFacts], outcomes: list[BatchOutcome], before: dict[int, int]
    ) -> None:
        report = self.report
        report.objects += 1
        for batch, outcome in zip(batches, outcomes, strict=True):
            partition = partition_of(self._state, batch)
            if outcome.refusal is Refusal.UNKNOWN_TOPIC or partition is None:
                continue
            if outcome.refusal is not None:
                reason = outcome.refusal.value
                report.refused[reason] = report.refused.get(reason, 0) + 1
            elif outcome.base_offset < before[partition.number]:
                report.duplicates += 1
            else:
                report.batches += 1
                report.records += batch.record_count
        if report.objects % SAID_EVERY == 0:
            self._say(f"salvaged {report.records} records of {report.objects} objects")


def _found(
    state: ClusterState, name: WalName, info: ObjectInfo, body: bytes, *, unpacks: bool
) -> _Found:
    contents = read_wal(body)
    if contents.identity[1:] != name:
        raise CorruptObject(f"it says that it is {contents.identity}")
    inside = unpacked(state, contents) if unpacks else []
    batches = new_batches(state, contents)
    return _Found(info.key, name, len(body), info.modified_at, batches, inside)


def _next_offsets(state: ClusterState, batches: list[BatchFacts]) -> dict[int, int]:
    partitions = [partition_of(state, each) for each in batches]
    return {each.number: each.next_offset for each in partitions if each is not None}
