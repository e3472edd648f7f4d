"""The fast path of Produce, for nearly all requests.

It takes a request only if the rules (produce_rules.py) accept every batch at once.  Any other
request goes to produce.py, which asks the same rules and answers their errors.
So the fast path refuses nothing, and accepts only what produce.py accepts.

Stage one (see produce.py) never waits, so it needs no coroutine.  A client that sends one partition
a request, as librdkafka does, repeats the same bytes up to the length of the records.  These bytes
are parsed once, and are then a key in a table of routes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.rules.records.transactional_batches import MAY_ADD, with_began
from tidegate_coordination.rules.records.wal import BatchOutcome
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.batches import TRANSACTIONAL
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
    prefix_end,
    read_plain,
    read_records,
)
from tidegate_protocol.records import BatchHeader

from ...network.arenas import Arena
from ...network.call import Peer, Rights
from ...network.connection import Connection, fill
from ...network.replies import ReplySlot
from ...network.transport import Buffer
from ...network.turns import ROWS_AT_ONCE
from ...produce.record_checks import WALKED_BYTES_A_ROW, Accepted
from ...produce.refusals import BatchRefused
from ...transactions.arrivals import began_at, is_known
from .produce import Produce, may_write, may_write_with
from .produce_answers import UNANSWERABLE, Pending, Token, add_topics, sent_away, settle_answer
from .produce_rules import (
    ANSWERED_ACKS,
    accepted_header,
    allows_transactions,
    find_topic,
    is_writable,
    transactional_flags,
)

# Room is checked once a request: a larger request could make an object much too large.
MAX_FRAME_BYTES: Final = 2 << 20
MAX_PARTS: Final = 500
# What produce.py walks in one turn.
MAX_WALKED_BYTES: Final = ROWS_AT_ONCE * WALKED_BYTES_A_ROW
MAX_ROUTES: Final = 10_000
MAX_ROUTE_BYTES: Final = 500
_PRODUCE: Final = ApiKey.PRODUCE
# API key and version together, then the correlation id; the bytes after it repeat from request to
# request.
_HEAD = Struct(">ii")


class _Route:
    """The shared facts of requests that begin with the same bytes."""

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


_Batch: TypeAlias = tuple[Topic, int, Buffer, BatchHeader, int]
"""Topic, partition, bytes, header, and flags (see BatchFacts)."""


class _Lone:
    """A request of one batch that is being committed; answered once, when it is settled or time is
    over.
    """

    __slots__ = ("_connection", "_correlation_id", "_path", "_received_at", "_route", "_slot")

    def __init__(
        self, path: PlainProducePath, route: _Route, correlation_id: int, connection: Connection
    ) -> None:
        self._path = path
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
        self._path.deadlines.remove(self)
        if refusal is not None:
            sent_away(self._connection.peer, refusal)
            self._answer_late(slot, outcome)
            return
        self._slot = None
        frame = self._route.reply.encode(
            self._correlation_id, base_offset, append_time_ms, log_start
        )
        slot.fill_small(frame)
        path = self._path
        path.flusher.add(self._connection)
        seconds = path.times.now - self._received_at
        path.times.total.add(seconds)
        if seconds >= path.slow.after_seconds:
            path.note_slow(self._connection.peer, self._received_at, path.times.now)

    def abort(self) -> None:
        """See wal_commits.BatchToken."""
        self._path.deadlines.remove(self)
        self._connection.abort(UNANSWERABLE)

    def turned_back(self, topic_id: bytes, records: bytes) -> None:
        """See wal_commits.BatchToken."""
        slot, self._slot = self._slot, None
        if slot is None:
            return
        route, path = self._route, self._path
        path.deadlines.remove(self)
        pending = path.pending(
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
        self._path.note_answer(response, self._received_at, self._connection.peer)
        _fill(slot, response, self._correlation_id, route.version)
        self._path.flusher.add(self._connection)


class _Token:
    """One of several batches of a request.  later: takes its outcome once one was turned back."""

    __slots__ = ("later", "outcome", "request")

    def __init__(self, request: _Request) -> None:
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


class _Request:
    """A request of several batches; answered once, when all are settled or time is over."""

    __slots__ = (
        "_has_failed",
        "_path",
        "_plain",
        "_received_at",
        "_slot",
        "_tokens",
        "_waiting",
        "connection",
    )

    def __init__(self, path: PlainProducePath, plain: PlainProduce, connection: Connection) -> None:
        self._path = path
        self._plain = plain
        self.connection = connection
        self._slot: ReplySlot | None = connection.open_slot()
        self._received_at = connection.receiver.received_at
        self._has_failed = False
        self._waiting = 0
        self._tokens: list[_Token] = []

    def abort(self) -> None:
        """Close the connection of the request."""
        self._path.deadlines.remove(self)
        self.connection.abort(UNANSWERABLE)

    def reopen(self) -> None:
        """Let produce_answers.py answer the request: a batch of it was turned back."""
        slot, self._slot = self._slot, None
        if slot is None:
            return
        plain, path = self._plain, self._path
        path.deadlines.remove(self)
        pending = path.pending(
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
        """Count one more unsettled batch."""
        token = _Token(self)
        self._tokens.append(token)
        self._waiting += 1
        return token

    def settled(self, outcome: BatchOutcome) -> None:
        """Count one settled batch."""
        self._waiting -= 1
        if outcome.refusal is not None:
            self._has_failed = True
            sent_away(self.connection.peer, outcome.refusal)
        if not self._waiting and self._slot is not None:
            self._path.deadlines.remove(self)
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
            self._path.note_answer(response, self._received_at, self.connection.peer)
            _fill(slot, response, plain.correlation_id, plain.version)
        else:
            slot.fill((encode_plain(plain.version, plain.correlation_id, self._answers()),))
            path = self._path
            seconds = path.times.now - self._received_at
            path.times.total.add(seconds)
            if seconds >= path.slow.after_seconds:
                path.note_slow(self.connection.peer, self._received_at, path.times.now)
        self._path.flusher.add(self.connection)

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


def _names_twice(batches: list[_Batch]) -> bool:
    """Return whether a partition has several batches."""
    if len(batches) == 1:
        return False
    return len({(topic.topic_id, index) for topic, index, *_ in batches}) < len(batches)


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


class PlainProducePath:
    """See the module's head."""

    def __init__(self, produce: Produce) -> None:
        self._produce = produce
        self._topics = produce.coordinator.state.topics
        self._configs = produce.coordinator.state.configs
        self._acls = produce.coordinator.state.acls
        self._live_gateways = produce.coordinator.state.gateways.live
        self._transactions = produce.coordinator.state.transactions
        self._routes: dict[bytes | tuple[Rights, bytes], _Route] = {}
        self._routes_as_of = (-1, -1, -1)
        self.flusher = produce.flusher
        self.deadlines = produce.deadlines
        self.times = produce.writer.counters.times
        self._way = produce.writer.way
        self.note_answer = produce.note_answer
        self.slow = produce.slow
        self.note_slow = produce.note_slow

    def pending(
        self,
        connection: Connection,
        slot: ReplySlot,
        header: RequestHeader,
        terms: tuple[int, int],
        received_at: float,
    ) -> Pending:
        """Return a request whose answer is not a plain one.  terms: its acks and its time-out."""
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

    def start(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        """Take the request in a frame; return False if produce.py must take it.

        Then nothing has changed but headers in the frame, which may say what is true already (see
        record_checks.py): produce.py finds the same.
        """
        if len(frame) > MAX_FRAME_BYTES or not self._produce.writer.has_room:
            return False
        coordinator = self._produce.coordinator
        me = self._live_gateways.get(coordinator.incarnation)
        peer = connection.peer
        if me is None or me.draining or coordinator.is_stale or peer.was_refused:
            return False
        if self._way.is_cut_off:
            return False
        position = peer.plain_prefix_end
        key = self._key(peer, bytes(frame[_HEAD.size : position]))
        route = self._routes.get(key) if position else None
        if route is None or self._routes_as_of != self._versions:
            return self._start_unknown(connection, frame, arena)
        head, correlation_id = _HEAD.unpack_from(frame)
        place = read_records(frame, position)
        if place is None or head != route.head:
            return self._start_unknown(connection, frame, arena)
        start, end = place
        batch = frame[start:end]
        produce, topic = self._produce, route.topic
        flags = route.transactional_flags
        accepted = self._accepted(batch, route.settings, route.version, may_be=bool(flags))
        if accepted is None:
            return False
        stored, header, _ = accepted
        if flags:  # a call more only for transactional clients
            number = topic.partition_numbers[route.index]
            own = self._flags(connection, header, route.transactional_id, flags, number)
            if own is None:
                return False
            flags = own
        lone = _Lone(self, route, correlation_id, connection)
        produce.counters.topics.produced(topic.name, end - start, header.record_count)
        peer.produced_bytes += end - start
        writer = produce.writer
        writer.wrote(peer.client_id or "", end - start)
        writer.pin(arena)
        writer.append(topic.topic_id, route.index, stored, header, lone, flags)
        self.deadlines.add(lone, route.timeout_ms)
        return True

    def _key(self, peer: Peer, begin: bytes) -> bytes | tuple[Rights, bytes]:
        """Return the key of a route; with an authorizer each client has routes of its own."""
        rights = self._produce.rights_of(peer)
        return begin if rights is None else (rights, begin)

    @property
    def _versions(self) -> tuple[int, int, int]:
        """What the routes depend on."""
        return self._topics.version, self._configs.version, self._acls.version

    def _start_unknown(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        plain = read_plain(frame)
        if plain is None or plain.acks not in ANSWERED_ACKS:
            return False
        batches = self._batches(connection, plain, frame)
        if batches is None:
            return False
        self._learn(connection, frame, plain, batches[0][0])
        request = _Request(self, plain, connection)
        produce = self._produce
        # From here on the open object refers to the arena, even if the connection ends.
        produce.writer.pin(arena)
        for topic, partition, batch, header, flags in batches:
            produce.counters.topics.produced(topic.name, len(batch), header.record_count)
            connection.peer.produced_bytes += len(batch)
            produce.writer.wrote(connection.peer.client_id or "", len(batch))
            token = request.token()
            produce.writer.append(topic.topic_id, partition, batch, header, token, flags)
        self.deadlines.add(request, plain.timeout_ms)
        return True

    def _batches(
        self, connection: Connection, plain: PlainProduce, frame: memoryview
    ) -> list[_Batch] | None:
        """Return the batches with their topics; None if the rules refuse any."""
        produce, version, name = self._produce, plain.version, plain.transactional_id
        if name is not None and not allows_transactions(produce.coordinator.state):
            return None
        rights = produce.rights_of(connection.peer)
        if rights is not None and name is not None and not may_write_with(rights, name):
            return None
        may_be = transactional_flags(name, version)
        found: list[_Batch] = []
        walked_bytes = 0
        for key, parts in plain.topics:
            topic = find_topic(self._topics, key)
            if topic is None:
                return None
            if rights is not None and not may_write(rights, topic.name):
                return None
            settings = produce.settings_of(topic)
            for index, start, end in parts:
                if not is_writable(topic, index, version):
                    return None
                accepted = self._accepted(frame[start:end], settings, version, may_be=bool(may_be))
                if accepted is None or walked_bytes > MAX_WALKED_BYTES:
                    return None
                stored, header, cost = accepted
                walked_bytes += cost
                number = topic.partition_numbers[index]
                flags = self._flags(connection, header, name, may_be, number)
                if flags is None:
                    return None
                found.append((topic, index, stored, header, flags))
        # One transactional id has one producer id, and a request only one of its epochs.
        epochs = {header.producer_epoch for *_, header, flags in found if flags}
        is_plain = len(found) <= MAX_PARTS and len(epochs) <= 1
        return found if is_plain and not _names_twice(found) else None

    def _accepted(
        self, batch: memoryview, settings: TopicSettings, version: int, *, may_be: bool
    ) -> Accepted | None:
        """Return a batch as it is to be stored; None if produce.py must look at it.

        may_be: its request has a transactional id.
        """
        produce = self._produce
        try:
            header = accepted_header(batch, settings, version, may_be_transactional=may_be)
            return produce.checks.accept_nowait(settings, batch, header, produce.now_ms())
        except BatchRefused:
            return None

    def _flags(
        self,
        connection: Connection,
        header: BatchHeader,
        name: str | None,
        may_be: int,
        number: int,
    ) -> int | None:
        """Return the flags of a batch, see BatchFacts.

        None: this gateway may have to read the log first, or the batch has another transactional id
        than its request, or its client is gone.
        may_be: of the transactional batches of the request.  number: of the partition.
        """
        if not header.attributes & TRANSACTIONAL:
            return 0
        if name is None or self._transactions.name_of(header.producer_id) != name:
            return None
        if may_be & MAY_ADD:
            return may_be
        state = self._produce.coordinator.state
        if not is_known(state, name, (number,)) or connection.is_gone():
            return None
        return with_began(may_be, began_at(state, name))

    def _learn(
        self, connection: Connection, frame: memoryview, plain: PlainProduce, topic: Topic
    ) -> None:
        """Remember the first bytes of this request, for the next request with the same."""
        topics = plain.topics
        if len(topics) > 1 or len(topics[0][1]) > 1:
            return
        _, start, end = topics[0][1][0]
        position = prefix_end(frame, start, end)
        if position is None or position > MAX_ROUTE_BYTES:
            return
        as_of = self._versions
        if self._routes_as_of != as_of or len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
            self._routes_as_of = as_of
        head, _ = _HEAD.unpack_from(frame)
        settings = self._produce.settings_of(topic)
        route = _Route(head, plain, topic, settings)
        key = self._key(connection.peer, bytes(frame[_HEAD.size : position]))
        self._routes[key] = route
        connection.peer.plain_prefix_end = position
