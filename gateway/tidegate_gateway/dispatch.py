"""Passes each frame to its handler, and the handler's answer to the reply slot.

Dispatch and ApiVersions use the same rows (feature.py), so a gateway announces exactly what it
serves.  An unknown API or version closes the connection, as in Kafka; the gateway logs it once per
client and minute (refused_features.py).  Only ApiVersions answers an unknown version: in version 0,
so that the client can try again with a lower one (KIP-511).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.headers import RequestHeader, decode_request_header, response_header
from tidegate_runtime.line_rates import STRANGERS_LINES

from .audit import NotedByCall, StoredAudit
from .feature import AnyRow, Row, StagedRow, by_key
from .gateway_counters import GatewayCounters
from .guarded import Guards, handled
from .network.arenas import Arena
from .network.call import Call
from .network.connection import Connection, ReplyFlusher, fill
from .network.large_requests import LARGE_BODY_BYTES, LargeRequests, freed, in_turns
from .network.receiver import CloseConnection
from .quotas.throttling import Throttling
from .topics.client_acts import note_act
from .unserved import is_served, unserved_api, unserved_version

_log = structlog.get_logger("tidegate.dispatch", STRANGERS_LINES)

KEY_BYTES: Final = 2


class Dispatcher:
    """Handles the frames of all connections.

    guards: check requests against ACLs; None without an authorizer.  audit: None without an audit
    log.  It serves no API before the call of serve().
    """

    def __init__(
        self,
        flusher: ReplyFlusher,
        counter: GatewayCounters,
        throttling: Throttling,
        large: LargeRequests,
        guards: Guards | None,
        audit: StoredAudit | None,
    ) -> None:
        self._audit = audit
        self._guards = guards
        self._large = large
        self._rows: dict[int, AnyRow] = {}
        self._staged: dict[bytes, StagedRow] = {}
        self._flusher = flusher
        self._counter = counter
        self._throttling = throttling

    def serve(self, rows: Iterable[AnyRow]) -> None:
        """Serve the APIs of the rows.

        Raises:
          LookupError: two rows have the same key.
        """
        self._rows = by_key(rows)
        # The keys are in wire format: each frame needs a lookup.
        staged = (each for each in self._rows.values() if isinstance(each, StagedRow))
        self._staged = {each.key.to_bytes(KEY_BYTES, "big"): each for each in staged}

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        """See connection.FrameHandler."""
        peer = connection.peer
        row = self._staged.get(bytes(frame[:KEY_BYTES]))
        if row is None or peer.client_id is None or peer.is_limited:
            return False
        if not row.start_nowait(connection, frame, arena):
            return False
        connection.receiver.produce_received()
        self._counter.count(row.key)
        return True

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        """See connection.FrameHandler."""
        header = decode_request_header(frame)
        if connection.peer.client_id is None:
            connection.peer.client_id = header.client_id or ""
        self._counter.count(header.api_key)
        row = self._row(connection, header)
        try:
            if isinstance(row, StagedRow):
                await row.start(connection, header, frame, arena)
                connection.receiver.produce_received()
            else:
                await self._answer(row, connection, header, frame[header.body_position :], arena)
        except RemoteProtocolError as error:
            name = APIS[row.key].name
            raise CloseConnection(f"{name} v{header.api_version}: {error}") from error
        # A login sets `is_limited`, so the first request after the login comes here.
        self._throttling.look(connection.peer)
        self._flusher.flush()

    async def _answer(
        self,
        row: Row,
        connection: Connection,
        header: RequestHeader,
        body: memoryview,
        arena: Arena,
    ) -> None:
        if len(body) > LARGE_BODY_BYTES:
            return await self._answer_large(row, connection, header, body, arena)
        request: Any = None  # stays None for an unknown version, which cannot be decoded
        if is_served(APIS[header.api_key], header.api_version):
            request = row.handler.messages.decode_request(body, header.api_version)
            if row.holds_nothing:
                connection.let_go(arena)
        await self._reply(row, connection, header, request, is_brief=row.is_brief)

    async def _answer_large(
        self,
        row: Row,
        connection: Connection,
        header: RequestHeader,
        body: memoryview,
        arena: Arena,
    ) -> None:
        """Answer a large request: it takes long to decode, and likely also to answer."""
        version = header.api_version
        if not is_served(APIS[header.api_key], version):
            raise RemoteProtocolError(f"{len(body)} bytes of an unknown version")
        reading = self._large.reading(row.max_elements, is_of_members=row.is_of_members)
        try:
            request = await self._large.decoded(row.handler.messages, body, version, reading)
            if row.holds_nothing:
                connection.let_go(arena)
                reading.release()
            await self._reply(row, connection, header, request, is_brief=False)
        finally:
            reading.release()

    async def _reply(
        self,
        row: Row,
        connection: Connection,
        header: RequestHeader,
        request: Any,
        *,
        is_brief: bool,
    ) -> None:
        received, began = connection.receiver.received_at, trio.current_time()
        version = 0 if request is None else header.api_version
        slot = connection.open_slot()
        throttle = None if row.is_exempt else self._throttling.of(connection, header)
        audit = NotedByCall(self._audit) if self._audit is not None else None
        call = Call(
            header.api_version,
            header.client_id or "",
            connection.peer,
            partial(self._counter.refused.note, connection.peer),
            connection.is_gone,
            throttle.cost if throttle is not None else None,
            audit,
        )
        if row.is_step and connection.is_gone():
            raise CloseConnection()
        work = None if is_brief else in_turns(row.handler.messages, "encode_response")
        try:
            handling = handled(self._guards, row, call, request)
            response = await (handling if throttle is None else throttle.timed(handling))
            if throttle is not None:
                throttle.apply(response)
            if row.act is not None:
                note_act(call, row.act(request, response), is_audited=row.is_audited)
            if audit is not None:
                await audit.written()
            errors = self._counter.errors
            if work is None:
                errors.note(header.api_key, response)
                encoded = row.handler.messages.encode_response(response, version)
            else:
                noted = errors.noted(header.api_key, response, work(response, version))
                encoded = await self._large.write(noted)
        except (CoordinatorUnavailable, ProposalFailed) as error:
            self._counter.errors.unanswered[header.api_key] += 1
            raise CloseConnection(f"no answer to {APIS[row.key].name}: {error}") from error
        except (CloseConnection, RemoteProtocolError):
            raise
        except Exception as error:
            # A bug that one client triggers closes only that client's connection.
            _log.exception("a request could not be answered", api=APIS[row.key].name)
            raise CloseConnection("internal error") from error
        fill(slot, response_header(header.correlation_id, header.api_key, version), encoded)
        self._flusher.add(connection)
        self._counter.answered(row.handler.api_key, row.waits, connection.peer, received, began)
        if row.lists:
            await freed(response, nested=not row.keeps_rows)

    def _row(self, connection: Connection, header: RequestHeader) -> AnyRow:
        """Return the row of a request.

        Raises:
          CloseConnection: the API or its version is not served; the reason is logged.
        """
        row, key, version = self._rows.get(header.api_key), header.api_key, header.api_version
        if row is None:
            refusal = unserved_api(key)
        elif not is_served(APIS[key], version) and key != ApiKey.API_VERSIONS:
            refusal = unserved_version(APIS[key], version)
        else:
            return row
        self._counter.refused.note(connection.peer, refusal)
        raise CloseConnection()
