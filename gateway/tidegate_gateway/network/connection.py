"""One client connection: receives frames, and sends replies in the same order.

One task receives, parses and handles.  The gateway handles a produce request in two stages.  Stage
one fixes the place of its batches in the log and returns, so the task reads the next request at
once.  Stage two fills its reply slot when the commit's outcome is known.  The task answers any
other request before it reads the next one, as Kafka does.

Replies leave in the order of requests.  The code that fills a slot calls flush(), which sends as
much as the socket takes without waiting.  _drain_in_background(), in the connection's own nursery,
sends the rest.  A reply that cannot be sent for SEND_TIMEOUT_SECONDS closes the connection.  Bytes
that wait to be sent count in the memory of all replies; bytes that leave at once do not.

A client above a quota is muted (KIP-219): the gateway still answers the received requests, but
receives no further ones for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Protocol

import structlog
import trio

from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import split_frames
from tidegate_runtime.line_rates import STRANGERS_LINES

from .arenas import Arena, ArenaPool
from .call import Peer
from .inflow import Inflow
from .receiver import CloseConnection, ConnectionLimits, Receiver
from .replies import ReplyLine, ReplySlot
from .reply_memory import ReplyMemory
from .transport import Buffer, Transport, TransportBroken

_log = structlog.get_logger("tidegate.connection", STRANGERS_LINES)

SEND_TIMEOUT_SECONDS = 30.0
# While more than this is unsent, since the client does not read, its next request waits.
MAX_UNSENT_BYTES = 1 << 20
# The same for finished replies that must wait for the reply of an earlier produce request.
MAX_HELD_BYTES = 16 << 20
# After this many requests of one client in one receive, other clients have a turn.
FRAMES_A_TURN = 100


class FrameHandler(Protocol):
    """Handles the requests of all connections; see dispatch.py."""

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        """Handle one frame and return True; if that would wait, do nothing and return False."""
        ...

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        """Handle one frame.  Returns when the next one may be read.

        Raises:
          CloseConnection: with the reason for the log.
        """
        ...


class Connection:
    """A client's connection, from its first byte to its end."""

    def __init__(
        self,
        transport: Transport,
        peer: Peer,
        pool: ArenaPool,
        handler: FrameHandler,
        limits: ConnectionLimits,
        inflow: Inflow,
        reply_memory: ReplyMemory,
    ) -> None:
        self.peer = peer
        self.receiver = Receiver(transport, pool, limits, inflow)
        self._transport = transport
        self._handler = handler
        self._limits = limits
        self._ready_by = inf
        self._frame_end = 0
        self._line = ReplyLine()
        self._reply_memory = reply_memory
        self._booked_bytes = 0
        self._draining = False
        self._sent = trio.Event()
        self._muted_until = 0.0
        self._unmuted = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._scope = trio.CancelScope()

    async def serve(self) -> None:
        """Serve requests until either side closes.  Raises no error that the client caused."""
        reason = ""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    try:
                        await self._serve_requests()
                    finally:
                        # From here on the nursery takes no new tasks, but callers may still call
                        # flush().
                        self._nursery = None
                    nursery.cancel_scope.cancel()
        except* (CloseConnection, RemoteProtocolError) as errors:
            reason = str(_first(errors))
        except* TransportBroken:
            pass
        finally:
            self._close()
        if reason:
            _log.warning("closed a connection", peer=_name(self.peer), reason=reason)

    async def _serve_requests(self) -> None:
        while arena := await self.receiver.receive():
            await self._handle_frames(arena)
            if self._muted_until or self.peer.is_limited:
                await self._pace()
        await self.send_rest()

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Start work that ends with the connection; return False if the connection is closing.

        The work may raise CloseConnection.
        """
        if self._nursery is None or self._scope.cancel_called:
            return False
        self._nursery.start_soon(work)
        return True

    def is_gone(self) -> bool:
        """Return whether the client has closed the connection; see Transport."""
        return self._transport.is_gone()

    def abort(self, reason: str = "") -> None:
        """Close the connection at once; any task may call this."""
        if reason:
            _log.warning("closed a connection", peer=_name(self.peer), reason=reason)
        self._scope.cancel()

    def _close(self) -> None:
        self._transport.close()
        self.receiver.close()
        self._line.clear()
        self._book()

    async def send_rest(self) -> None:
        """Send the remaining replies, since a client that sends no more requests may still read."""
        with trio.move_on_after(SEND_TIMEOUT_SECONDS):
            while len(self._line) or self._line.unsent_bytes:
                await self._sent.wait()

    # -- requests ---------------------------------------------------------------------------------

    async def _handle_frames(self, arena: Arena) -> None:
        data = arena.data[: arena.end]
        frames = split_frames(data, arena.start, max_frame_bytes=self._limits.max_frame_bytes)
        for count, (start, end) in enumerate(frames.whole, 1):
            frame = data[start:end]
            if not self._handler.handle_nowait(self, frame, arena):
                self._frame_end = end
                await self._handler.handle(self, frame, arena)
            if self._is_behind():
                await self._catch_up()
            if not self.receiver.holds(arena):
                return  # the arena was released with its last frame
            # Only after the handler: while start < end, unpin() does not take the arena from the
            # connection.
            arena.start = end if end < arena.end else start
            if not count % FRAMES_A_TURN:
                await trio.lowlevel.checkpoint()
        await self.receiver.make_room(arena, frames)

    def hand_over(self, handler: FrameHandler, limits: ConnectionLimits) -> None:
        """Pass all further frames to another handler, with other limits."""
        self._handler = handler
        self._limits = limits
        self.receiver.take_limits(limits)

    def allow_seconds(self, seconds: float) -> None:
        """Close the connection if it is idle after this time; a later call replaces the time.

        inf: do not.
        """
        self._ready_by = trio.current_time() + seconds

    def mute(self, seconds: float) -> None:
        """Receive nothing for these seconds; a longer earlier mute stays."""
        self._muted_until = max(self._muted_until, trio.current_time() + seconds)

    def unmute(self) -> None:
        """End the mute: receive again at once."""
        self._muted_until = 0.0
        self._unmuted.set()
        self._unmuted = trio.Event()

    async def _pace(self) -> None:
        """Receive little at a time from a client with a quota, and wait while it is muted.

        As in Kafka, the quota decides before the next request is received.  A frame under way holds
        memory, so the gateway first receives it to its end.
        """
        is_under_way = self.receiver.receive_little()
        if not is_under_way and trio.current_time() < self._muted_until:
            self.receiver.drop_arena()
            with trio.move_on_at(self._muted_until):
                await self._unmuted.wait()
            self.receiver.receive_little()
        if trio.current_time() >= self._muted_until:
            self._muted_until = 0.0

    def let_go(self, arena: Arena) -> None:
        """Release the arena of a decoded request, for others to use while the request waits."""
        self.receiver.let_go(arena, self._frame_end)

    def check_patience(self, now: float, idle_seconds: float = inf) -> None:
        """Close if the client takes too long.  Call it every PATIENCE_STEP_SECONDS.

        idle_seconds: how long the client may be idle, if less than limits.idle_seconds.
        """
        if now >= self._ready_by and self._is_idle:
            return self.abort("it did not authenticate in time")
        idle_seconds = min(idle_seconds, self._limits.idle_seconds)
        # A client with unsent replies is not idle; SEND_TIMEOUT_SECONDS is the limit for those.
        reason = self.receiver.lost_patience(now, idle_seconds, is_idle=self._is_idle)
        if reason is not None:
            self.abort(reason)
        elif self._muted_until and self._is_idle and self.is_gone():
            self.abort()

    @property
    def _is_idle(self) -> bool:
        return not (len(self._line) or self._line.unsent_bytes)

    def close_between_requests(self) -> None:
        """Close the connection if the client keeps sending requests, but has none under way now.

        The caller calls this a moment after check_patience(), so that the client has read its last
        answer.
        """
        if self._is_idle and self.receiver.is_between_requests():
            self.abort("")

    def _is_behind(self) -> bool:
        """Return whether replies must leave before the connection handles the next request."""
        line = self._line
        return (
            line.unsent_bytes > MAX_UNSENT_BYTES
            or len(line) >= self._limits.max_in_flight
            or line.held_bytes > MAX_HELD_BYTES
        )

    async def _catch_up(self) -> None:
        if self._line.unsent_bytes > MAX_UNSENT_BYTES:
            await self._drain()
        while (
            len(self._line) >= self._limits.max_in_flight or self._line.held_bytes > MAX_HELD_BYTES
        ):
            await self._sent.wait()

    # -- replying ---------------------------------------------------------------------------------

    def open_slot(self) -> ReplySlot:
        """Return a slot at the end of the line of replies."""
        return self._line.open_slot()

    def flush(self) -> None:
        """Send the replies that are ready, without waiting."""
        if self._nursery is None:
            return
        line = self._line
        if line.collect() and not self._draining:
            try:
                self._send_some()
            except TransportBroken:
                self._scope.cancel()
                return
            if line.unsent_bytes:
                self._draining = True
                self._nursery.start_soon(self._drain_in_background)
            self._notify_sent()
        if line.unsent_bytes or line.held_bytes or self._booked_bytes:
            self._book()

    def _book(self) -> None:
        """Update this connection's part of the memory of all replies."""
        memory_bytes = self._line.memory_bytes
        self._reply_memory.used_bytes += memory_bytes - self._booked_bytes
        self._booked_bytes = memory_bytes

    def _send_some(self) -> None:
        while parts := self._line.parts():
            size = self._transport.send_nowait(parts)
            self._line.sent(size)
            if size < sum(map(len, parts)):
                return

    def _notify_sent(self) -> None:
        self._sent.set()
        self._sent = trio.Event()

    async def _drain_in_background(self) -> None:
        began = trio.current_time()
        try:
            while self._line.unsent_bytes:
                with trio.move_on_after(SEND_TIMEOUT_SECONDS) as waited:
                    await self._transport.wait_sendable()
                if waited.cancelled_caught:
                    raise CloseConnection("a reply could not be sent")
                self._send_some()
                self._book()
            self._reply_memory.send_times.add(trio.current_time() - began)
        finally:
            self._draining = False
            self._notify_sent()

    async def _drain(self) -> None:
        """Wait until the replies that are ready are sent."""
        while self._line.unsent_bytes:
            await self._sent.wait()


class ReplyFlusher:
    """Collects the connections whose slots were filled, to flush each of them once."""

    def __init__(self) -> None:
        self._dirty: dict[Connection, None] = {}

    def add(self, connection: Connection) -> None:
        """Note that a slot of the connection was filled."""
        self._dirty[connection] = None

    def flush(self) -> None:
        """Send the ready replies of all these connections."""
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            try:
                connection.flush()
            except Exception:
                # A bug that one client triggers closes only that client's connection.
                _log.exception("replies could not be sent")
                connection.abort("internal error")


def fill(slot: ReplySlot, header: bytes, body: list[Buffer] | bytearray) -> None:
    """Put a whole frame into a slot: length, response header, body."""
    parts: list[Buffer] = body if isinstance(body, list) else [body]
    size = len(header) + sum(map(len, parts))
    slot.fill([size.to_bytes(4, "big") + header, *parts])


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    # The type checker does not know the element type of a nested group.
    return _first(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType]


def _name(peer: Peer) -> str:
    return f"{peer.host}:{peer.port}"
