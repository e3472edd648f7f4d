"""The answers of the fast path of Produce (produce_fast_path.py).

The answer to a request of one successful batch comes from the bytes of its route.  The answer to a
request of several successful batches comes from a special encoder.  Answers with errors come from
the generated messages.  If a request begins again, since its topic returns to its source,
produce_answers.py answers it.
"""

from __future__ import annotations

from typing import Final

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.headers import RequestHeader, response_header
from tidegate_protocol.messages import produce as messages
from tidegate_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidegate_protocol.plain_produce import (
    Answer,
    LoneReply,
    Part,
    PlainProduce,
    TopicKey,
    encode_plain,
)

from ...network.connection import Connection, fill
from ...network.replies import ReplySlot
from .produce import Produce
from .produce_answers import UNANSWERABLE, Pending, Token, add_topics, sent_away, settle_answer
from .produce_rules import transactional_flags

_PRODUCE: Final = ApiKey.PRODUCE


class Route:
    """The facts that requests with the same first bytes have in common."""

    __slots__ = (
        "acks",
        "head",
        "index",
        "key",
        "reply",
        "settings",
        "timeout_ms",
        "topic",
        "transactional_flags",
        "transactional_id",
        "version",
    )

    def __init__(
        self, head: int, plain: PlainProduce, topic: Topic, settings: TopicSettings
    ) -> None:
        self.head = head
        self.version = plain.version
        [(self.key, [(self.index, _, _)])] = plain.topics
        self.acks = plain.acks
        self.timeout_ms = plain.timeout_ms
        self.transactional_id = plain.transactional_id
        self.transactional_flags = transactional_flags(plain.transactional_id, plain.version)
        self.topic = topic
        self.settings = settings
        self.reply = LoneReply(self.key, self.index)


class Answering:
    """The parts of the gateway that answer fast requests."""

    __slots__ = ("_produce", "deadlines", "flusher", "note_answer", "note_slow", "slow", "times")

    def __init__(self, produce: Produce) -> None:
        self._produce = produce
        self.flusher = produce.flusher
        self.deadlines = produce.deadlines
        self.times = produce.writer.counters.times
        self.note_answer = produce.note_answer
        self.slow = produce.counters.slow
        self.note_slow = produce.note_slow

    def pending(
        self,
        connection: Connection,
        slot: ReplySlot,
        header: RequestHeader,
        terms: tuple[int, int],
        received_at: float,
    ) -> Pending:
        """Return the request object for an answer by produce_answers.py.

        terms: the acks and the timeout.
        """
        acks, timeout_ms = terms
        return Pending(
            connection,
            header,
            slot,
            self.flusher,
            self.deadlines,
            self._produce,
            acks=acks,
            timeout_ms=timeout_ms,
            received_at=received_at,
        )


class LoneRequest:
    """A request of one batch that is being committed.

    It gets one answer, when the batch has its outcome or after the timeout.
    """

    __slots__ = ("_answering", "_connection", "_correlation_id", "_received_at", "_route", "_slot")

    def __init__(
        self, answering: Answering, route: Route, correlation_id: int, connection: Connection
    ) -> None:
        self._answering = answering
        self._route = route
        self._correlation_id = correlation_id
        self._connection = connection
        self._received_at = connection.receiver.received_at
        self._slot: ReplySlot | None = connection.open_slot()

    @property
    def waiting_client(self) -> Connection:
        """See wal_commits.BatchToken."""
        return self._connection

    def settle(self, outcome: BatchOutcome) -> None:
        """See wal_commits.BatchToken."""
        slot = self._slot
        if slot is None:
            return sent_away(self._connection.peer, outcome.refusal)
        refusal, base_offset, append_time_ms, log_start = outcome
        self._answering.deadlines.remove(self)
        if refusal is not None:
            sent_away(self._connection.peer, refusal)
            self._answer_late(slot, outcome)
            return
        self._slot = None
        frame = self._route.reply.encode(
            self._correlation_id, base_offset, append_time_ms, log_start
        )
        slot.fill_small(frame)
        answering = self._answering
        answering.flusher.add(self._connection)
        seconds = answering.times.now - self._received_at
        answering.times.total.add(seconds)
        if seconds >= answering.slow.after_seconds:
            answering.note_slow(self._connection.peer, self._received_at, answering.times.now)

    def abort(self) -> None:
        """See wal_commits.BatchToken."""
        self._answering.deadlines.remove(self)
        self._connection.abort(UNANSWERABLE)

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        """See wal_commits.BatchToken."""
        slot, self._slot = self._slot, None
        if slot is None:
            return
        route, answering = self._route, self._answering
        answering.deadlines.remove(self)
        pending = answering.pending(
            self._connection,
            slot,
            RequestHeader(_PRODUCE, route.version, self._correlation_id, None, 0),
            (route.acks, route.timeout_ms),
            self._received_at,
        )
        parts = [(route.key, [(route.index, 0, 0)])]
        [token] = add_topics(pending, parts, [None])
        pending.stage_one_done()
        if token is not None:
            token.turned_back(topic_id, records)

    def time_out(self) -> None:
        """See produce_deadlines.Expirable."""
        if self._slot is not None:
            self._answer_late(self._slot, None)

    def _answer_late(self, slot: ReplySlot, outcome: BatchOutcome | None) -> None:
        self._slot = None
        route = self._route
        parts = [(route.key, [(route.index, 0, 0)])]
        response = _response(parts, [outcome], route.version)
        self._answering.note_answer(response, self._received_at, self._connection.peer)
        _fill(slot, response, self._correlation_id, route.version)
        self._answering.flusher.add(self._connection)


class _Token:
    """One of several batches of a request.  later: gets the outcome once one was turned back."""

    __slots__ = ("later", "outcome", "request")

    def __init__(self, request: PlainRequest) -> None:
        self.request = request
        self.outcome: BatchOutcome | None = None
        self.later: Token | None = None

    @property
    def waiting_client(self) -> Connection:
        """See wal_commits.BatchToken."""
        return self.request.connection

    def settle(self, outcome: BatchOutcome) -> None:
        """See wal_commits.BatchToken."""
        if self.later is not None:
            return self.later.settle(outcome)
        self.outcome = outcome
        self.request.settled(outcome)

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        """See wal_commits.BatchToken."""
        self.request.reopen()
        if self.later is not None:
            self.later.turned_back(topic_id, records)

    def abort(self) -> None:
        """See wal_commits.BatchToken."""
        self.request.abort()


class PlainRequest:
    """A request of several batches.

    It gets one answer, when all batches have outcomes or after the timeout.
    """

    __slots__ = (
        "_answering",
        "_has_failed",
        "_plain",
        "_received_at",
        "_slot",
        "_tokens",
        "_waiting",
        "connection",
    )

    def __init__(self, answering: Answering, plain: PlainProduce, connection: Connection) -> None:
        self._answering = answering
        self._plain = plain
        self.connection = connection
        self._slot: ReplySlot | None = connection.open_slot()
        self._received_at = connection.receiver.received_at
        self._has_failed = False
        self._waiting = 0
        self._tokens: list[_Token] = []

    def abort(self) -> None:
        """Close the connection of the request."""
        self._answering.deadlines.remove(self)
        self.connection.abort(UNANSWERABLE)

    def reopen(self) -> None:
        """Let produce_answers.py answer the request, since one of its batches was turned back."""
        slot, self._slot = self._slot, None
        if slot is None:
            return
        plain, answering = self._plain, self._answering
        answering.deadlines.remove(self)
        pending = answering.pending(
            self.connection,
            slot,
            RequestHeader(_PRODUCE, plain.version, plain.correlation_id, None, 0),
            (plain.acks, plain.timeout_ms),
            self._received_at,
        )
        outcomes = [each.outcome for each in self._tokens]
        for each, later in zip(
            self._tokens, add_topics(pending, plain.topics, outcomes), strict=True
        ):
            each.later = later
        pending.stage_one_done()

    def token(self) -> _Token:
        """Add a batch without an outcome; return its token."""
        token = _Token(self)
        self._tokens.append(token)
        self._waiting += 1
        return token

    def settled(self, outcome: BatchOutcome) -> None:
        """Note that a batch has its outcome."""
        self._waiting -= 1
        if outcome.refusal is not None:
            self._has_failed = True
            sent_away(self.connection.peer, outcome.refusal)
        if not self._waiting and self._slot is not None:
            self._answering.deadlines.remove(self)
            self._answer(self._slot)

    def time_out(self) -> None:
        """See produce_deadlines.Expirable."""
        if self._slot is not None:
            self._has_failed = True
            self._answer(self._slot)

    def _answer(self, slot: ReplySlot) -> None:
        self._slot = None
        plain = self._plain
        if self._has_failed:
            outcomes = [each.outcome for each in self._tokens]
            response = _response(plain.topics, outcomes, plain.version)
            self._answering.note_answer(response, self._received_at, self.connection.peer)
            _fill(slot, response, plain.correlation_id, plain.version)
        else:
            slot.fill((encode_plain(plain.version, plain.correlation_id, self._answers()),))
            answering = self._answering
            seconds = answering.times.now - self._received_at
            answering.times.total.add(seconds)
            if seconds >= answering.slow.after_seconds:
                answering.note_slow(self.connection.peer, self._received_at, answering.times.now)
        self._answering.flusher.add(self.connection)

    def _answers(self) -> list[tuple[TopicKey, list[Answer]]]:
        tokens = iter(self._tokens)
        answers: list[tuple[TopicKey, list[Answer]]] = []
        for key, parts in self._plain.topics:
            of_topic: list[Answer] = []
            for (index, _, _), token in zip(parts, tokens, strict=False):
                assert token.outcome is not None
                _, base_offset, append_time_ms, log_start = token.outcome
                of_topic.append((index, base_offset, append_time_ms, log_start))
            answers.append((key, of_topic))
        return answers


def _response(
    topics: list[tuple[TopicKey, list[Part]]], outcomes: list[BatchOutcome | None], version: int
) -> ProduceResponse:
    """Return an answer with at least one error."""
    rest = iter(outcomes)
    response = ProduceResponse()
    for key, parts in topics:
        name, topic_id = (key, bytes(16)) if isinstance(key, str) else ("", key)
        answer = TopicProduceResponse(name, topic_id)
        for index, _, _ in parts:
            partition = PartitionProduceResponse(index)
            settle_answer(partition, next(rest), version)
            answer.partition_responses.append(partition)
        response.responses.append(answer)
    return response


def _fill(slot: ReplySlot, response: ProduceResponse, correlation_id: int, version: int) -> None:
    header = response_header(correlation_id, _PRODUCE, version)
    fill(slot, header, messages.encode_response(response, version))
