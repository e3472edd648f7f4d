"""Passes each frame to its handler, and the handler's answer to the reply slot.

Dispatch and ApiVersions use the same table of handlers, so a gateway announces exactly what it
serves.  An unknown API or version closes the connection, as in Kafka; the gateway logs it once per
client and minute (refused_features.py).  Only ApiVersions answers an unknown version: in version 0,
so that the client can try again with a lower one (KIP-511).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_protocol.apis import APIS, ApiFacts, ApiKey
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.headers import RequestHeader, decode_request_header, response_header
from tidegate_runtime.line_rates import STRANGERS_LINES

from .audit import NotedByCall, StoredAudit
from .counting.slow_requests import SlowRequests, milliseconds
from .gateway_counters import GatewayCounters
from .network.arenas import Arena
from .network.call import Call, Handler, Peer
from .network.connection import Connection, ReplyFlusher, fill
from .network.large_requests import LARGE_BODY_BYTES, LISTING, LargeRequests, freed
from .network.receiver import CloseConnection
from .quotas.throttling import Throttling
from .requests.records.produce import Produce
from .requests.records.produce_fast_path import PlainProducePath
from .requests.refused_features import RefusedFeatures
from .security.guarded import Guards
from .security.needs import check_rows
from .topics.client_acts import note_acts, note_unknown
from .unserved import Refusal, is_unserved, unserved_api, unserved_version

_log = structlog.get_logger("tidegate.dispatch", STRANGERS_LINES)

KEY_BYTES: Final = 2
# In wire format, and computed once: dispatch compares each frame with it.
_PRODUCE: Final = ApiKey.PRODUCE
_PRODUCE_BYTES: Final = _PRODUCE.to_bytes(KEY_BYTES, "big")

# APIs whose answers may wait, and whose decoded requests hold no part of their frames.
HOLDS_NOTHING: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
# APIs whose answers to small requests are small.
BRIEF: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)
# They wait for the other members of a group, as long as its rebalance takes.
WAIT_FOR_MEMBERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
# Steps of transactions, which a client repeats at another gateway if this one stands still.  Done
# late, they would fence that client or end its next transaction.
STEPS: Final = frozenset(
    {
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)


class Dispatcher:
    """Handles the frames of all connections.

    guards: hold requests to the rights of their clients; None without an authorizer.  audit: None
    without an audit log.  slow: notes requests that took long.

    Raises:
      LookupError: an API has no row in the table of needs.
    """

    def __init__(
        self,
        plain_produce: PlainProducePath,
        produce: Produce,
        handlers: Sequence[Handler],
        flusher: ReplyFlusher,
        counter: GatewayCounters,
        refused: RefusedFeatures,
        throttling: Throttling,
        large: LargeRequests | None = None,
        guards: Guards | None = None,
        audit: StoredAudit | None = None,
        slow: SlowRequests | None = None,
    ) -> None:
        self._audit = audit
        self._slow = slow or SlowRequests()
        check_rows(each.api_key for each in handlers)
        self._guards = guards
        self._large = large or LargeRequests()
        self._plain_produce = plain_produce
        self._produce = produce
        self._handlers: Mapping[int, Handler] = {each.api_key: each for each in handlers}
        self._flusher = flusher
        self._counter = counter
        self._refused = refused
        self._throttling = throttling

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        """See connection.FrameHandler."""
        peer = connection.peer
        if bytes(frame[:KEY_BYTES]) != _PRODUCE_BYTES or peer.client_id is None or peer.is_limited:
            return False
        if not self._plain_produce.start(connection, frame, arena):
            return False
        connection.receiver.produce_received()
        self._counter.count(_PRODUCE)
        return True

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        """See connection.FrameHandler."""
        header = decode_request_header(frame)
        if connection.peer.client_id is None:
            connection.peer.client_id = header.client_id or ""
        self._counter.count(header.api_key)
        facts = self._facts(connection, header)
        body = frame[header.body_position :]
        try:
            if facts.key == _PRODUCE:
                await self._start_produce(connection, header, frame, arena)
            else:
                await self._answer(connection, header, body, arena)
        except RemoteProtocolError as error:
            raise CloseConnection(f"{facts.name} v{header.api_version}: {error}") from error
        # A login sets `is_limited`, so that the first request after it comes here.
        self._throttling.look(connection.peer)
        self._flusher.flush()

    async def _start_produce(
        self, connection: Connection, header: RequestHeader, frame: memoryview, arena: Arena
    ) -> None:
        throttle = self._throttling.produce(connection, header, len(frame))
        start = self._produce.start(
            connection, header, frame[header.body_position :], arena, throttle
        )
        await (start if throttle is None else throttle.timed(start))
        connection.receiver.produce_received()

    async def _answer(
        self, connection: Connection, header: RequestHeader, body: memoryview, arena: Arena
    ) -> None:
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise self._unserved(connection, unserved_api(header.api_key))
        if len(body) > LARGE_BODY_BYTES:
            return await self._answer_large(handler, connection, header, body, arena)
        version = header.api_version
        if not _is_served(APIS[header.api_key], version):
            version = 0
            request: Any = None  # the body's version is unknown; so is its shape
        else:
            request = handler.messages.decode_request(body, version)
            if header.api_key in HOLDS_NOTHING:
                connection.let_go(arena)
        is_brief = header.api_key in BRIEF
        await self._reply(handler, connection, header, request, version, is_brief=is_brief)

    async def _answer_large(
        self,
        handler: Handler,
        connection: Connection,
        header: RequestHeader,
        body: memoryview,
        arena: Arena,
    ) -> None:
        """Answer a request that takes long to decode, and whose answer likely takes long, too."""
        version = header.api_version
        if not _is_served(APIS[header.api_key], version):
            raise RemoteProtocolError(f"{len(body)} bytes of an unknown version")
        reading = self._large.reading(header.api_key)
        try:
            work = _in_turns(handler, "decode_request_in_turns")
            if work is None:
                request = handler.messages.decode_request(body, version)
            else:
                request = await self._large.read(work(body, version), reading)
            if header.api_key in HOLDS_NOTHING:
                connection.let_go(arena)
                reading.release()
            await self._reply(handler, connection, header, request, version, is_brief=False)
        finally:
            reading.release()

    async def _reply(
        self,
        handler: Handler,
        connection: Connection,
        header: RequestHeader,
        request: Any,
        version: int,
        *,
        is_brief: bool,
    ) -> None:
        received, began = connection.receiver.received_at, trio.current_time()
        slot = connection.open_slot()
        note_refused = partial(self._refused.note, connection.peer)
        throttle = self._throttling.of(connection, header)
        audit = NotedByCall(self._audit) if self._audit is not None else None
        call = Call(
            header.api_version,
            header.client_id or "",
            connection.peer,
            note_refused,
            connection.is_gone,
            throttle.cost if throttle is not None else None,
            audit,
        )
        if header.api_key in STEPS and connection.is_gone():
            raise CloseConnection()
        work = None if is_brief else _in_turns(handler, "encode_response_in_turns")
        try:
            handling = self._handling(handler, call, request)
            response = await (handling if throttle is None else throttle.timed(handling))
            if throttle is not None:
                throttle.apply(response)
            note_acts(handler.api_key, call, request, response)
            if audit is not None:
                await audit.written()
            errors = self._counter.errors
            if work is None:
                errors.note(header.api_key, response)
                encoded = handler.messages.encode_response(response, version)
            else:
                noted = errors.noted(header.api_key, response, work(response, version))
                encoded = await self._large.write(noted)
        except (CoordinatorUnavailable, ProposalFailed) as error:
            self._counter.errors.unanswered[header.api_key] += 1
            raise CloseConnection(f"no answer to {APIS[handler.api_key].name}: {error}") from error
        except (CloseConnection, RemoteProtocolError):
            raise
        except Exception as error:
            # A bug that one client triggers closes only that client's connection.
            _log.exception("a request could not be answered", api=APIS[handler.api_key].name)
            raise CloseConnection("internal error") from error
        fill(slot, response_header(header.correlation_id, header.api_key, version), encoded)
        self._flusher.add(connection)
        self._note_answered(header.api_key, connection.peer, received, began)
        if header.api_key in LISTING:
            await freed(response, nested=header.api_key != ApiKey.METADATA)

    def _note_answered(self, api_key: int, peer: Peer, received: float, began: float) -> None:
        now = trio.current_time()
        self._counter.answered(api_key, received, began, now)
        if now - received >= self._slow.after_seconds:
            self._note_slow(api_key, peer, received, began, now)

    def _note_slow(
        self, api_key: int, peer: Peer, received: float, began: float, now: float
    ) -> None:
        """Note a request that took long, unless it waited for records or for other members."""
        stages, waited = {"queue_ms": milliseconds(began - received)}, 0.0
        if api_key == ApiKey.FETCH:
            work = peer.fetch_work
            waited = work.waited_seconds
            stages |= {"wait_ms": milliseconds(waited), "gets": work.gets, "bytes": work.size_bytes}
        is_slow = now - received - waited >= self._slow.after_seconds
        if is_slow and api_key not in WAIT_FOR_MEMBERS:
            self._slow.note(api_key, peer, now - received, stages, now)

    async def _handling(self, handler: Handler, call: Call, request: Any) -> Any:
        """Do the handler's work, under the API's guard if there is an authorizer."""
        try:
            if self._guards is None or request is None:
                return await handler.handle(call, request)
            return await self._guards.handle(handler, call, request)
        except (CoordinatorUnavailable, trio.Cancelled):
            note_unknown(handler.api_key, call)
            raise

    def _facts(self, connection: Connection, header: RequestHeader) -> ApiFacts:
        facts = APIS.get(header.api_key)
        if facts is None or is_unserved(header.api_key):
            raise self._unserved(connection, unserved_api(header.api_key))
        if not _is_served(facts, header.api_version) and facts.key != ApiKey.API_VERSIONS:
            raise self._unserved(connection, unserved_version(facts, header.api_version))
        return facts

    def _unserved(self, connection: Connection, refusal: Refusal) -> CloseConnection:
        """Log the refusal; return an error without a reason, which closes the connection."""
        self._refused.note(connection.peer, refusal)
        return CloseConnection()


def _in_turns(
    handler: Handler, name: str
) -> Callable[[Any, int], Generator[int, None, Any]] | None:
    """Return the function that decodes or encodes in turns; None if that never takes long."""
    found: Callable[[Any, int], Generator[int, None, Any]] | None
    found = getattr(handler.messages, name, None)
    return found


def _is_served(facts: ApiFacts, version: int) -> bool:
    return facts.min_version <= version <= facts.max_version
