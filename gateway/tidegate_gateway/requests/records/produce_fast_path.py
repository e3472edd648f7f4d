"""The fast path of Produce, for nearly all requests.

It takes a request only if the rules (produce_rules.py) accept every batch at once.  Any other
request goes to produce.py, which asks the same rules and answers their errors.
So the fast path refuses nothing, and accepts only what produce.py accepts.
produce_fast_answers.py answers it.

Stage one (see produce.py) never waits, so it needs no coroutine.  If each request of a client has
one partition, as with librdkafka, requests have the same bytes up to the length of the records.
These bytes are parsed once, and are then a key in a table of routes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.rules.records.transactional_batches import MAY_ADD, with_began
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.plain_produce import PlainProduce, prefix_end, read_plain, read_records
from tidegate_protocol.records import BatchHeader

from ...network.arenas import Arena
from ...network.call import Peer, Rights
from ...network.connection import Connection
from ...network.transport import Buffer
from ...network.turns import ROWS_AT_ONCE
from ...produce.record_checks import WALKED_BYTES_A_ROW, Accepted
from ...produce.refusals import BatchRefused
from ...transactions.arrivals import began_at, is_known
from .produce import Produce
from .produce_fast_answers import Answering, LoneRequest, PlainRequest, Route
from .produce_rules import (
    ANSWERED_ACKS,
    accepted_header,
    allows_transactions,
    find_topic,
    is_writable,
    may_write,
    transactional_flags,
)
from .produce_transactional import may_write_with

# Room is checked once for each request, so a larger request could make an object much too large.
MAX_FRAME_BYTES: Final = 2 << 20
MAX_PARTS: Final = 500
# As many bytes as produce.py walks in one turn.
MAX_WALKED_BYTES: Final = ROWS_AT_ONCE * WALKED_BYTES_A_ROW
MAX_ROUTES: Final = 10_000
MAX_ROUTE_BYTES: Final = 500
_PRODUCE: Final = ApiKey.PRODUCE
# API key and version together, then the correlation id; the bytes after it repeat from request to
# request.
_HEAD = Struct(">ii")


_Batch: TypeAlias = tuple[Topic, int, Buffer, BatchHeader, int]
"""Topic, partition, bytes, header, and flags (see BatchFacts)."""


def _names_twice(batches: list[_Batch]) -> bool:
    """Return whether a partition has several batches."""
    if len(batches) == 1:
        return False
    return len({(topic.topic_id, index) for topic, index, *_ in batches}) < len(batches)


class PlainProducePath:
    """Serves plain Produce requests; others go to Produce."""

    api_key: Final = _PRODUCE

    def __init__(self, produce: Produce) -> None:
        self._produce = produce
        self._topics = produce.coordinator.state.topics
        self._configs = produce.coordinator.state.configs
        self._acls = produce.coordinator.state.acls
        self._live_gateways = produce.coordinator.state.gateways.live
        self._transactions = produce.coordinator.state.transactions
        self._routes: dict[bytes | tuple[Rights, bytes], Route] = {}
        self._routes_as_of = (-1, -1, -1)
        self._way = produce.writer.way
        self._answering = Answering(produce)
        self._deadlines = produce.deadlines

    def start(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        """Take the request in a frame; return False if produce.py must take it.

        If it returns False, at most headers of batches in the frame have changed, by corrections of
        record_checks.py.  produce.py would make the same corrections.
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
        settings = route.settings
        try:  # The same as _accepted(), without a call, since this runs for every request.
            header = accepted_header(
                batch, settings, route.version, may_be_transactional=bool(flags)
            )
            accepted = produce.checks.accept_nowait(settings, batch, header, produce.now_ms())
        except BatchRefused:
            return False
        if accepted is None:
            return False
        stored, header, _ = accepted
        if flags:  # only transactional requests need this call
            number = topic.partition_numbers[route.index]
            own = self._flags(connection, header, route.transactional_id, flags, number)
            if own is None:
                return False
            flags = own
        lone = LoneRequest(self._answering, route, correlation_id, connection)
        produce.counters.topics.produced(topic.name, end - start, header.record_count)
        peer.produced_bytes += end - start
        writer = produce.writer
        writer.wrote(peer.client_id or "", end - start)
        writer.pin(arena)
        writer.append(topic.topic_id, route.index, stored, header, lone, flags)
        self._deadlines.add(lone, route.timeout_ms)
        return True

    def _key(self, peer: Peer, begin: bytes) -> bytes | tuple[Rights, bytes]:
        """Return the key of a route; with an authorizer each client has its own routes."""
        rights = self._produce.rights_of(peer)
        return begin if rights is None else (rights, begin)

    @property
    def _versions(self) -> tuple[int, int, int]:
        """The versions of the tables that the routes depend on."""
        return self._topics.version, self._configs.version, self._acls.version

    def _start_unknown(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        plain = read_plain(frame)
        if plain is None or plain.acks not in ANSWERED_ACKS:
            return False
        batches = self._batches(connection, plain, frame)
        if batches is None:
            return False
        self._learn(connection, frame, plain, batches[0][0])
        request = PlainRequest(self._answering, plain, connection)
        produce = self._produce
        # From here on the open object uses the arena's bytes, even if the connection ends.
        produce.writer.pin(arena)
        for topic, partition, batch, header, flags in batches:
            produce.counters.topics.produced(topic.name, len(batch), header.record_count)
            connection.peer.produced_bytes += len(batch)
            produce.writer.wrote(connection.peer.client_id or "", len(batch))
            token = request.token()
            produce.writer.append(topic.topic_id, partition, batch, header, token, flags)
        self._deadlines.add(request, plain.timeout_ms)
        return True

    def _batches(
        self, connection: Connection, plain: PlainProduce, frame: memoryview
    ) -> list[_Batch] | None:
        """Return the batches with their topics; None if the rules refuse at least one."""
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
        # A transactional id has one producer id, and a request has only one of its epochs.
        epochs = {header.producer_epoch for *_, header, flags in found if flags}
        is_plain = len(found) <= MAX_PARTS and len(epochs) <= 1
        return found if is_plain and not _names_twice(found) else None

    def _accepted(
        self, batch: memoryview, settings: TopicSettings, version: int, *, may_be: bool
    ) -> Accepted | None:
        """Return the batch to store; None if produce.py must look at it.

        may_be: whether the request has a transactional id.
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

        Return None if this gateway may have to read the log first, if the batch has another
        transactional id than its request, or if the client has disconnected.  may_be: the flags of
        the request's transactional batches.  number: of the partition.
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
        """Remember the first bytes of this request, for later requests with the same bytes."""
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
        route = Route(head, plain, topic, settings)
        key = self._key(connection.peer, bytes(frame[_HEAD.size : position]))
        self._routes[key] = route
        connection.peer.plain_prefix_end = position
