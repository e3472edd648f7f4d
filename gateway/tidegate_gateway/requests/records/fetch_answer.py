"""One look of a fetch: the answers of all its partitions at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    PartitionData,
)
from tidegate_protocol.primitives import Buffer
from tidegate_storage.stores.files.file_part import FileChanged, FilePart

from ...fetch.aborted_list import aborted_between
from ...fetch.fetch_plan import Miss, Piece, ReadPass, ReadProblem, Unread
from ...fetch.fetch_sessions import Wanted
from ...network.call import Rights
from ...zones.read_steering import STAY, Away, Elsewhere

_OK: Final = ErrorCode.NONE
_NO_EPOCH: Final = -1
_HAS_MORE: Final = -1

_READ_CODES: Final = {
    ReadProblem.MISSING: ErrorCode.KAFKA_STORAGE_ERROR,
    ReadProblem.UNAVAILABLE: ErrorCode.KAFKA_STORAGE_ERROR,
    ReadProblem.CORRUPT: ErrorCode.CORRUPT_MESSAGE,
}
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_UNPROVEN: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Only a replica at the log's end may answer these errors."""


class Look:
    """See the module's head.

    seen: partition number -> end offset in this look.  is_doubtful: has an answer that needs a
    replica at the log's end.  moves: how many partitions the client should read elsewhere.
    _read_up: for each answer, the number of its partition if there is nothing to read; otherwise
    -1.  rights: the rights of the client; None without an authorizer.
    """

    __slots__ = (
        "_elsewhere",
        "_is_committed_only",
        "_is_proven",
        "_min_file_bytes",
        "_plan",
        "_read_up",
        "_rights",
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
        rights: Rights | None = None,
    ) -> None:
        self._rights = rights
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
        """Return whether a partition has further records that are not in memory or not made yet."""
        return self._plan.is_cut_short

    @property
    def behind(self) -> list[tuple[Partition, int]]:
        """See ReadPass."""
        return self._plan.behind

    @property
    def unread(self) -> list[Unread]:
        """See ReadPass."""
        return self._plan.unread

    def misses(self, min_bytes: int, *, is_first: bool) -> list[Miss]:
        """Return the ranges to load.

        After the first load, return some only if the answer is still too small and has no error.
        """
        if not is_first and (self.has_error or self.bytes_read >= max(min_bytes, 1)):
            return []
        return self._plan.misses(min_bytes)

    def let_go(self) -> None:
        """Release all records, since another look follows, perhaps much later."""
        self._plan.known = {}
        if self._plan.bytes_read:
            for answer in self.answers:
                answer.records = b""

    def repeat(self, earlier: Look, at: int) -> bool:
        """Repeat the last answer of a partition if nothing has changed, as for most partitions."""
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
        partition = self._partition(wanted) if self._may_read(wanted) else None
        if partition is None:
            self._fail(request.partition, self._why_none(wanted), None)
            return
        found = _check(request, partition)
        if self._sends_away:
            # This error is retriable, and consumers look for the leader again; metadata already
            # names another gateway.
            found = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(found, EpochEndOffset):
            self._tell_diverging(request.partition, found, partition)
            return
        if found and not self._is_ahead_of_copy(found, wanted, partition):
            self._fail(request.partition, found, partition)
            return
        high_watermark = partition.next_offset
        stable = partition.last_stable_offset
        end = stable if self._is_committed_only else high_watermark
        offset = request.fetch_offset
        upto = self._upto(partition, offset, end)
        records: list[Piece] | ReadProblem = []
        preferred = STAY
        if self._elsewhere is not None and (topic := self._topic(wanted)) is not None:
            preferred = self._elsewhere.preferred(topic, request.partition)
        if preferred != STAY:
            self.moves += 1
        elif offset >= end:
            self._read_up[-1] = partition.number
        else:
            records = self._plan.read(partition, offset, upto, max(request.partition_max_bytes, 0))
        if isinstance(records, ReadProblem):
            self._fail(request.partition, _READ_CODES[records], partition)
            return
        try:
            pieces = _pieces(records, self._min_file_bytes)
        except FileChanged:
            # The client asks again at once, and the gateway then reads the records from another
            # place.
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
                self._aborted(partition, offset, has_records=bool(pieces)),
                preferred,
                pieces or b"",
            )
        )

    def _upto(self, partition: Partition, offset: int, end: int) -> int:
        """Return where the records of the answer must end.

        A hole may have swallowed the marker of an abort.  Without the marker, a read_committed
        consumer drops later records of the producer, but only those in the same answer.  So an
        answer ends at a hole.
        """
        return partition.runs.hole_after(offset, end) if self._is_committed_only else end

    def _aborted(
        self, partition: Partition, offset: int, *, has_records: bool
    ) -> list[AbortedTransaction] | None:
        """Return the aborted transactions among the records of the answer, by first offset."""
        if not self._is_committed_only:
            return None
        if not has_records:
            return []
        rows = aborted_between(partition, offset, self._plan.read_to, self._plan.index)
        return [AbortedTransaction(producer_id, first) for first, producer_id in rows]

    def _tell_diverging(self, index: int, end: EpochEndOffset, partition: Partition) -> None:
        """Answer at once and without records: the client must truncate first."""
        self.has_error = True
        answer = _failed(index, _OK, partition)
        answer.diverging_epoch = end
        self.answers.append(answer)

    def without_storage_errors(self) -> None:
        """Answer NOT_LEADER_OR_FOLLOWER instead: it is also retriable, and known to old clients."""
        for answer in self.answers:
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def disown_ends(self) -> None:
        """Send a consumer to other gateways for partitions without further known records.

        Only other gateways know newer records.  This is the last call of a look.
        """
        for at, number in enumerate(self._read_up):
            partition = self._state.partitions.get(number)
            if partition is not None:
                index = self.answers[at].partition_index
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                self.answers[at] = _failed(index, code, partition)
                self._sends_away = True

    def disown_unread(self) -> None:
        """Send a consumer to other gateways for records that cannot be read here."""
        for answer in self.answers:
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._sends_away = True

    @property
    def sends_away(self) -> bool:
        """Return whether the client should use other gateways."""
        return self._sends_away

    def lead_away(self, away: Away | None, asked: Sequence[Wanted]) -> None:
        """Add the preferred gateway to NOT_LEADER_OR_FOLLOWER errors; None for no gateway."""
        if away is None:
            return
        for wanted, answer in zip(asked, self.answers, strict=True):
            topic = self._topic(wanted)
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and topic is not None:
                answer.preferred_read_replica = away.preferred(topic, answer.partition_index)
                self.moves += answer.preferred_read_replica != STAY

    def _may_read(self, wanted: Wanted) -> bool:
        """Return whether the client may read; True for an unknown id, which needs no right."""
        if self._rights is None:
            return True
        name: str | None = wanted.name
        if self._uses_topic_ids:
            topic = self._topic(wanted)
            name = topic.name if topic is not None else None
        return name is None or self._rights.may(Operation.READ, ResourceType.TOPIC, name)

    def _why_none(self, wanted: Wanted) -> ErrorCode:
        if not self._may_read(wanted):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        is_unknown_id = (
            self._uses_topic_ids and wanted.topic_id not in self._state.topics.by_shown_id
        )
        return _UNKNOWN[is_unknown_id]

    def _topic(self, wanted: Wanted) -> Topic | None:
        topics = self._state.topics
        if self._uses_topic_ids:
            return topics.by_shown_id.get(wanted.topic_id)
        return topics.by_name.get(wanted.name)

    def _partition(self, wanted: Wanted) -> Partition | None:
        topic, index = self._topic(wanted), wanted.request.partition
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return None
        return self._state.partitions.get(topic.partition_numbers[index])

    def _is_ahead_of_copy(self, found: ErrorCode, wanted: Wanted, partition: Partition) -> bool:
        """Return whether a client asks for an offset that a copy does not have yet.

        The client has read at the source, and OFFSET_OUT_OF_RANGE would reset its position.
        """
        is_beyond = wanted.request.fetch_offset > partition.next_offset
        if found != ErrorCode.OFFSET_OUT_OF_RANGE or not is_beyond:
            return False
        topic = self._topic(wanted)
        return topic is not None and bool(topic.link)

    def _fail(self, index: int, code: ErrorCode, partition: Partition | None) -> None:
        self.has_error = True
        if code in _UNPROVEN:
            self.is_doubtful = True
            if not self._is_proven:
                code = ErrorCode.KAFKA_STORAGE_ERROR
        self.answers.append(_failed(index, code, partition))


def _failed(index: int, code: ErrorCode, partition: Partition | None) -> PartitionData:
    answer = PartitionData(index, code, -1, -1, -1, records=b"")
    if partition is not None:
        # as in Kafka; the list is empty only if the partition is unknown
        answer.aborted_transactions = None
        answer.high_watermark = partition.next_offset
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = partition.log_start
    return answer


def epoch_error(current_leader_epoch: int, partition: Partition) -> ErrorCode:
    """Return the error of the leader epoch in a request; -1 means that the client knows none."""
    if current_leader_epoch in (_NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    is_newer = current_leader_epoch > partition.leader_epoch
    return ErrorCode.UNKNOWN_LEADER_EPOCH if is_newer else ErrorCode.FENCED_LEADER_EPOCH


def _check(request: FetchPartition, partition: Partition) -> ErrorCode | EpochEndOffset:
    """Return the error of a partition's request, in Kafka's order of checks.

    If the client's last record is after the end of its epoch, return this end.  The present epoch
    has no proven end here, so an offset after it is out of range; Kafka would answer with a
    diverging epoch.
    """
    present, fetched = partition.leader_epoch, request.last_fetched_epoch
    if request.current_leader_epoch not in (_NO_EPOCH, present):
        return epoch_error(request.current_leader_epoch, partition)
    offset = request.fetch_offset
    if fetched > present or offset < partition.log_start:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    end = partition.epoch_end(fetched) if fetched < present else None
    if end is not None and (end.epoch < fetched or end.offset < offset):
        return EpochEndOffset(*end)
    return _OK if offset <= partition.next_offset else ErrorCode.OFFSET_OUT_OF_RANGE


def _pieces(pieces: list[Piece], min_file_bytes: int) -> list[Buffer]:
    """Return the pieces, with small parts of files read.

    The codec needs only the length of larger parts, which the transport sends.
    """
    return [
        piece.read()
        if isinstance(piece, FilePart) and len(piece) < min_file_bytes
        else cast("memoryview", piece)
        for piece in pieces
    ]
