"""Produce: versions 3-13.  (0-2 are announced, as Kafka does for old librdkafka, and refused.)

Stage one checks each batch (produce_rules.py) and appends it to the open WAL object, in the order
of the request; stage two (produce_answers.py) fills the reply slot once all of its batches are
settled.  One bad batch fails its partition only.

As in Kafka, if a request names a partition several times, only the last batch counts.  Differs from
Kafka: acks=1 waits for the commit like acks=all.  While a thread checks the records of a batch, the
connection reads no further request, so batches keep their order.  Batches to mirrored topics may be
forwarded to their source (produce_forwarding.py).  If a repeated batch is older than its producer's
last five batches, but was certainly written, it gets DUPLICATE_SEQUENCE_NUMBER.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

import structlog
import trio

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.batches import read_header
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.headers import RequestHeader
from tidegate_protocol.messages import produce as messages
from tidegate_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidegate_protocol.plain_produce import TOPIC_IDS_FROM

from ...gateway_counters import GatewayCounters
from ...network.arenas import Arena
from ...network.call import Peer, Rights
from ...network.connection import Connection, ReplyFlusher
from ...network.large_requests import LARGE_BODY_BYTES, read_batches
from ...network.receiver import CloseConnection
from ...network.transport import Buffer
from ...network.turns import Turns
from ...produce.produce_deadlines import ProduceDeadlines
from ...produce.record_checks import WALKED_BYTES_A_ROW, Accepted, RecordChecks
from ...produce.refusals import BatchRefused
from ...produce.wal_writer import WalWriter
from ...quotas.throttling import Throttle
from ...security.authority import Authority
from ...work.client import Client, key_of
from .produce_answers import Pending, Token, TurnedBatch, refuse
from .produce_forwarding import Forwarding, ProduceForwarding, check_order
from .produce_rules import (
    NO_ANSWER,
    accepted_header,
    drop_repeated_partitions,
    find_topic,
    may_write,
    request_error,
    writable_topic,
)
from .produce_transactional import ELSEWHERE, catch_up, flags_of, id_error, misfit_of
from .turned_back import TurnedBack

_log = structlog.get_logger("tidegate.produce")

# About the default of request.timeout.ms of clients.
ROOM_SECONDS: Final = 30.0

DENIED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")

# The cost of accepting a batch, in rows (turns.py).
ROWS_A_BATCH: Final = 5


@dataclass(frozen=True, slots=True)
class _Received:
    """A request in stage one: its version, its client, its bytes and its reply.

    client: for its share of the threads that check records.  room_by: the deadline of its batches
    for room, on trio's clock.  transactional_flags: of its transactional batches, see BatchFacts; 0
    if it may not have any.  misfit: why these are refused.  forwarding: has an entry if there are
    batches to forward.
    """

    version: int
    connection: Connection
    client: Client
    arena: Arena
    pending: Pending
    room_by: float
    transactional_flags: int
    misfit: tuple[ErrorCode, str] | None
    turns: Turns
    forwarding: list[Forwarding] = field(default_factory=list[Forwarding])


@dataclass(frozen=True, slots=True)
class Produce:
    """See the module's head.

    settings_of: a topic's compiled settings.  now_ms: wall clock, for time stamp limits.
    authority: decides whether a client may write; None without an authorizer.
    """

    coordinator: Coordinator
    writer: WalWriter
    flusher: ReplyFlusher
    settings_of: Callable[[Topic], TopicSettings]
    now_ms: Callable[[], int]
    checks: RecordChecks
    deadlines: ProduceDeadlines
    counters: GatewayCounters
    mirrored: ProduceForwarding
    turned_back: TurnedBack
    authority: Authority | None = None

    @property
    def is_leaving(self) -> bool:
        """Whether clients should use other gateways."""
        coordinator = self.coordinator
        return coordinator.state.gateways.sends_away(coordinator.incarnation)

    async def start(
        self,
        connection: Connection,
        header: RequestHeader,
        body: memoryview,
        arena: Arena,
        throttle: Throttle | None = None,
    ) -> None:
        """Stage one: fix the request's place in the log; its reply slot is filled later."""
        request = await _decoded(body, header.api_version)
        slot = None if request.acks == NO_ANSWER else connection.open_slot()
        pending = Pending(
            connection,
            header,
            slot,
            self.flusher,
            self.deadlines,
            self,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
        )
        room_by = trio.current_time() + ROOM_SECONDS
        rights = self.rights_of(connection.peer)
        whole = request_error(request.acks) or self._error_here(connection.peer)
        whole = whole or await id_error(
            self.coordinator, self.counters.refused, connection.peer, rights, request
        )
        misfit = None if whole else await misfit_of(self.coordinator, request)
        version = header.api_version
        flags = 0 if whole else await flags_of(self.coordinator, connection, request, version)
        cost = throttle.cost if throttle is not None else None
        client = Client(key_of(connection.peer), connection.is_gone, cost)
        received = _Received(
            version, connection, client, arena, pending, room_by, flags, misfit, Turns()
        )
        for topic_data in request.topic_data:
            await self._start_topic(received, request, topic_data, rights, whole)
        for each in received.forwarding:
            await self.mirrored.forward(each, request.acks, request.timeout_ms)
        if throttle is not None:
            pending.response.throttle_time_ms = throttle.begin(is_answered=slot is not None)
        pending.stage_one_done()

    async def _start_topic(
        self,
        received: _Received,
        request: ProduceRequest,
        data: TopicProduceData,
        rights: Rights | None,
        error: tuple[ErrorCode, str] | None,
    ) -> None:
        """Start the batches of a topic.  error: why the whole request is refused."""
        answer = TopicProduceResponse(data.name, data.topic_id)
        received.pending.response.responses.append(answer)
        topic = None
        if error is None:
            topic, error = await self._writable(rights, data, received.version)
        for each in data.partition_data:
            partition = PartitionProduceResponse(each.index)
            answer.partition_responses.append(partition)
            if error is not None:
                refuse(partition, *error)
            else:
                await self._start_partition(received, request, topic, each, partition)
            await received.turns.count()

    def _error_here(self, peer: Peer) -> tuple[ErrorCode, str] | None:
        """Return the error if clients should use other gateways.

        It is retriable: clients look for the leader again, and metadata then names another gateway.

        Raises:
          CloseConnection: the gateway accepts batches now, but has refused or abandoned earlier
            ones of this connection.  The client may have sent the present batch before it saw this.
            If the log has no state of the producer, only the order on the connection shows that
            batches are missing.  On a new connection the client sends all of them again, in order.
        """
        if self.is_leaving:
            peer.was_sent_away = peer.was_refused = True
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "this gateway is about to stop"
        if self.coordinator.is_stale:
            peer.was_sent_away = peer.was_refused = True
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "this gateway does not reach its metadata log"
        if self.writer.way.is_cut_off:
            peer.was_sent_away = peer.was_refused = True
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "this gateway does not reach its object store"
        if peer.was_sent_away:
            raise CloseConnection()
        return None

    def note_answer(self, response: ProduceResponse, received_at: float, peer: Peer) -> None:
        """Count an answer: its errors, and the time since its request came."""
        now, times = trio.current_time(), self.writer.counters.times
        times.total.add(now - received_at)
        if now - received_at >= self.counters.slow.after_seconds:
            self.note_slow(peer, received_at, now)
        self.counters.errors.note(ApiKey.PRODUCE, response)
        topics = self.coordinator.state.topics
        for answer in response.responses:
            failed = sum(1 for each in answer.partition_responses if each.error_code)
            topic = find_topic(topics, answer.name or answer.topic_id) if failed else None
            if topic is not None:
                self.counters.topics.produce_failed(topic.name, failed)

    def turn_back(self, batch: TurnedBatch) -> None:
        """See produce_answers.PendingOwner."""
        self.turned_back.take(batch)

    def note_slow(self, peer: Peer, received_at: float, now: float) -> None:
        """Note a request that took long, with the stages of the object that answered it."""
        of_object = self.writer.counters.times.of_object
        stages = of_object.stages_ms(received_at, now) if of_object is not None else {}
        self.counters.slow.note(ApiKey.PRODUCE, peer, now - received_at, stages, now)

    def rights_of(self, peer: Peer) -> Rights | None:
        """Return the rights of a client; None without an authorizer."""
        return self.authority.of(peer) if self.authority is not None else None

    async def _writable(
        self, rights: Rights | None, data: TopicProduceData, version: int
    ) -> tuple[Topic | None, tuple[ErrorCode, str] | None]:
        """Return the topic, or the error if the client may not write to it.

        If the request has a name or a known id, the rights are checked first, so that a denial
        causes no read of the log.
        """
        by_id = version >= TOPIC_IDS_FROM
        if rights is not None:
            known = find_topic(self.coordinator.state.topics, data.topic_id) if by_id else None
            name = known.name if known is not None else data.name
            if (known is not None or not by_id) and not may_write(rights, name):
                return None, DENIED
        topic = await self._topic(data, version)
        if rights is not None and topic is not None and not may_write(rights, topic.name):
            return None, DENIED
        return topic, None

    async def _topic(self, data: TopicProduceData, version: int) -> Topic | None:
        """Return the topic; first read the log if the topic, a partition or a switch may be new."""
        topics = self.coordinator.state.topics
        key = data.topic_id if version >= TOPIC_IDS_FROM else data.name
        topic = find_topic(topics, key)
        highest = max((each.index for each in data.partition_data), default=0)
        # A mirrored topic may have been switched to this cluster just now.
        is_whole = topic is not None and highest < len(topic.partition_numbers)
        if topic is not None and is_whole and (not topic.link or self.mirrored.takes(topic)):
            return topic
        await catch_up(self.coordinator)
        return find_topic(topics, key)

    async def _start_partition(
        self,
        received: _Received,
        request: ProduceRequest,
        topic: Topic | None,
        data: PartitionProduceData,
        answer: PartitionProduceResponse,
    ) -> None:
        try:
            if topic is not None and topic.link and self.mirrored.takes(topic):
                self._add_mirrored(received, request, topic, data, answer)
                return
            topic = writable_topic(topic, data.index, received.version)
            if received.misfit == ELSEWHERE:
                received = await self._renewed(received, request)
            records = cast("memoryview | None", data.records)  # a decoded field has no other type
            batch, batch_header, _ = await self._checked(topic, records, received)
            if received.misfit is not None and batch_header.is_transactional:
                raise BatchRefused(*received.misfit)
            line = received.connection.peer.forward_line
            if line is not None:
                await line.until_none_turned_back()
            if not self.writer.has_room:
                await self._wait_for_room(received.room_by)
            _check_still_in_order(received.connection, topic, data.index)
            if topic.link:  # the topic began to return to its source meanwhile
                self._add_late(received, request, topic, data, answer)
                return
        except BatchRefused as refused:
            if topic is not None and refused.code is ErrorCode.MESSAGE_TOO_LARGE:
                self.counters.topics.rejected(topic.name, len(data.records or b""))
            _note_order(received.pending, refused.code, data.records)
            refuse(answer, refused.code, str(refused))
            answer.record_errors = [
                BatchIndexAndErrorMessage(*each) for each in refused.record_errors
            ]
            return
        token = Token(received.pending, answer)
        received.pending.add(token)
        self.counters.topics.produced(topic.name, len(batch), batch_header.record_count)
        received.connection.peer.produced_bytes += len(batch)
        self.writer.wrote(received.connection.peer.client_id or "", len(batch))
        # From here on the open object uses the arena's bytes, even if the connection ends.
        self.writer.pin(received.arena)
        flags = received.transactional_flags if batch_header.is_transactional else 0
        self.writer.append(topic.topic_id, data.index, batch, batch_header, token, flags)

    def _add_mirrored(
        self,
        received: _Received,
        request: ProduceRequest,
        topic: Topic,
        data: PartitionProduceData,
        answer: PartitionProduceResponse,
    ) -> None:
        """Add a batch to those that are forwarded after all others have their place."""
        if not received.forwarding:
            start = partial(self._start_switched, received, request)
            received.forwarding.append(
                Forwarding(
                    received.connection,
                    received.pending,
                    received.room_by,
                    start,
                    request.transactional_id,
                )
            )
        self.mirrored.add(received.forwarding[0], topic, data, answer)

    def _add_late(
        self,
        received: _Received,
        request: ProduceRequest,
        topic: Topic,
        data: PartitionProduceData,
        answer: PartitionProduceResponse,
    ) -> None:
        """Add a batch to those to forward, though it was about to be written here.

        Raises:
          CloseConnection: a batch of this partition already has to be forwarded.
        """
        if any(each.has((topic.topic_id, data.index)) for each in received.forwarding):
            raise CloseConnection()
        self._add_mirrored(received, request, topic, data, answer)

    async def _start_switched(
        self,
        received: _Received,
        request: ProduceRequest,
        topic: Topic | None,
        data: PartitionProduceData,
        answer: PartitionProduceResponse,
    ) -> None:
        """Start a batch whose topic (and transactional id) was switched while it waited."""
        if request.transactional_id is not None:
            received = await self._renewed(received, request)
        await self._start_partition(received, request, topic, data, answer)

    async def _renewed(self, received: _Received, request: ProduceRequest) -> _Received:
        """Return a request whose transactional id may have moved here since it came."""
        flags = await flags_of(self.coordinator, received.connection, request, received.version)
        misfit = await misfit_of(self.coordinator, request)
        return replace(received, transactional_flags=flags, misfit=misfit)

    async def _wait_for_room(self, deadline: float) -> None:
        """See WalWriter.wait_for_room; at the deadline, refuse the batch."""
        with trio.move_on_at(deadline):
            await self.writer.wait_for_room()
        if not self.writer.has_room:
            raise BatchRefused(ErrorCode.NOT_ENOUGH_REPLICAS, "object store or log is behind")

    async def _checked(
        self, topic: Topic, records: memoryview | None, received: _Received
    ) -> Accepted:
        settings = self.settings_of(topic)
        batch_header = accepted_header(
            records,
            settings,
            received.version,
            may_be_transactional=bool(received.transactional_flags),
        )
        assert records is not None
        accepted = await self.checks.accept(settings, records, batch_header, received.client)
        batch, _, walked_bytes = accepted
        await received.turns.count(ROWS_A_BATCH + walked_bytes // WALKED_BYTES_A_ROW)
        if len(batch) > settings.max_message_bytes:  # the topic's codec compresses the batch less
            raise BatchRefused(ErrorCode.MESSAGE_TOO_LARGE, "")
        return accepted


async def _decoded(body: memoryview, version: int) -> ProduceRequest:
    """Return the request, with only the last batch of each partition."""
    if len(body) > LARGE_BODY_BYTES:
        request = await read_batches(messages.decode_request_in_turns(body, version))
    else:
        request = messages.decode_request(body, version)
    drop_repeated_partitions(request)
    return request


def _check_still_in_order(connection: Connection, topic: Topic, index: int) -> None:
    """Check that a batch that may have waited does not overtake a batch that was refused meanwhile.

    Raises:
      CloseConnection: the batch would overtake a refused one; see Produce._error_here().
    """
    if connection.peer.was_sent_away:
        raise CloseConnection()
    check_order(connection, topic.topic_id, index)


def _note_order(pending: Pending, code: ErrorCode, records: Buffer | None) -> None:
    """Note a batch that an idempotent producer will send again; see Produce._error_here()."""
    if code is ErrorCode.NOT_ENOUGH_REPLICAS and read_header(records or b"").producer_id >= 0:
        pending.comes_again = True
