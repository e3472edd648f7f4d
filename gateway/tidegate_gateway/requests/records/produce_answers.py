"""Stage two of Produce: the answers of its partitions, and when the request gets its reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome, Refusal
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.headers import RequestHeader, response_header
from tidegate_protocol.messages import produce as messages
from tidegate_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidegate_protocol.plain_produce import Part, TopicKey

from ...network.call import Peer
from ...network.connection import Connection, ReplyFlusher, fill
from ...network.replies import ReplySlot
from ...produce.produce_deadlines import ProduceDeadlines
from ...produce.wal_commits import COMES_AGAIN

UNANSWERABLE: Final = "the answer to a produce request could not be given"
ABORTABLE_SINCE: Final = 11
"""Versions from here on know TRANSACTION_ABORTABLE (KIP-890)."""
_REFUSAL_CODES = {
    Refusal.UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    Refusal.STALE_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    Refusal.OUT_OF_ORDER_SEQUENCE: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Refusal.DUPLICATE_SEQUENCE: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    # The partition has no offset left, so a retry cannot succeed.
    Refusal.OFFSETS_RUN_OUT: ErrorCode.INVALID_RECORD,
    Refusal.UNKNOWN_TRANSACTIONAL_ID: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    Refusal.NOT_IN_TRANSACTION: ErrorCode.TRANSACTION_ABORTABLE,
    Refusal.OPEN_TRANSACTION: ErrorCode.INVALID_TXN_STATE,
    # Kafka has no such limit.  The client aborts the transaction.
    Refusal.TRANSACTION_TOO_LARGE: ErrorCode.TRANSACTION_ABORTABLE,
    Refusal.MIRRORED: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    # The batch was not written and never will be, so the client may send it again.
    Refusal.ABANDONED: ErrorCode.NOT_ENOUGH_REPLICAS,
    # This batch was not written either; the client first looks for another leader.
    Refusal.CUT_OFF: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    # The client has abandoned the batch, or this gateway had not yet read the transaction's begin.
    Refusal.LATE_IN_TRANSACTION: ErrorCode.NOT_ENOUGH_REPLICAS,
}


@dataclass(frozen=True, slots=True, eq=False)
class TurnedBatch:
    """A batch that was not written, since its topic began to return to its source."""

    token: Token
    topic_id: bytes
    records: bytes


class PendingOwner(Protocol):
    """The handler that pending requests belong to."""

    def note_answer(self, response: ProduceResponse, received_at: float, peer: Peer) -> None:
        """Note the answer of a request that came at `received_at`, seconds on Trio's clock."""
        ...

    def turn_back(self, batch: TurnedBatch) -> None:
        """Take a batch that must begin again.  This must not wait and must not raise."""
        ...


class Pending:
    """A request whose batches are being committed.

    It gets one answer, when all batches have outcomes or after the timeout.

    acks, timeout_ms: as the client sent them.  received_at: seconds on Trio's clock; None for the
    time of the connection's last bytes.  comes_again: a batch was refused in stage one, and its
    producer sends it again.  Later batches of the same request are of other partitions, and may be
    accepted.
    """

    __slots__ = (
        "_deadlines",
        "_flusher",
        "_header",
        "_in_stage_one",
        "_received_at",
        "_slot",
        "_waiting",
        "acks",
        "comes_again",
        "connection",
        "owner",
        "response",
        "timeout_ms",
    )

    def __init__(
        self,
        connection: Connection,
        header: RequestHeader,
        slot: ReplySlot | None,
        flusher: ReplyFlusher,
        deadlines: ProduceDeadlines,
        owner: PendingOwner,
        *,
        acks: int,
        timeout_ms: int,
        received_at: float | None = None,
    ) -> None:
        self.owner = owner
        self.acks = acks
        self.timeout_ms = timeout_ms
        self._received_at = connection.receiver.received_at if received_at is None else received_at
        self.connection = connection
        self._header = header
        self._slot = slot
        self._flusher = flusher
        self._deadlines = deadlines
        self._waiting: set[Token] | None = set()
        self._in_stage_one = True
        self.comes_again = False
        self.response = ProduceResponse()

    @property
    def version(self) -> int:
        """Return the version of the request."""
        return self._header.api_version

    @property
    def is_answered(self) -> bool:
        """Return whether the request gets an answer: True unless acks=0."""
        return self._slot is not None

    def add(self, token: Token) -> None:
        """Add a batch without an outcome."""
        assert self._waiting is not None
        self._waiting.add(token)

    def waits_for(self, token: Token) -> bool:
        """Return whether the answer still waits for a batch."""
        return self._waiting is not None and token in self._waiting

    def stage_one_done(self) -> None:
        """Note that all batches have their place; some may already have outcomes."""
        self._in_stage_one = False
        if self.comes_again:
            self.note_refusal(Refusal.ABANDONED)
        if not self._waiting:
            self._answer()
        elif self._slot is not None:
            # With acks=0 the client gets no answer, so there is no timeout.
            self._deadlines.add(self, self.timeout_ms)

    def settled(self, token: Token) -> bool:
        """Note that a batch has its outcome; return False if the answer was already sent."""
        if self._waiting is None:
            return False
        self._waiting.discard(token)
        return True

    def answer_if_done(self) -> None:
        """Send the answer if all batches have their place and their outcomes."""
        if not self._waiting and not self._in_stage_one:
            self._deadlines.remove(self)
            self._answer()

    def note_refusal(self, refusal: Refusal | None) -> None:
        """Note the refusal of a batch; see sent_away()."""
        sent_away(self.connection.peer, refusal)

    def abort(self) -> None:
        """Close the connection of the request."""
        self.forget()
        self.connection.abort(UNANSWERABLE)

    def forget(self) -> None:
        """Drop the timeout, since the connection is closed."""
        self._deadlines.remove(self)

    def time_out(self) -> None:
        """See produce_deadlines.Expirable."""
        for token in self._waiting or ():
            settle_answer(token.answer, None, self.version)
        self._answer()

    def _answer(self) -> None:
        self._waiting = None
        self.owner.note_answer(self.response, self._received_at, self.connection.peer)
        if self._slot is None:
            self._close_on_error()
            return
        header = self._header
        body = messages.encode_response(self.response, header.api_version)
        fill(
            self._slot,
            response_header(header.correlation_id, ApiKey.PRODUCE, header.api_version),
            body,
        )
        self._flusher.add(self.connection)

    def _close_on_error(self) -> None:
        """Close the connection after an error, which is the only signal if there is no answer."""
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if partition.error_code:
                    code = ErrorCode(partition.error_code).name
                    self.connection.abort(f"a produce request with acks=0 failed: {code}")
                    return


@dataclass(slots=True, eq=False)
class Token:
    """Fills in one partition's answer."""

    pending: Pending
    answer: PartitionProduceResponse

    @property
    def waiting_client(self) -> Connection | None:
        """See wal_commits.BatchToken.  With acks=0 a client may disconnect at once."""
        return self.pending.connection if self.pending.is_answered else None

    def settle(self, outcome: BatchOutcome) -> None:
        """See wal_commits.BatchToken."""
        self.pending.note_refusal(outcome.refusal)
        if not self.pending.settled(self):
            return
        settle_answer(self.answer, outcome, self.pending.version)
        self.pending.answer_if_done()

    def fill(self, write: Callable[[PartitionProduceResponse], None]) -> None:
        """Fill in another cluster's answer by write(), unless it is too late."""
        if self.pending.settled(self):
            write(self.answer)
            self.pending.answer_if_done()

    def abort(self) -> None:
        """See wal_commits.BatchToken."""
        self.pending.abort()

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        """See wal_commits.BatchToken."""
        self.pending.owner.turn_back(TurnedBatch(self, topic_id, records))


def sent_away(peer: Peer, refusal: Refusal | None) -> None:
    """If a producer sends a refused batch again, note this at its connection.

    The batch may come here or to another gateway.  Batches that the producer sent meanwhile must
    not be accepted.
    """
    if refusal in COMES_AGAIN:
        peer.was_sent_away = peer.was_refused = True


def settle_answer(
    answer: PartitionProduceResponse, outcome: BatchOutcome | None, version: int
) -> None:
    """Fill in the outcome of a partition's batch; None if it is unknown at the deadline.

    version: of the request.
    """
    if outcome is None:
        refuse(answer, ErrorCode.REQUEST_TIMED_OUT, "")
    elif outcome.refusal is None:
        answer.base_offset = outcome.base_offset
        answer.log_append_time_ms = outcome.append_time_ms
        answer.log_start_offset = outcome.log_start_offset
    else:
        code = _REFUSAL_CODES[outcome.refusal]
        if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
            code = ErrorCode.INVALID_TXN_STATE
        refuse(answer, code, outcome.refusal.value)


def add_topics(
    pending: Pending,
    topics: Sequence[tuple[TopicKey, Sequence[Part]]],
    outcomes: Sequence[BatchOutcome | None],
) -> list[Token | None]:
    """Add the answers of a request's batches; return tokens for batches without an outcome."""
    rest = iter(outcomes)
    tokens: list[Token | None] = []
    for key, parts in topics:
        name, topic_id = (key, bytes(16)) if isinstance(key, str) else ("", key)
        topic = TopicProduceResponse(name, topic_id)
        pending.response.responses.append(topic)
        for index, _, _ in parts:
            answer = PartitionProduceResponse(index)
            topic.partition_responses.append(answer)
            outcome = next(rest)
            token = Token(pending, answer) if outcome is None else None
            tokens.append(token)
            if token is not None:
                pending.add(token)
            else:
                settle_answer(answer, outcome, pending.version)
    return tokens


def refuse(answer: PartitionProduceResponse, code: ErrorCode, message: str) -> None:
    """Turn a partition's answer into an error."""
    answer.error_code = code
    answer.error_message = message or error_text(code)
    answer.base_offset = -1
