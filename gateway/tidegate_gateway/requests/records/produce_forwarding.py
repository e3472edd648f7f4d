"""Stage one of Produce for mirrored topics whose link forwards writes to the source.

The batches of a request keep their order, and go to the brokers that lead their partitions.
forwarded_request.py handles the answers.  Batches to a topic with a fence wait until the fence is
removed.  If the topic then belongs to this cluster, the batches are written here.

Once the gateway has refused a batch that the client may send again, it does not forward later
batches of the same partition on this connection: the client may have sent them before it saw the
refusal.  The gateway closes the connection instead, and the client sends all of them again, in
order.

Transactional batches are forwarded if their transactional id is at the same source.

Differs from Kafka: acks=0 is forwarded as acks=1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias, cast

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.rules.looked_up import mirrored_text
from tidegate_coordination.state.topics import Topic, TopicTable
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.produce import PartitionProduceData, PartitionProduceResponse

from ...migration.forward.coordinators import NO_FENCE
from ...migration.forward.transactions import TransactionForwards
from ...migration.forward.write_routes import Obstacle, Route
from ...migration.forward.writes import Beginning, Forwards
from ...network.connection import Connection, ReplyFlusher
from ...network.forward_line import ForwardLine, Place
from ...network.receiver import CloseConnection
from ...produce.refusals import BatchRefused
from .forwarded_answers import FENCED_TEXT
from .forwarded_request import ForwardedRequest, MirroredBatch
from .produce_answers import Pending, Token, TurnedBatch, refuse
from .produce_rules import NO_ANSWER, forwardable_header, known_topic

MAX_TIMEOUT_MS: Final = 60_000
"""A source waits no longer for its replicas; the Java client's default is 30 s."""
_LEAST_ACKS: Final = 1

Start: TypeAlias = Callable[
    [Topic | None, PartitionProduceData, PartitionProduceResponse], Awaitable[None]
]
"""Starts a batch of a topic that is this cluster's own now."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The mirrored batches of a request in stage one.

    until: the deadline of their waits, on trio's clock.  start: see Start.  transactional_id: of
    the request, or None.  is_again: whether they were turned back, so that later batches of the
    connection wait for them.
    """

    connection: Connection
    pending: Pending
    until: float
    start: Start
    transactional_id: str | None = None
    batches: list[MirroredBatch] = field(default_factory=list[MirroredBatch])
    is_again: bool = False

    def has(self, place: Place) -> bool:
        """Return whether there is a batch of a partition."""
        return any(each.place == place for each in self.batches)


class ProduceForwarding:
    """Forwards the batches of one gateway to sources."""

    def __init__(
        self,
        topics: TopicTable,
        forwards: Forwards,
        transactions: TransactionForwards,
        flusher: ReplyFlusher,
        settings_of: Callable[[Topic], TopicSettings],
    ) -> None:
        self._topics = topics
        self._forwards = forwards
        self._transactions = transactions
        self._flusher = flusher
        self._settings_of = settings_of

    def takes(self, topic: Topic) -> bool:
        """Return whether writes to a mirrored topic are forwarded."""
        return self._forwards.takes(topic)

    def add(
        self,
        forwarding: Forwarding,
        topic: Topic,
        data: PartitionProduceData,
        answer: PartitionProduceResponse,
    ) -> None:
        """Add a batch of a request.

        Raises:
          BatchRefused: the batch cannot be forwarded.
        """
        version = forwarding.pending.version
        known_topic(topic, data.index, version)
        records = cast("memoryview | None", data.records)  # a decoded field has no other type
        is_theirs = self._id_of(forwarding, topic) is not None
        header = forwardable_header(records, topic, version, may_be_transactional=is_theirs)
        assert records is not None
        token = Token(forwarding.pending, answer)
        batch = self._mirrored(
            topic, data, len(records), token, is_transactional=header.is_transactional
        )
        if forwarding.has(batch.place):
            raise BatchRefused(ErrorCode.INVALID_REQUEST, "the request names a partition twice")
        forwarding.pending.add(token)
        forwarding.batches.append(batch)

    def turned(self, forwarding: Forwarding, topic: Topic, turned: TurnedBatch) -> None:
        """Add a batch that was turned back, which this cluster's rules have already accepted."""
        records, token = turned.records, turned.token
        data = PartitionProduceData(token.answer.index, memoryview(records))
        batch = self._mirrored(topic, data, len(records), token, is_transactional=False)
        forwarding.batches.append(batch)

    def _mirrored(
        self,
        topic: Topic,
        data: PartitionProduceData,
        size_bytes: int,
        token: Token,
        *,
        is_transactional: bool,
    ) -> MirroredBatch:
        limit_bytes = self._settings_of(topic).max_message_bytes
        return MirroredBatch(
            topic.topic_id,
            topic.shown_id,
            topic.name,
            data,
            size_bytes,
            limit_bytes,
            token,
            is_transactional,
        )

    def line_of(self, connection: Connection) -> ForwardLine:
        """Return the line of a client connection."""
        peer = connection.peer
        if peer.forward_line is None:
            peer.forward_line = self._forwards.new_line()
        return peer.forward_line

    async def forward(self, forwarding: Forwarding, acks: int, timeout_ms: int) -> None:
        """Send the batches to the source, or write them here if their topics were switched.

        Raises:
          CloseConnection: see the module's head.
        """
        self.line_of(forwarding.connection)
        batches = forwarding.batches
        while batches:
            batches = await self._round(forwarding, batches, acks, timeout_ms)

    async def _round(
        self, forwarding: Forwarding, batches: list[MirroredBatch], acks: int, timeout_ms: int
    ) -> list[MirroredBatch]:
        """Send batches; return those for another round, since their topics have changed."""
        passes = await self._admitted(forwarding.transactional_id)
        batches = await self._unfenced(forwarding, batches)
        if not forwarding.is_again:
            await self.line_of(forwarding.connection).until_none_turned_back()
        groups = await self._by_route(forwarding, batches)
        again: list[MirroredBatch] = []
        for route, group in groups.items():
            if not await self._send(forwarding, route, group, acks, timeout_ms, passes=passes):
                again += group
        return again

    async def _admitted(self, transactional_id: str | None) -> int:
        """Wait until batches of a transactional id may continue; see TransactionForwards."""
        if transactional_id is None or not self._transactions.takes(transactional_id):
            return NO_FENCE
        return await self._transactions.admitted(transactional_id)

    async def _unfenced(
        self, forwarding: Forwarding, batches: list[MirroredBatch]
    ) -> list[MirroredBatch]:
        """Wait for the end of fences; return the batches whose topics have no fence."""
        topic_ids = {each.topic_id for each in batches}
        if await self._forwards.unfenced(topic_ids, forwarding.until):
            return batches
        fenced = [each for each in batches if self._forwards.has_fence((each.topic_id,))]
        self._refuse(forwarding, fenced, ErrorCode.NOT_LEADER_OR_FOLLOWER, FENCED_TEXT)
        return [each for each in batches if each not in fenced]

    async def _by_route(
        self, forwarding: Forwarding, batches: Iterable[MirroredBatch]
    ) -> dict[Route, list[MirroredBatch]]:
        """Return the batches by broker; refuse batches without a broker, or write them here."""
        groups: dict[Route, list[MirroredBatch]] = {}
        for each in batches:
            topic = self._topics.by_id.get(each.topic_id)
            if topic is None or not self._forwards.takes(topic):
                await self._start_here(forwarding, topic, each)
                continue
            if each.is_transactional and self._id_of(forwarding, topic) is None:
                # The transactional id has moved here, but the topic has not.
                refused = partial(
                    refuse, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=mirrored_text(topic)
                )
                each.token.fill(refused)
                continue
            found = await self._forwards.route(topic, each.data.index, forwarding.until)
            if isinstance(found, Obstacle):
                self._refuse(forwarding, [each], _code_of(found), found.value)
            else:
                self._check_order(forwarding, each)
                groups.setdefault(found, []).append(each)
        return groups

    def _id_of(self, forwarding: Forwarding, topic: Topic) -> str | None:
        return self._id_at(forwarding, topic.link)

    def _id_at(self, forwarding: Forwarding, link: str) -> str | None:
        """Return the request's transactional id if it is at the source of a link."""
        name = forwarding.transactional_id
        return name if name is not None and self._transactions.link_of(name) == link else None

    async def _start_here(
        self, forwarding: Forwarding, topic: Topic | None, batch: MirroredBatch
    ) -> None:
        self._check_order(forwarding, batch)
        if forwarding.connection.is_gone():
            raise CloseConnection  # the client may have sent the batch again to another gateway
        await forwarding.start(topic, batch.data, batch.token.answer)
        forwarding.pending.settled(batch.token)

    async def _send(
        self,
        forwarding: Forwarding,
        route: Route,
        batches: list[MirroredBatch],
        acks: int,
        timeout_ms: int,
        *,
        passes: int,
    ) -> bool:
        """Send batches to a broker; return False if they need another round."""
        connection = forwarding.connection
        line = connection.peer.forward_line
        assert line is not None
        request = ForwardedRequest(
            connection,
            line,
            batches,
            acks=_LEAST_ACKS if acks == NO_ANSWER else acks,
            timeout_ms=min(max(timeout_ms, 0), MAX_TIMEOUT_MS),
            version=forwarding.pending.version,
            transactional_id=self._id_at(forwarding, route.link.link.name),
            passes=passes,
            flusher=self._flusher,
            look=self._look,
            is_beyond_switch=self._forwards.is_beyond_switch,
        )
        if connection.is_gone():
            raise CloseConnection  # the client may have sent the batches again to another gateway
        beginning = await self._forwards.begin(route, request, forwarding.until)
        if line.is_lost:
            raise CloseConnection
        if beginning is Beginning.NOT_SENT:
            text = Obstacle.AWAY.value
            self._refuse(forwarding, batches, ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        elif beginning is Beginning.BEGUN:
            connection.peer.produced_bytes += request.size_bytes
            request.release()
        return beginning is not Beginning.LOOK_AGAIN

    def _look(self, topic_id: bytes) -> None:
        topic = self._topics.by_id.get(topic_id)
        if topic is not None:
            self._forwards.look(topic)

    def _refuse(
        self,
        forwarding: Forwarding,
        batches: Iterable[MirroredBatch],
        code: ErrorCode,
        text: str,
    ) -> None:
        """Refuse batches that the client may send again."""
        peer = forwarding.connection.peer
        assert peer.forward_line is not None
        for each in batches:
            peer.was_refused = True
            peer.forward_line.refused.add(each.place)
            each.token.fill(partial(refuse, code=code, message=text))

    def _check_order(self, forwarding: Forwarding, batch: MirroredBatch) -> None:
        check_order(forwarding.connection, batch.topic_id, batch.data.index)


def check_order(connection: Connection, topic_id: bytes, index: int) -> None:
    """Check that no earlier batch of the same partition was refused or lost.

    Raises:
      CloseConnection: there was such a batch; see the module's docstring.
    """
    line = connection.peer.forward_line
    if line is not None and (line.is_lost or (topic_id, index) in line.refused):
        raise CloseConnection


def _code_of(obstacle: Obstacle) -> ErrorCode:
    if obstacle is Obstacle.UNKNOWN:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NOT_LEADER_OR_FOLLOWER
