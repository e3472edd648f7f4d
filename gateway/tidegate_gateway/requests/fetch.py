"""Fetch: versions 4-18.

Partitions are served in the order asked, whole batches only, the one that holds the offset first.
Data that is there is answered at once; else the fetch waits for the metadata log to grow.

A consumer that says its rack and is of another zone is sent to a gateway there (KIP-392), which
answers at once and without records, as Kafka does; see read_steering.py.  A gateway that drains
answers NOT_LEADER_OR_FOLLOWER, so that consumers look for the leader anew.

Differs from Kafka: an answer never ends in a cut batch; an OFFSET_OUT_OF_RANGE names high watermark
and log start; a fetch with a replica id is refused, since gateways do not follow each other, and
changes nothing (CVE-2018-1288).  Every partition's leader epoch is 0.
INCONSISTENT_TOPIC_ID cannot arise: a topic is looked up by its id alone, so one that was deleted
and created again is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final, cast

import trio

from tidegate_coordination.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch as codec
from tidegate_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidegate_protocol.primitives import Buffer
from tidegate_storage.file_part import FileChanged, FilePart

from ..call import Call
from ..fetch_plan import FetchSettings, Known, Miss, Piece, ReadPass, ReadProblem, Unread
from ..fetch_sessions import FetchContext, FetchSessions, SessionProblem, Wanted
from ..fetch_waiters import FetchWaiters
from ..log_reader import Loaded, LogReader
from ..prepared_runs import LEADER_EPOCH
from ..read_ahead import ReadAhead
from ..read_steering import STAY, Elsewhere, ReadSteering

TOPIC_IDS_FROM: Final = 13
ZSTD_FROM: Final = 10
READ_COMMITTED: Final = 1
# One of them may bring only the index of a segment.
_LOAD_ROUNDS: Final = 4
_OK: Final = ErrorCode.NONE
_NO_EPOCH: Final = -1
_HAS_MORE: Final = -1

_SESSION_CODES: Final = {
    SessionProblem.NOT_FOUND: ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    SessionProblem.WRONG_EPOCH: ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    SessionProblem.OTHER_TOPIC_KEYS: ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}
_READ_CODES: Final = {
    ReadProblem.MISSING: ErrorCode.KAFKA_STORAGE_ERROR,
    ReadProblem.UNAVAILABLE: ErrorCode.KAFKA_STORAGE_ERROR,
    ReadProblem.CORRUPT: ErrorCode.CORRUPT_MESSAGE,
    ReadProblem.NEEDS_ZSTD: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
}
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_UNPROVEN: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""What a replica that is behind may not say."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """See the module's head."""

    coordinator: Coordinator
    reader: LogReader
    waiters: FetchWaiters
    sessions: FetchSessions
    settings: FetchSettings
    read_ahead: ReadAhead
    steering: ReadSteering
    api_key: ClassVar[int] = 1
    messages: ClassVar[ModuleType] = codec

    @property
    def sends_away(self) -> bool:
        """Whether clients should turn to others."""
        coordinator = self.coordinator
        return coordinator.state.gateways.sends_away(coordinator.incarnation)

    def on_change(self, touched: set[int]) -> None:
        """Wake the fetches that wait for what changed; a listener of the coordinator."""
        self.waiters.on_change(touched)
        if self.sends_away:
            self.waiters.wake_all()

    async def handle(self, call: Call, request: FetchRequest) -> FetchResponse:
        """Answer with records, or with none once max_wait_ms is over."""
        version = call.version
        if _replica_id(request) >= 0:
            return _refuse_replica(request)
        now = trio.current_time()
        context = self.sessions.begin(request, version, now)
        if isinstance(context, SessionProblem):
            return FetchResponse(0, _SESSION_CODES[context])
        elsewhere = self.steering.of(call, request.rack_id)
        look = await self._read(request, version, context, now, elsewhere)
        self.steering.moved += look.moves
        call.peer.fetched_bytes += look.bytes_read
        self.read_ahead.want(look.behind)
        self.reader.unreadable.note(look.unread, trio.current_time())
        finished = self.sessions.finish(
            context, look.answers, version=version, now=trio.current_time()
        )
        if isinstance(finished, SessionProblem):
            return FetchResponse(0, _SESSION_CODES[finished])
        session_id, pairs = finished
        return FetchResponse(0, ErrorCode.NONE, session_id, _by_topic(pairs, version))

    async def _read(
        self,
        request: FetchRequest,
        version: int,
        context: FetchContext,
        now: float,
        elsewhere: Elsewhere | None,
    ) -> _Look:
        """Look until there is enough, something is wrong, or the time is over."""
        max_wait_ms = min(request.max_wait_ms, self.settings.max_wait_ms)
        min_bytes = min(request.min_bytes, request.max_bytes, self.settings.max_bytes)
        deadline = now + max_wait_ms / 1000
        reading = _Reading(self, request, version, context.wanted, min_bytes, elsewhere)
        while True:
            look = await reading.read()
            # What is there and could not be loaded yet is not what a fetch should wait for.
            is_enough = (
                look.bytes_read >= min_bytes
                or look.is_cut_short
                or look.has_error
                or look.moves
                or not context.wanted
            )
            if is_enough or max_wait_ms <= 0 or trio.current_time() >= deadline:
                return look
            await self.waiters.wait(
                look.seen,
                min_bytes - look.bytes_read,
                deadline,
                is_committed_only=request.isolation_level == READ_COMMITTED,
            )


class _Reading:
    """One fetch, over all its looks.

    _proof: that the replica was at the log's end; False when the log could not be read.
    """

    __slots__ = (
        "_elsewhere",
        "_fetch",
        "_last",
        "_min_bytes",
        "_proof",
        "_request",
        "_version",
        "_wanted",
    )

    def __init__(
        self,
        fetch: Fetch,
        request: FetchRequest,
        version: int,
        wanted: Sequence[Wanted],
        min_bytes: int,
        elsewhere: Elsewhere | None,
    ) -> None:
        self._fetch = fetch
        self._elsewhere = elsewhere
        self._request = request
        self._version = version
        self._wanted = wanted
        self._min_bytes = min_bytes
        self._proof: bool | None = None
        self._last: _Look | None = None

    async def read(self) -> _Look:
        """Look, load what is missing, and look again."""
        known: Loaded = {}
        rounds = 0
        while True:
            look = self._look(known)
            if look.is_doubtful and self._proof is None:
                await self._catch_up()
                continue
            misses = look.misses(self._min_bytes, is_first=not rounds)
            if not misses or rounds == _LOAD_ROUNDS:
                return look
            rounds += 1
            loaded = await self._fetch.read_ahead.load(misses)
            known.update(loaded)
            if ReadProblem.MISSING in loaded.values():
                # Our replica may not know yet that the records were deleted or moved elsewhere.
                await self._catch_up()

    def _look(self, known: Known) -> _Look:
        fetch, request = self._fetch, self._request
        settings = fetch.settings
        plan = ReadPass(
            fetch.reader.ready,
            fetch.reader.index_of,
            known,
            min(request.max_bytes, settings.max_bytes),
            self._version < ZSTD_FROM,
            settings.max_load_bytes,
            settings.max_load_runs,
        )
        look = _Look(
            fetch.coordinator.state,
            plan,
            uses_topic_ids=self._version >= TOPIC_IDS_FROM,
            is_committed_only=request.isolation_level == READ_COMMITTED,
            is_proven=self._proof is not False,
            elsewhere=self._elsewhere,
            min_file_bytes=settings.min_file_bytes,
            sends_away=fetch.sends_away,
        )
        last = self._last if not fetch.sends_away else None
        for at, wanted in enumerate(self._wanted):
            if last is None or not look.repeat(last, at):
                look.add(wanted)
        self._last = look
        return look

    async def _catch_up(self) -> None:
        try:
            await self._fetch.coordinator.catch_up()
        except CoordinatorUnavailable:
            self._proof = False
        else:
            self._proof = True


class _Look:
    """What all partitions of a fetch answer at one moment.

    seen: partition number -> end looked at.  is_doubtful: says what only a replica that is at the
    log's end may say.  moves: how many partitions are to be read elsewhere.  _read_up: the number
    of each partition that has nothing to read; -1 of the others.
    """

    __slots__ = (
        "_elsewhere",
        "_is_committed_only",
        "_is_proven",
        "_min_file_bytes",
        "_plan",
        "_read_up",
        "_sends_away",
        "_state",
        "_uses_topic_ids",
        "answers",
        "has_error",
        "is_doubtful",
        "moves",
        "seen",
    )

    def __init__(
        self,
        state: ClusterState,
        plan: ReadPass,
        *,
        uses_topic_ids: bool,
        is_committed_only: bool,
        is_proven: bool,
        elsewhere: Elsewhere | None,
        min_file_bytes: int,
        sends_away: bool,
    ) -> None:
        self._sends_away = sends_away
        self._elsewhere = elsewhere
        self._state = state
        self._plan = plan
        self._uses_topic_ids = uses_topic_ids
        self._is_committed_only = is_committed_only
        self._is_proven = is_proven
        self._min_file_bytes = min_file_bytes
        self._read_up: list[int] = []
        self.answers: list[PartitionData] = []
        self.seen: dict[int, int] = {}
        self.has_error = False
        self.is_doubtful = False
        self.moves = 0

    @property
    def bytes_read(self) -> int:
        """Return the bytes of all records."""
        return self._plan.bytes_read

    @property
    def is_cut_short(self) -> bool:
        """Tell whether it gives something, and more is there that is not in memory."""
        return bool(self._plan.bytes_read) and self._plan.is_cut_short

    @property
    def behind(self) -> list[tuple[Partition, int]]:
        """See ReadPass."""
        return self._plan.behind

    @property
    def unread(self) -> list[Unread]:
        """See ReadPass."""
        return self._plan.unread

    def misses(self, min_bytes: int, *, is_first: bool) -> list[Miss]:
        """Return what is to be loaded; after a first load only if there is nothing to say yet."""
        if not is_first and (self.has_error or self.bytes_read >= max(min_bytes, 1)):
            return []
        return self._plan.misses(min_bytes)

    def repeat(self, earlier: _Look, at: int) -> bool:
        """Answer the partition at that place as before if it has not changed; most have not."""
        number = earlier._read_up[at]
        partition = self._state.partitions.get(number)
        answer = earlier.answers[at]
        if (
            partition is None
            or answer.high_watermark != partition.next_offset
            or answer.last_stable_offset != partition.last_stable_offset
            or answer.log_start_offset != partition.log_start
        ):
            return False
        self.seen[number] = earlier.seen[number]
        self._read_up.append(number)
        self.answers.append(answer)
        return True

    def add(self, wanted: Wanted) -> None:
        """Answer one partition."""
        self._read_up.append(_HAS_MORE)
        request = wanted.request
        partition = self._partition(wanted)
        if partition is None:
            unknown_id = self._uses_topic_ids and wanted.topic_id not in self._state.topics.by_id
            self._fail(request.partition, _UNKNOWN[unknown_id], None)
            return
        code = _check(request, partition)
        if self._sends_away:
            # Retriable, and consumers look for the leader anew: the metadata name another by now.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code:
            self._fail(request.partition, code, partition)
            return
        high_watermark = partition.next_offset
        stable = partition.last_stable_offset
        end = stable if self._is_committed_only else high_watermark
        offset = request.fetch_offset
        records: list[Piece] | ReadProblem = []
        preferred = STAY
        if self._elsewhere is not None and (topic := self._topic(wanted)) is not None:
            preferred = self._elsewhere.preferred(topic, request.partition)
        if preferred != STAY:
            self.moves += 1
        elif offset >= end:
            self._read_up[-1] = partition.number
        else:
            records = self._plan.read(partition, offset, end, max(request.partition_max_bytes, 0))
        if isinstance(records, ReadProblem):
            self._fail(request.partition, _READ_CODES[records], partition)
            return
        try:
            pieces = _pieces(records, self._min_file_bytes)
        except FileChanged:
            # It is read from elsewhere when the client asks again, which is at once.
            self._fail(request.partition, ErrorCode.KAFKA_STORAGE_ERROR, partition)
            return
        self.seen[partition.number] = end
        self.answers.append(
            PartitionData(
                request.partition,
                _OK,
                high_watermark,
                stable,
                partition.log_start,
                None,
                None,
                None,
                [] if self._is_committed_only else None,
                preferred,
                pieces or b"",
            )
        )

    def _topic(self, wanted: Wanted) -> Topic | None:
        topics = self._state.topics
        if self._uses_topic_ids:
            return topics.by_id.get(wanted.topic_id)
        return topics.by_name.get(wanted.name)

    def _partition(self, wanted: Wanted) -> Partition | None:
        topic, index = self._topic(wanted), wanted.request.partition
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return None
        return self._state.partitions.get(topic.partition_numbers[index])

    def _fail(self, index: int, code: ErrorCode, partition: Partition | None) -> None:
        self.has_error = True
        if code in _UNPROVEN:
            self.is_doubtful = True
            if not self._is_proven:
                code = ErrorCode.KAFKA_STORAGE_ERROR
        answer = PartitionData(index, code, -1, -1, -1, aborted_transactions=None, records=b"")
        if partition is not None:
            answer.high_watermark = partition.next_offset
            answer.last_stable_offset = partition.last_stable_offset
            answer.log_start_offset = partition.log_start
        self.answers.append(answer)


def epoch_error(current_leader_epoch: int) -> ErrorCode:
    """Return what is wrong with the epoch a client knows; -1 is none."""
    if current_leader_epoch in (_NO_EPOCH, LEADER_EPOCH):
        return ErrorCode.NONE
    is_newer = current_leader_epoch > LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH if is_newer else ErrorCode.FENCED_LEADER_EPOCH


def _check(request: FetchPartition, partition: Partition) -> ErrorCode:
    """Return the error of a partition's request, in Kafka's order of checks."""
    if request.current_leader_epoch > LEADER_EPOCH or request.current_leader_epoch < _NO_EPOCH:
        return epoch_error(request.current_leader_epoch)
    is_inside = partition.log_start <= request.fetch_offset <= partition.next_offset
    if not is_inside or request.last_fetched_epoch > LEADER_EPOCH:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return _OK


def _by_topic(
    pairs: Iterable[tuple[Wanted, PartitionData]], version: int
) -> list[FetchableTopicResponse]:
    """Put neighbours of one topic together."""
    topics: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    for wanted, data in pairs:
        key = wanted.topic_id if version >= TOPIC_IDS_FROM else wanted.name
        if key != last:
            topics.append(FetchableTopicResponse(wanted.name, wanted.topic_id, []))
            last = key
        topics[-1].partitions.append(data)
    return topics


def _pieces(pieces: list[Piece], min_file_bytes: int) -> list[Buffer]:
    """Read small parts of files.

    Of the others the codec asks but for their length; the transport knows what they are.
    """
    return [
        piece.read()
        if isinstance(piece, FilePart) and len(piece) < min_file_bytes
        else cast("memoryview", piece)
        for piece in pieces
    ]


def _replica_id(request: FetchRequest) -> int:
    if request.replica_state is not None:
        return request.replica_state.replica_id
    return request.replica_id


def _refuse_replica(request: FetchRequest) -> FetchResponse:
    """Answer as Kafka does to one who may not follow."""
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
