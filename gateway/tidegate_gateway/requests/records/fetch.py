"""Fetch: versions 4-18.

Partitions are served in the requested order.  An answer has whole batches only, from the batch that
holds the offset on.  If a partition has records, the fetch gets an answer at once.  Otherwise it
waits for the metadata log to grow.

A consumer whose rack is another zone is sent to a gateway there (KIP-392).  As in Kafka, this
answer comes at once and without records; see read_steering.py.  A draining gateway answers
NOT_LEADER_OR_FOLLOWER, so that consumers look for the leader; if one does not, the answer names a
gateway.  A gateway that is cut off from the metadata log gives this error after the wait, for
partitions without further known records; with an authorizer at once for all, since its ACLs may be
stale.  A gateway that is cut off from the object store gives it for records that it cannot read.

Differs from Kafka: an answer never ends in a cut batch.  An OFFSET_OUT_OF_RANGE has the high
watermark and the log start.  A fetch with a replica id is refused and changes nothing
(CVE-2018-1288), since gateways do not replicate from each other.

If a fetch takes its client above a quota, the answer has throttle_time_ms and no records, and the
session does not change (KIP-219).  The client then sends the same fetch again.

If a client names the epoch of its last record, and that record is after the epoch's end, the answer
has the end of the epoch (KIP-595).  Consumers get it by OffsetForLeaderEpoch, when a new epoch
fences them (KIP-320).

INCONSISTENT_TOPIC_ID cannot occur, since topics are looked up only by id: after a topic is deleted
and created again, the old id is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import ClassVar, Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as codec
from tidegate_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidegate_protocol.primitives import records_size

from ...cost.ledger import reading_for
from ...fetch.fetch_plan import FetchSettings, Known, Miss, ReadPass, ReadProblem
from ...fetch.fetch_sessions import FetchContext, FetchSessions, SessionProblem, Wanted
from ...fetch.fetch_waiters import FetchWaiters
from ...fetch.log_reader import Loaded, LogReader
from ...fetch.read_ahead import ReadAhead
from ...fetch.segment_rows import bytes_to_load
from ...gateway_counters import GatewayCounters
from ...network.call import Call, Rights
from ...network.fetch_work import FetchWork, loading_for
from ...network.reply_memory import ReplyMemory
from ...security.authority import Authority
from ...zones.read_steering import Elsewhere, ReadSteering
from .fetch_answer import Look

TOPIC_IDS_FROM: Final = 13
# Clients with older versions do not know storage errors, and treat them as fatal.
STORAGE_ERRORS_FROM: Final = 6
READ_COMMITTED: Final = 1
# A fetch may need several rounds of loading: one may load only the index of a segment.
_LOAD_ROUNDS: Final = 4
LOOKED_AT_ONCE: Final = 2_000
# The bytes of an answer and of a partition in it, without records.
_HEAD_BYTES: Final = 20
_PARTITION_BYTES: Final = 56

_SESSION_CODES: Final = {
    SessionProblem.NOT_FOUND: ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    SessionProblem.WRONG_EPOCH: ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    SessionProblem.OTHER_TOPIC_KEYS: ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}


@dataclass(frozen=True, slots=True)
class Fetch:
    """See the module's head.

    authority: decides whether a client may read; None without an authorizer.
    """

    coordinator: Coordinator
    reader: LogReader
    waiters: FetchWaiters
    sessions: FetchSessions
    settings: FetchSettings
    read_ahead: ReadAhead
    steering: ReadSteering
    reply_memory: ReplyMemory
    authority: Authority | None = None
    counters: GatewayCounters = field(default_factory=GatewayCounters)
    api_key: ClassVar[int] = ApiKey.FETCH
    messages: ClassVar[ModuleType] = codec

    @property
    def sends_away(self) -> bool:
        """Whether clients should use other gateways."""
        coordinator = self.coordinator
        if self.authority is not None and coordinator.is_stale:
            return True
        return coordinator.state.gateways.sends_away(coordinator.incarnation)

    def on_change(self, touched: set[int]) -> None:
        """Wake the fetches that wait for a changed partition; the coordinator calls this."""
        if not self.waiters:
            return
        self.waiters.on_change(touched)
        if self.sends_away:
            self.waiters.wake_all()

    async def handle(self, call: Call, request: FetchRequest) -> FetchResponse:
        """Answer with records, or without records after max_wait_ms."""
        version = call.version
        if _replica_id(request) >= 0:
            return _refuse_replica(request)
        reading_for(call.peer.client_id or "")
        now, work = trio.current_time(), FetchWork()
        call.peer.fetch_work = work
        context = self.sessions.begin(request, version, now, call.peer.principal)
        if isinstance(context, SessionProblem):
            return FetchResponse(0, _SESSION_CODES[context])
        elsewhere = self.steering.of(call, request.rack_id)
        deadline = self._deadline(call, request, now)
        rights = self.authority.of(call.peer) if self.authority is not None else None
        max_bytes = self._max_bytes(call, request)
        reading = _Reading(
            self, request, version, context.wanted, max_bytes, elsewhere, rights, work
        )
        look = await self._read(request, context, reading, deadline)
        work.size_bytes = look.bytes_read
        self._note_times(now, work.waited_seconds)
        if call.cost is not None and not call.cost.fetch(_answer_bytes(look), _now_ms()):
            look.let_go()
            return self._throttled(context)
        if version < STORAGE_ERRORS_FROM:
            look.without_storage_errors()
        if look.sends_away:
            look.lead_away(self.steering.away(call, request.rack_id), context.wanted)
        self.steering.moved += look.moves
        call.peer.fetched_bytes += look.bytes_read
        self.read_ahead.want(look.behind, id(call.peer))
        self.reader.unreadable.note(look.unread, trio.current_time())
        finished = self.sessions.finish(
            context, look.answers, version=version, now=trio.current_time()
        )
        if isinstance(finished, SessionProblem):
            return FetchResponse(0, _SESSION_CODES[finished])
        session_id, pairs = finished
        self._note_topics(pairs)
        return FetchResponse(0, ErrorCode.NONE, session_id, _by_topic(pairs, version))

    def _note_times(self, began: float, waited_seconds: float) -> None:
        times = self.counters.fetches
        times.wait.add(waited_seconds)
        times.local.add(trio.current_time() - began - waited_seconds)

    def _note_topics(self, pairs: Iterable[tuple[Wanted, PartitionData]]) -> None:
        """Count the partitions with records or an error."""
        topics, counters = self.coordinator.state.topics, self.counters.topics
        for wanted, data in pairs:
            if not (data.records or data.error_code):
                continue
            name, topic_id = wanted.name, wanted.topic_id
            topic = topics.by_name.get(name) if name else topics.by_shown_id.get(topic_id)
            if topic is None:
                continue
            if data.records:
                counters.fetched(topic.name, records_size(data.records))
            else:
                counters.fetch_failed(topic.name)

    def _deadline(self, call: Call, request: FetchRequest, now: float) -> float:
        """Return the deadline of a fetch's wait, at most the end of its client's session."""
        max_wait_ms = min(request.max_wait_ms, self.settings.max_wait_ms)
        return min(now + max_wait_ms / 1000, call.peer.session_ends_at)

    def _max_bytes(self, call: Call, request: FetchRequest) -> int:
        """Return how many bytes an answer may have, by the request, the quota and the settings."""
        max_bytes = min(request.max_bytes, self.settings.max_bytes)
        most_bytes = call.cost.fetch_bytes if call.cost is not None else None
        return max_bytes if most_bytes is None else min(max_bytes, most_bytes)

    def _throttled(self, context: FetchContext) -> FetchResponse:
        session_id = self.sessions.unchanged(context)
        if isinstance(session_id, SessionProblem):
            return FetchResponse(0, _SESSION_CODES[session_id])
        return FetchResponse(0, ErrorCode.NONE, session_id, [])

    async def _read(
        self,
        request: FetchRequest,
        context: FetchContext,
        reading: _Reading,
        deadline: float,
    ) -> Look:
        """Look until the fetch has min_bytes or an error, or until its deadline."""
        while True:
            look = await reading.read()
            # A fetch must not wait for new records if existing ones are only not loaded yet.
            is_enough = (
                look.bytes_read >= reading.min_bytes
                or look.is_cut_short
                or look.has_error
                or look.moves
                or not context.wanted
            )
            now = trio.current_time()
            if is_enough or now >= deadline:
                if self.coordinator.is_cut_off:
                    look.disown_ends()
                if self.reader.way.is_cut_off:
                    look.disown_unread()
                return look
            look.let_go()
            self.counters.fetches.waiting += 1
            try:
                await self.waiters.wait(
                    look.seen,
                    reading.min_bytes - look.bytes_read,
                    deadline,
                    is_committed_only=request.isolation_level == READ_COMMITTED,
                )
            finally:
                self.counters.fetches.waiting -= 1
                reading.work.waited_seconds += trio.current_time() - now


class _Reading:
    """One fetch, over all its looks.

    min_bytes: that suffice for an answer, as of the last look.  _max_bytes: the limit by request,
    quota and settings.  _room_bytes: the largest reply by the free memory.  _rights_as_of: the
    version of the ACLs at the last look.  work: the cost of the fetch so far.
    _proof: whether the replica was read to the log's end; None if not tried, False if it failed.
    """

    __slots__ = (
        "_elsewhere",
        "_fetch",
        "_last",
        "_max_bytes",
        "_min_bytes",
        "_proof",
        "_request",
        "_rights",
        "_rights_as_of",
        "_room_bytes",
        "_version",
        "_wanted",
        "min_bytes",
        "work",
    )

    def __init__(
        self,
        fetch: Fetch,
        request: FetchRequest,
        version: int,
        wanted: Sequence[Wanted],
        max_bytes: int,
        elsewhere: Elsewhere | None,
        rights: Rights | None,
        work: FetchWork,
    ) -> None:
        self.work = work
        self._rights = rights
        self._rights_as_of = 0
        self._fetch = fetch
        self._elsewhere = elsewhere
        self._request = request
        self._version = version
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._proof: bool | None = None
        self._last: Look | None = None
        self._room_bytes = 0
        self.min_bytes = self._min_bytes

    async def read(self) -> Look:
        """Look, load missing runs, and look again."""
        if self._last is None and len(self._wanted) > LOOKED_AT_ONCE:
            self._rights_as_of = self._fetch.coordinator.state.acls.version
            self._last = await self._glance()
        known: Loaded = {}
        rounds = loading_bytes = 0
        memory = self._fetch.reply_memory
        self._room_bytes = memory.reply_bytes
        # Half of the room, since the next batch may not fit into the other half.
        self.min_bytes = min(self._min_bytes, self._room_bytes // 2)
        try:
            while True:
                look = self._look(known)
                if look.is_doubtful and self._proof is None:
                    look.let_go()
                    await self._catch_up()
                    continue
                misses = look.misses(self.min_bytes, is_first=not rounds)
                if not misses or rounds == _LOAD_ROUNDS:
                    return look
                look.let_go()
                rounds += 1
                size_bytes = _size_bytes(misses)
                loading_bytes += size_bytes
                memory.used_bytes += size_bytes
                with loading_for(self.work):
                    loaded = await self._fetch.read_ahead.load(misses)
                known.update(loaded)
                if ReadProblem.MISSING in loaded.values():
                    # The replica may not know yet that the objects were deleted or merged.
                    await self._catch_up()
        finally:
            # Before another fetch looks, the connection counts the reply's memory.
            memory.used_bytes -= loading_bytes

    async def _glance(self) -> Look:
        """Look at many partitions in turns, without reading records.

        The next look has no checkpoint (fetch_waiters.py), but finds most partitions unchanged.
        """
        reader = self._fetch.reader
        look = self._look_with(ReadPass(reader.ready, reader.index_of, {}, 0, bytes_read=1))
        for at, wanted in enumerate(self._wanted, start=1):
            look.add(wanted)
            if not at % LOOKED_AT_ONCE:
                await trio.lowlevel.checkpoint()
        return look

    def _look(self, known: Known) -> Look:
        fetch, settings = self._fetch, self._fetch.settings
        plan = ReadPass(
            fetch.reader.ready,
            fetch.reader.index_of,
            known,
            min(self._max_bytes, self._room_bytes),
            min(settings.max_load_bytes, self._room_bytes),
            settings.max_load_runs,
            offsets_records=fetch.reader.offsets_records,
        )
        look = self._look_with(plan)
        rights = fetch.coordinator.state.acls.version
        is_same = rights == self._rights_as_of and not fetch.sends_away
        last = self._last if is_same else None
        self._rights_as_of = rights
        for at, wanted in enumerate(self._wanted):
            if last is None or not look.repeat(last, at):
                look.add(wanted)
        self._last = look
        return look

    def _look_with(self, plan: ReadPass) -> Look:
        fetch = self._fetch
        return Look(
            fetch.coordinator.state,
            plan,
            uses_topic_ids=self._version >= TOPIC_IDS_FROM,
            is_committed_only=self._request.isolation_level == READ_COMMITTED,
            is_proven=self._proof is not False,
            elsewhere=self._elsewhere,
            min_file_bytes=fetch.settings.min_file_bytes,
            sends_away=fetch.sends_away,
            rights=self._rights,
        )

    async def _catch_up(self) -> None:
        try:
            await self._fetch.coordinator.catch_up()
        except CoordinatorUnavailable:
            self._proof = False
        else:
            self._proof = True


def _by_topic(
    pairs: Iterable[tuple[Wanted, PartitionData]], version: int
) -> list[FetchableTopicResponse]:
    """Merge neighbouring answers of one topic."""
    topics: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    for wanted, data in pairs:
        key = wanted.topic_id if version >= TOPIC_IDS_FROM else wanted.name
        if key != last:
            topics.append(FetchableTopicResponse(wanted.name, wanted.topic_id, []))
            last = key
        topics[-1].partitions.append(data)
    return topics


def _answer_bytes(look: Look) -> int:
    """Return about how many bytes an answer takes; 0 without records, which uses no quota."""
    if not look.bytes_read:
        return 0
    full = sum(1 for each in look.answers if each.records)
    return _HEAD_BYTES + full * _PARTITION_BYTES + look.bytes_read


def _now_ms() -> int:
    return int(trio.current_time() * 1_000)


def _size_bytes(misses: Iterable[Miss]) -> int:
    return sum(bytes_to_load(row) for miss in misses for row in miss.rows)


def _replica_id(request: FetchRequest) -> int:
    if request.replica_state is not None:
        return request.replica_state.replica_id
    return request.replica_id


def _refuse_replica(request: FetchRequest) -> FetchResponse:
    """Return Kafka's answer to an unauthorized replica."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topics = [
        FetchableTopicResponse(
            topic.topic,
            topic.topic_id,
            [
                PartitionData(
                    each.partition, code, -1, -1, -1, aborted_transactions=None, records=b""
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return FetchResponse(0, ErrorCode.NONE, 0, topics)
