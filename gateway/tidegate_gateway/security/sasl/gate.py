"""The gate before the dispatcher: it lets requests pass once the client is authenticated.

Each connection of a SASL listener has a gate; connections of other listeners have none.  The
exchange (exchange.py) decides, the gate waits and sends.  If the session has no end, the gate is
removed after the first success.  Otherwise it compares each request's time of arrival with the
session's end, so that requests that arrived in time are answered.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from tidegate_protocol.apis import ApiKey

from ...network.arenas import Arena
from ...network.call import Login
from ...network.connection import Connection, FrameHandler
from ...network.receiver import CloseConnection, ConnectionLimits
from .authentications import Authentications
from .exchange import End, Exchange, Verdict
from .listeners import SaslListener
from .mechanism import NotYet

AUTHENTICATION_SECONDS: Final = 10.0
_KEY_BYTES: Final = 2
_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE.to_bytes(_KEY_BYTES, "big")


class SaslGate:
    """One connection's FrameHandler; see the module's head.

    Args:
      dispatcher: handles what is let through.
      limits: the limits of an authenticated connection.
      on_known: called each time the client has authenticated.
    """

    def __init__(
        self,
        offer: SaslListener,
        dispatcher: FrameHandler,
        limits: ConnectionLimits,
        tally: Authentications,
        count: Callable[[int], None],
        on_known: Callable[[], object],
    ) -> None:
        self._offer = offer
        self._dispatcher = dispatcher
        self._limits = limits
        self._tally = tally
        self._count = count
        self._on_known = on_known
        self._exchange = Exchange(offer.mechanisms)
        self._has_failed = False

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        """See connection.FrameHandler."""
        if not self._exchange.is_done or self._has_ended(connection):
            return False
        if _is_handshake(frame):
            return False
        return self._dispatcher.handle_nowait(connection, frame, arena)

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        """See connection.FrameHandler."""
        exchange = self._exchange
        if exchange.is_done:
            if not (_is_handshake(frame) and exchange.begin_again(trio.current_time())):
                if self._has_ended(connection):
                    self._tally.expired[connection.peer.listener] += 1
                    raise CloseConnection()
                return await self._dispatcher.handle(connection, frame, arena)
            connection.allow_seconds(AUTHENTICATION_SECONDS)
        # Without this checkpoint, one stranger's frames would be judged back to back, and others
        # would wait.
        await trio.lowlevel.checkpoint()
        verdict = await self._judged(frame)
        if verdict.is_served:
            return await self._dispatcher.handle(connection, frame, arena)
        self._count_sasl(frame)
        if verdict.why:
            self._note_failure(connection, verdict.why)
        if verdict.end is not None:
            await self._fail(connection, arena, verdict)
        self._answer(connection, verdict)
        if exchange.is_done:
            self._let_through(connection)
        return None

    async def _judged(self, frame: memoryview) -> Verdict:
        while True:
            try:
                return self._exchange.receive(frame, trio.current_time())
            except NotYet as until:
                await until.wait()

    def _note_failure(self, connection: Connection, why: str) -> None:
        """Count and log a failure once, although a refused token leads to two failed verdicts."""
        if not self._has_failed:
            self._has_failed = True
            exchange = self._exchange
            self._tally.note_failure(connection.peer, exchange.mechanism, why, exchange.token_id)

    def _has_ended(self, connection: Connection) -> bool:
        return connection.receiver.received_at > self._exchange.ends_at

    def _count_sasl(self, frame: memoryview) -> None:
        key = int.from_bytes(frame[:_KEY_BYTES], "big")
        if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            self._count(key)

    def _answer(self, connection: Connection, verdict: Verdict) -> None:
        if verdict.answer is not None:
            connection.open_slot().fill_small(verdict.answer)
            connection.flush()

    async def _fail(self, connection: Connection, arena: Arena, verdict: Verdict) -> None:
        connection.allow_seconds(inf)
        if verdict.end is End.LATE:
            connection.let_go(arena)
            await trio.sleep(self._offer.failure_delay_seconds)
        self._answer(connection, verdict)
        await connection.send_rest()
        raise CloseConnection()

    def _let_through(self, connection: Connection) -> None:
        exchange = self._exchange
        assert exchange.principal is not None
        self._on_known()
        self._has_failed = False
        connection.peer.principal = exchange.principal
        connection.peer.login = Login.TOKEN if exchange.token_id else Login.CREDENTIALS
        self._tally.note_success(connection.peer, exchange.mechanism, exchange.token_id)
        connection.peer.session_ends_at = exchange.ends_at
        # True until dispatch has looked up the quotas of this principal; see throttling.py.
        connection.peer.is_limited = True
        connection.allow_seconds(inf)
        has_end = exchange.ends_at < inf
        connection.hand_over(self if has_end else self._dispatcher, self._limits)


def _is_handshake(frame: memoryview) -> bool:
    return bytes(frame[:_KEY_BYTES]) == _HANDSHAKE
