"""The second half of the produce path: open WAL object -> object store -> coordinator -> answers.

append() is synchronous: the order of calls is the order of offsets.  `run` seals the open object if
it is full, or if it holds a batch and the pace (seal_pace.py) allows the seal.  A seal also needs a
free upload slot, and memory.  Uploads run in parallel.  The coordinator gets the commits
(wal_commits.py) in the order of sealing, and puts many commits into one log entry.
A small object may travel in the log entry that commits it: inline_lane.py, commit_order.py.

A PUT is repeated with the same key until its deadline (wal_puts.py).  After the deadline an event
abandons the WAL id, so that an object that is stored later can never be committed, and can be
deleted.  The gateway refuses the batches with a retriable error, and commits later objects.  The
same happens if the commit of an object cannot be decided.

If another gateway's object already has the key, either the log lost its end and assigned this
incarnation twice, or another cluster has the same prefix.  The other object stays, for salvage.
The gateway refuses the batches with a retriable error, and `run` raises an error: after a restart
the gateway has a new incarnation.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.records import BatchHeader
from tidegate_storage.objects.wal import OpenWal, SealedWal, WalIdentity
from tidegate_storage.stores.object_store import ObjectExists, ObjectStore

from ..cost.ledger import LINKS, paid_by, weights_of
from ..network.arenas import Arena
from ..network.inflow import Inflow
from ..network.transport import Buffer
from ..store_way.store_way import StoreWay
from ..upkeep.key_taken import key_taken
from ..upkeep.upkeep import Upkeep
from .commit_order import CommitOrder
from .inline_lane import InlineLane
from .put_budget import PutBudget
from .seal_pace import SealPace
from .sealed_object import SealedObject
from .wal_commits import BatchToken, MirroredToken, OnStored, WalCommits, appended
from .wal_counters import WalCounters
from .wal_puts import WalPuts
from .wal_settings import WalSettings

_log = structlog.get_logger("tidegate.wal")
# The most bytes that one batch takes in a log entry: its run and its producer state (see events/).
EVENT_BYTES_PER_BATCH = 120
# An object of this size takes no token of the budget, a smaller one takes up to one (decision 5).
EFFICIENT_OBJECT_BYTES = 7 << 20
ENTRY_SECONDS = 0.1  # the open object waits for the answer of the log, which is due sooner


class WalWriter:
    """Collects batches of all connections in shared objects.

    Args:
      inflow: when produce requests arrive.  key_of: object key of a WAL identity.
      is_append_time: whether a topic has LogAppendTime.
      on_stored: called once an object is stored, before its commit can wake a reader, so that
          readers find it in a cache.
      on_batches: called with the number of batches of an object that is stored.
      after_answers: called once after the answers of a commit were filled in.
      upkeep: counts unexpected errors.
      way: notes the results of PUTs.
    """

    def __init__(
        self,
        store: ObjectStore,
        coordinator: Coordinator,
        settings: WalSettings,
        *,
        node_id: int,
        inflow: Inflow,
        key_of: Callable[[WalIdentity], str],
        is_append_time: Callable[[Topic], bool],
        on_stored: OnStored,
        after_answers: Callable[[], None],
        on_batches: Callable[[int], None] = lambda _: None,
        upkeep: Upkeep | None = None,
        way: StoreWay | None = None,
    ) -> None:
        self._upkeep = upkeep or Upkeep()
        self.way = way or StoreWay()
        self.lane: InlineLane | None = None  # None: no object travels in the log
        self._goes_into_log = False  # as _pause_seconds() decided for the seal that follows
        self._nursery: trio.Nursery | None = None
        self._coordinator = coordinator
        self._settings = settings
        self._node_id = node_id
        self._key_of = key_of
        self._after_answers = after_answers
        self._on_batches = on_batches
        budget = settings.put_budget_per_second if store.requests_cost_money else 0.0
        self._pace = SealPace(
            PutBudget(budget, EFFICIENT_OBJECT_BYTES),
            inflow,
            min(EFFICIENT_OBJECT_BYTES, settings.max_object_bytes),
            settings.linger_seconds,
        )
        self._max_batches = coordinator.max_entry_bytes // 4 // EVENT_BYTES_PER_BATCH
        self._open = OpenWal()
        self._pinned: list[Arena] = []
        self._mirrored: list[MirroredToken] = []
        self._clients: dict[str, int] = {}
        self._wake_at_bytes = 1
        self._opened_at = 0.0
        self._counter = 0
        self._in_flight_bytes = 0
        self._uploading = 0
        self._unsettled: set[int] = set()
        self._work = trio.Event()
        self._room = trio.Event()
        self.counters = WalCounters()
        self.puts = WalPuts(
            store, self.way, self.counters, self._upkeep, settings.put_timeout_seconds
        )
        self._commits = WalCommits(
            coordinator,
            self.counters,
            self._upkeep,
            is_append_time=is_append_time,
            on_stored=on_stored,
            on_end=self._end,
            walks_records=settings.walks_records,
        )
        self._order = CommitOrder(self._commits, self.way, self._start_upload)
        inflow.on_end = lambda: self._work.set()

    # -- stage one --------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Return whether append() may be called."""
        return (
            self._open.size_bytes < self._settings.max_object_bytes
            and self._open.batch_count < self._max_batches
        )

    async def wait_for_room(self) -> None:
        """Wait until append() may be called."""
        while not self.has_room:
            await self._room.wait()

    def append(
        self,
        topic_id: bytes,
        partition: int,
        batch: Buffer,
        header: BatchHeader,
        token: BatchToken,
        flags: int = 0,
    ) -> None:
        """Add a checked batch; its place in the log is now fixed.  The bytes must not change.

        flags: see BatchFacts.
        """
        if not self._open.size_bytes:
            self._opened_at = trio.current_time()
            self._pace.opened(self._opened_at)
        self._open.append(
            topic_id,
            partition,
            batch,
            header.record_count,
            header.max_timestamp,
            appended(header, token, flags),
        )
        enough = self._open.size_bytes >= self._wake_at_bytes or not self.has_room
        if enough and not self._work.is_set():
            self._work.set()

    def append_mirrored(
        self,
        topic_id: bytes,
        partition: int,
        batch: Buffer,
        facts: tuple[int, ...],
        token: MirroredToken,
    ) -> None:
        """Add a checked batch of a mirrored partition.  The bytes must not change.

        facts: BatchFacts from record_count on.
        """
        if not self._open.size_bytes:
            self._opened_at = trio.current_time()
            self._pace.opened(self._opened_at)
        self._open.append(topic_id, partition, batch, facts[0], facts[1], (facts, token))
        self._mirrored.append(token)
        self.wrote(LINKS, len(batch))
        enough = self._open.size_bytes >= self._wake_at_bytes or not self.has_room
        if enough and not self._work.is_set():
            self._work.set()

    def pin(self, arena: Arena) -> None:
        """Keep an arena until the open object, which refers to it, is sealed.

        Call this with every append() of bytes in an arena, without a checkpoint in between.
        """
        if not self._pinned or self._pinned[-1] is not arena:
            arena.pin()
            self._pinned.append(arena)

    def wrote(self, client_id: str, size_bytes: int) -> None:
        """Note the client of appended bytes, who pays for its share of the open object."""
        self._clients[client_id] = self._clients.get(client_id, 0) + size_bytes

    # -- sealing ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Seal, store and commit objects; forever.

        Raises:
          KeyTaken: another gateway's object has the key of an own one, whose batches are refused.
        """
        async with trio.open_nursery() as self._nursery:
            while True:
                await self._wait_until_sealable()
                sealed = self._seal()
                self._order.objects.append(sealed)
                if sealed.is_inlined:
                    self._order.hand_on()
                else:
                    self._uploading += 1
                    self._nursery.start_soon(self._upload, sealed)

    def _start_upload(self, sealed: SealedObject) -> None:
        assert self._nursery is not None, "objects are sealed by run()"
        self._uploading += 1
        self._nursery.start_soon(self._upload, sealed)

    async def drain(self) -> None:
        """Wait until all batches that were appended before this call have answers.

        Connected clients may continue; drain() does not wait for their later batches.
        """
        waiting = self._open if self._open.size_bytes else None
        while self._open is waiting:
            await self._room.wait()
        end = self._counter
        while any(counter < end for counter in self._unsettled):
            await self._room.wait()

    async def _wait_until_sealable(self) -> None:
        while True:
            # Let all connections with received requests add their batches first.
            await trio.lowlevel.checkpoint()
            if self._may_seal():
                pause = self._pause_seconds()
                if pause <= 0:
                    return
                # append() ends the pause only when the object is large enough to need no tokens.
                self._wake_at_bytes = self._pace.efficient_bytes
                with trio.move_on_after(pause):
                    await self._work.wait()
                self._wake_at_bytes = 1
            else:
                await self._work.wait()
            self._work = trio.Event()

    def _may_seal(self) -> bool:
        """Return whether there is a batch to seal, and a slot and memory for its object.

        Without this limit, sealed objects could pile up while the log does not answer, or while
        later objects wait for a slow upload.
        """
        size_bytes = self._open.size_bytes
        fits = self._in_flight_bytes + size_bytes <= self._settings.max_in_flight_bytes
        return (
            size_bytes > 0
            and self._uploading < self._settings.upload_slots
            and (fits or not self._in_flight_bytes)
        )

    def _pause_seconds(self) -> float:
        lane, size_bytes, now = self.lane, self._open.size_bytes, trio.current_time()
        # Only if no object of the other kind is under way, so that none is overtaken.
        self._goes_into_log = (
            lane is not None
            and not (self._uploading or self._mirrored)
            and lane.takes(size_bytes, now)
            and self._order.are_inlined
            and not (self.way.is_cut_off or self.way.holds_commits)
        )
        if self._goes_into_log:
            return ENTRY_SECONDS if self._order.inlining is not None else 0.0
        if not self.has_room:
            return 0.0
        return self._pace.pause_seconds(size_bytes, now, is_alone=not self._unsettled)

    def next_identity(self) -> WalIdentity:
        """Take the next WAL id."""
        identity = WalIdentity(self._node_id, self._coordinator.incarnation, self._counter)
        self._counter += 1
        return identity

    def _seal(self) -> SealedObject:
        identity = self.next_identity()
        self._unsettled.add(identity.counter)
        times, began = self.counters.times, trio.current_time()
        is_inlined = self._goes_into_log
        self._pace.sealed(self._open.size_bytes, began, is_paid=not is_inlined)
        sealed = self._open.seal(identity)
        sealed_at = trio.current_time()
        times.queue.add(began - self._opened_at)
        times.seal.add(sealed_at - began)
        self._open = OpenWal()
        self._in_flight_bytes += len(sealed.body)
        pinned, self._pinned = self._pinned, []
        for arena in pinned:
            arena.unpin()
        self._notify_room()
        mirrored, self._mirrored = self._mirrored, []
        clients, self._clients = self._clients, {}
        key = self._key_of(identity)
        made = SealedObject(sealed, key, mirrored, began, sealed_at, clients)
        if is_inlined and self.lane is not None:
            self.lane.took(len(sealed.body))
            made.is_inlined, made.stored_at = True, sealed_at
        return made

    def _notify_room(self) -> None:
        self._room.set()
        self._room = trio.Event()

    # -- storing ----------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Abandon all uncommitted objects, in order.

        While this gateway is cut off from the store, later objects are abandoned, too.
        """
        for sealed in self._order.objects:
            self._give_up(sealed)
            sealed.putting.cancel()
        self.commit_in_order()

    def _give_up(self, sealed: SealedObject) -> None:
        if not sealed.given_up:
            sealed.given_up = True
            self.counters.abandoned += 1
            _log.error("gave up storing a WAL object", key=sealed.key)

    async def _upload(self, sealed: SealedObject) -> None:
        began = trio.current_time()
        try:
            topics = weights_of([(each.topic_id, each.size_bytes) for each in sealed.wal.slices])
            if self.way.is_cut_off:
                sealed.putting.cancel()
            sealed.putting.deadline = began + self._settings.put_timeout_seconds
            with paid_by(topics, sealed.clients), sealed.putting:
                await self.puts.put(sealed.key, sealed.wal.body)
                self._on_batches(len(sealed.wal.batches))
                sealed.stored_at = trio.current_time()
                seconds = sealed.stored_at - began
                self._pace.stored(seconds)
                self.counters.times.upload.add(sealed.stored_at - sealed.sealed_at)
                self.counters.put_seconds += seconds
        except ObjectExists as error:
            # This id is not abandoned: an abandoned id would get the other gateway's object
            # deleted.
            if self._order.take_out(sealed):
                self._commits.refuse(sealed.wal)
            raise key_taken(sealed.key) from error
        if sealed.stored_at < 0:
            self._give_up(sealed)
        self._uploading -= 1
        if self._open.size_bytes:  # if the object is empty, its first batch sets the event
            self._work.set()
        self._order.hand_on()

    # -- committing -------------------------------------------------------------------------------

    def commit_in_order(self) -> None:
        """Commit or abandon the objects whose turn it is; also called when commits may continue."""
        self._order.hand_on()

    def _end(self, wal: SealedWal) -> None:
        """Note that the batches of an object have outcomes, or time out later."""
        was_inlined = self._order.inlining is not None and self._order.ended(wal)
        self._unsettled.discard(wal.identity.counter)
        self._in_flight_bytes -= len(wal.body)
        if self._open.size_bytes:
            self._pace.answered(trio.current_time())
            self._work.set()
        self._after_answers()
        self._notify_room()
        if was_inlined:
            self._order.hand_on()
