"""Mirrors a link's partitions at this gateway: passes fetched batches to the WAL writer.

One task for each broker of the source fetches the partitions that the broker leads, one request at
a time.  The batches go into the shared WAL objects.  A partition is copied up to its end offset in
the cluster state, so a mirror stores no progress, and any gateway can continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import structlog
import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import AnotherCluster, ClassicError, Refused, Unsupported
from tidegate_coordination.client.fetched_batches import BadBatch, fetched_batches
from tidegate_coordination.client.source_bounds import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    source_offset,
)
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.import_claims import is_imported
from tidegate_coordination.rules.migration.mirrors import ANY_END, PlaceMirrors, Placing
from tidegate_coordination.state.migration.links import Link
from tidegate_coordination.state.records.partitions import Partition
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import FetchResponse, PartitionData

from ...produce.wal_writer import WalWriter
from ...work.fair_pool import PoolBusy
from ..assignment import candidates, mirrored_by, mirrored_topics
from .fetch_round import (
    MIN_BYTES,
    Asked,
    answers,
    asked_now,
    fetch_request,
    is_polled,
    record_bytes,
)
from .leaders import MOVED, Leaders
from .partition import PartitionMirror, diverged
from .tokens import MirrorBytes, write
from .walks import MirrorWalks

_log = structlog.get_logger("tidegate.links")

ASSIGN_SECONDS: Final = 0.5
REFRESH_SECONDS: Final = 15.0
IDLE_SECONDS: Final = 0.2
ROUNDS_TO_BELIEVE: Final = 2
"""So often must the source's end be above a partition without a batch."""
MAX_PARTITIONS_PER_FETCH: Final = 2_000
HURRY_SECONDS: Final = 0.02
# Errors after which the fetches of a partition pause.
_PAUSING: Final = (ClassicError, BadBatch, CoordinatorUnavailable, PoolBusy, ProposalFailed)
_FETCHES: Final = "fetches"
_HURRIED_FETCHES: Final = "hurried fetches"


class LinkMirror:
    """See the module's head.

    walks: checks the records of batches.  wait_seconds: how long the source may wait for more bytes
    before it answers a fetch.  without_store: returns the incarnations that are cut off from the
    object store.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        writer: WalWriter,
        held: MirrorBytes,
        link: Link,
        cluster: ClassicCluster,
        walks: MirrorWalks,
        *,
        wait_seconds: float,
        without_store: Callable[[], frozenset[int]],
    ) -> None:
        self.mirrors: dict[int, PartitionMirror] = {}
        self._coordinator = coordinator
        self._state = coordinator.state
        self._writer = writer
        self._held = held
        self._link = link
        self._cluster = cluster
        self._walks = walks
        self._wait_seconds = wait_seconds
        self._without_store = without_store
        self._leaders = Leaders(link.cluster_id)
        self._fetched: dict[int, trio.CancelScope] = {}  # by broker
        self._waiting: dict[int, trio.CancelScope] = {}  # waits for answers to fetches, by broker
        self._assigned_as_of: tuple[object, ...] = ()
        self._is_stale = True
        self._refreshed_at = 0.0

    async def run(self) -> None:
        """Mirror, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._assign()
                if is_imported(self._state, self._link.name):
                    self._stand_aside()
                else:
                    await self._rewind()
                # A broker may have answered before it knew of a topic or of a leader.
                looked_at = max(self._refreshed_at, self._cluster.metadata.whole_at)
                if self._is_stale or trio.current_time() - looked_at > REFRESH_SECONDS:
                    await self._refresh()
                self._start_fetching(nursery)
                await trio.sleep(ASSIGN_SECONDS)

    @property
    def _is_hurried(self) -> bool:
        """Return whether producers wait until copies are complete: a switch is going on."""
        fences = self._state.switches.of_link(self._link.name)
        return any(not each.lifted and not each.is_back for each in fences)

    def hurry(self) -> None:
        """Cancel waits for answers, which may come late: a switch has begun."""
        for each in self._waiting.values():
            each.cancel()

    # -- which partitions, from which brokers ------------------------------------------------------

    def _assign(self) -> None:
        gateways = candidates(self._state, self._without_store())
        topics = mirrored_topics(self._state, self._link.name)
        as_of = (gateways, *((each.topic_id, len(each.partition_numbers)) for each in topics))
        if as_of == self._assigned_as_of:
            return
        self._assigned_as_of = as_of
        self._leaders.forget()
        mine = mirrored_by(self._state, self._link.name, self._coordinator.incarnation, gateways)
        for number in self.mirrors.keys() - mine.keys():
            del self.mirrors[number]
        for number, (topic, index) in mine.items():
            if number not in self.mirrors:
                self.mirrors[number] = PartitionMirror(topic, index, number)
                self._is_stale = True

    def _stand_aside(self) -> None:
        """Pass nothing more to the writer, since an import copies the partitions."""
        for mirror in self.mirrors.values():
            mirror.is_lost = True

    async def _rewind(self) -> None:
        """Let partitions with a refused batch continue at their present end offsets."""
        lost = [each for each in self.mirrors.values() if each.is_lost and each.may_rewind]
        if not lost:
            return
        try:
            await self._coordinator.catch_up()
        except CoordinatorUnavailable:
            return
        for mirror in lost:
            partition = self._partition(mirror)
            if partition is not None and mirror.may_rewind:
                mirror.rewind(partition)

    async def _refresh(self) -> None:
        names = {each.topic.name for each in self.mirrors.values()}
        try:
            if names:
                await self._cluster.refresh(names)
            self._is_stale = False
            self._refreshed_at = trio.current_time()
        except AnotherCluster:
            raise
        except ClassicError as error:
            _log.warning("the source does not answer", link=self._link.name, error=str(error))

    def _partition(self, mirror: PartitionMirror) -> Partition | None:
        return self._state.partitions.get(mirror.number)

    def _start_fetching(self, nursery: trio.Nursery) -> None:
        for node_id in self._cluster.metadata.brokers:
            if node_id not in self._fetched:
                scope = self._fetched[node_id] = trio.CancelScope()
                nursery.start_soon(self._fetch_from, node_id, scope)
        for node_id in self._fetched.keys() - self._cluster.metadata.brokers.keys():
            self._fetched.pop(node_id).cancel()

    def _led_by(self, node_id: int, now: float) -> list[PartitionMirror]:
        """Return the partitions to fetch from a broker, the longest waiting ones first."""
        self._leaders.look(self._cluster.metadata, self.mirrors)
        for mirror, why in self._leaders.without(now):
            self._is_stale = True
            mirror.pause(now, why)
        return self._leaders.due(node_id, now, MAX_PARTITIONS_PER_FETCH)

    # -- fetching ----------------------------------------------------------------------------------

    async def _fetch_from(self, node_id: int, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await self._held.wait_for_room()
                mirrors = self._led_by(node_id, trio.current_time())
                if not mirrors:
                    await trio.sleep(IDLE_SECONDS)
                    continue
                asked = asked_now(mirrors)
                response: FetchResponse | None = None
                try:
                    with trio.CancelScope() as self._waiting[node_id]:
                        response = await self._fetch(node_id, asked)
                except ClassicError as error:
                    self._note_all(mirrors, str(error))
                    await trio.sleep(IDLE_SECONDS)
                    continue
                if response is not None:
                    await self._take_all(asked, response)
                    self._rotate(node_id, asked)
                    if is_polled(asked) and record_bytes(response) < MIN_BYTES:
                        await self._pause(node_id)

    async def _pause(self, node_id: int) -> None:
        """Wait for further records here, for as long as the source would wait."""
        with trio.CancelScope() as self._waiting[node_id]:
            await trio.sleep(HURRY_SECONDS if self._is_hurried else self._wait_seconds)

    async def _fetch(self, node_id: int, asked: Sequence[Asked]) -> FetchResponse:
        max_bytes = self._held.share_of(len(self._fetched))
        lane, wait_seconds, min_bytes = _FETCHES, self._wait_seconds, MIN_BYTES
        if self._is_hurried:  # on the usual connection this fetch would wait for an earlier one
            lane, wait_seconds, min_bytes = _HURRIED_FETCHES, HURRY_SECONDS, 1
        if is_polled(asked):
            wait_seconds = 0.0
        connection = await self._cluster.connection(node_id, lane)
        response: FetchResponse = await connection.call(
            "Fetch",
            lambda version: fetch_request(asked, version, wait_seconds, max_bytes, min_bytes),
            wait_seconds=wait_seconds,
        )
        return response

    def _rotate(self, node_id: int, asked: Sequence[Asked]) -> None:
        """Put partitions last that had a turn: those with batches, or all of a full fetch."""
        is_full = len(asked) == MAX_PARTITIONS_PER_FETCH
        for mirror, position in asked:
            had_turn = is_full or mirror.position != position
            if had_turn:
                self._leaders.had_turn(node_id, mirror)

    def _note_all(self, mirrors: Sequence[PartitionMirror], problem: str) -> None:
        self._is_stale = True
        now = trio.current_time()
        for each in mirrors:
            each.pause(now, problem)

    async def _take_all(self, asked: Sequence[Asked], response: FetchResponse) -> None:
        if response.error_code:
            mirrors = [each.mirror for each in asked]
            return self._note_all(mirrors, str(Refused("Fetch", response.error_code)))
        parts = list(answers(asked, response))
        is_empty = not any(data.records for _, data in parts)
        starts: list[Placing] = []
        for each, data in parts:
            if each.is_stale:
                continue
            mirror = each.mirror
            try:
                await self._take(mirror, data, is_empty=is_empty)
            except _PAUSING as error:
                mirror.pause(trio.current_time(), str(error))
            starts += self._later_start(mirror)
        if starts:
            await self._place(starts)
        return None

    async def _take(self, mirror: PartitionMirror, data: PartitionData, *, is_empty: bool) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._out_of_range(mirror)
        if data.error_code:
            self._is_stale |= data.error_code in MOVED
            text = str(Refused("Fetch", data.error_code))
            return mirror.pause(trio.current_time(), text)
        if data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
            return mirror.pause(trio.current_time(), diverged(mirror, data))
        mirror.high_watermark = data.high_watermark
        mirror.source_start = data.log_start_offset
        if data.records:
            records = cast("memoryview", data.records)
            batches = fetched_batches(records, mirror.position, after=mirror.end)
            walked = await self._walks.walked(batches)
            await write(self._writer, self._held, mirror, walked)
        elif is_empty and data.high_watermark > mirror.position:
            await self._end_without_batch(mirror, data)
        mirror.goes_on()
        return None

    # -- bounds ------------------------------------------------------------------------------------

    async def _end_without_batch(self, mirror: PartitionMirror, data: PartitionData) -> None:
        """Move the copy's end to that of the source, which is after the source's last batch.

        Not every answer without batches means this: the broker may be waiting for tiered storage,
        or may want the fetch to go to another replica.
        """
        mirror.empty_rounds += 1
        if mirror.empty_rounds < ROUNDS_TO_BELIEVE or mirror.unsettled:
            return
        if data.preferred_read_replica >= 0 or not await self._is_local(mirror, mirror.position):
            return
        partition = self._partition(mirror)
        if partition is not None:
            await self._move(mirror, partition.log_start, mirror.high_watermark)

    async def _is_local(self, mirror: PartitionMirror, offset: int) -> bool:
        """Return whether an offset is not only in tiered storage at the source's leader."""
        name, index = mirror.topic.name, mirror.index
        try:
            start = await source_offset(self._cluster, name, index, EARLIEST_LOCAL)
        except Unsupported:
            return True  # brokers without tiered storage
        return 0 <= start <= offset

    async def _out_of_range(self, mirror: PartitionMirror) -> None:
        """Continue at the source's log start if records expired there before they were copied.

        The first batch may begin before the log start, and the copy must have the whole batch.
        """
        if mirror.unsettled:
            return mirror.rest(trio.current_time())
        name, index = mirror.topic.name, mirror.index
        start = await source_offset(self._cluster, name, index, EARLIEST)
        if mirror.position >= start:
            return await self._beyond_end(mirror)
        first = await self._first_batch(mirror, start)
        if first is None:
            return mirror.rest(trio.current_time())
        base = max(mirror.end, min(start, first))
        if await self._move(mirror, base, base):
            mirror.position, mirror.epoch = start, -1
        return None

    async def _beyond_end(self, mirror: PartitionMirror) -> None:
        """Pause a partition whose next offset the source does not return.

        Either the source lost records, or a new leader does not know its high watermark yet.
        """
        end = await source_offset(self._cluster, mirror.topic.name, mirror.index, LATEST)
        if end < mirror.position:
            problem = f"the source ends at {end}, and its copy here at {mirror.position}"
        else:
            problem = "the source does not give the next record yet"
            mirror.epoch = -1  # the source may have forgotten its old epochs
        mirror.pause(trio.current_time(), problem)

    async def _first_batch(self, mirror: PartitionMirror, start: int) -> int | None:
        """Return the base offset of the source's batch with an offset; without a batch from there
        on, the offset; None if the source does not say now.
        """
        probe = PartitionMirror(mirror.topic, mirror.index, mirror.number, position=start)
        topic = self._cluster.metadata.topics.get(mirror.topic.name)
        partition = topic.partitions.get(mirror.index) if topic is not None else None
        if partition is None:
            raise Refused(mirror.topic.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        asked = asked_now([probe])
        response = await self._fetch(partition.leader_id, asked)
        for _, data in answers(asked, response):
            if data.records and not data.error_code:
                batches = fetched_batches(cast("memoryview", data.records), start, after=0)
                return batches[0].mirrored.base_offset if batches else None
            is_all = not data.error_code and data.preferred_read_replica < 0
            if is_all and (data.high_watermark <= start or await self._is_local(mirror, start)):
                return start
        return None

    async def _move(self, mirror: PartitionMirror, log_start: int, next_offset: int) -> bool:
        place = Placing(mirror.topic.topic_id, mirror.index, mirror.end, log_start, next_offset)
        is_placed = await self._place([place])
        if is_placed:
            mirror.position = mirror.end = next_offset
        else:
            mirror.is_lost = True
        return is_placed

    def _later_start(self, mirror: PartitionMirror) -> list[Placing]:
        """Return the placing for a new log start of the source, if it has risen."""
        start = mirror.source_start
        if start <= 0 or not (partition := self._partition(mirror)):
            return []
        if not partition.log_start < start <= partition.next_offset:
            return []
        return [Placing(mirror.topic.topic_id, mirror.index, ANY_END, start, -1)]

    async def _place(self, placings: Sequence[Placing]) -> bool:
        """Propose placings; return whether the first one was accepted."""
        proposal = PlaceMirrors(self._link.name, tuple(placings))
        try:
            return (await self._coordinator.propose(proposal))[0]
        except (CoordinatorUnavailable, ProposalFailed):
            return False
