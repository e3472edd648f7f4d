"""One client connection: frames in, replies out in the same order.

One task receives, parses and handles.  A produce request is handled in two stages: stage one gives
its batches their place in the log and returns, so that the next request is read at once; stage two
fills its reply slot when the commit is known.  All other requests are answered before the next is
read, as Kafka does it.

Replies leave in the order of requests.  Whoever fills a slot calls flush(), which sends what it can
without waiting; what the socket does not take is left to drain(), in the connection's own nursery.
A reply that cannot be sent for SEND_TIMEOUT_SECONDS closes the connection.  What is left to be sent
is booked in the memory of all replies; what goes out at once never is.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

import structlog
import trio

from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import split_frames

from .arenas import Arena, ArenaPool
from .call import Peer
from .inflow import Inflow
from .receiver import CloseConnection, ConnectionLimits, Receiver
from .replies import ReplyLine, ReplySlot
from .reply_memory import ReplyMemory
from .transport import Buffer, Transport, TransportBroken

_log = structlog.get_logger("tidegate.connection")

SEND_TIMEOUT_SECONDS = 30.0
# Replies that the client does not read hold up its next request.
MAX_UNSENT_BYTES = 1 << 20
# So do replies that wait behind a produce request's, which other requests of the connection passed.
MAX_HELD_BYTES = 16 << 20
# Many small requests of one client, received together, may not hold up the others.
FRAMES_A_TURN = 100


class FrameHandler(Protocol):
    """Handles the requests of all connections; see dispatch.py."""

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        """Handle one frame if that takes no waiting; else do nothing and return False."""
        ...

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        """Handle one frame.  Returns when the next one may be read.

        Raises:
          CloseConnection: with the reason for the log.
        """
        ...


class Connection:
    """See the module's head."""

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
        self._frame_end = 0
        self._line = ReplyLine()
        self._reply_memory = reply_memory
        self._booked_bytes = 0
        self._draining = False
        self._sent = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._scope = trio.CancelScope()

    async def serve(self) -> None:
        """Serve requests until either side closes.  Never raises what this client caused."""
        reason = ""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    try:
                        await self._serve_requests()
                    finally:
                        # Others may flush() until the nursery has closed; it takes no task then.
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
        await self._answer_rest()

    def abort(self, reason: str = "") -> None:
        """Close from outside, at once."""
        if reason:
            _log.warning("closed a connection", peer=_name(self.peer), reason=reason)
        self._scope.cancel()

    def _close(self) -> None:
        self._transport.close()
        self.receiver.close()
        self._line.clear()
        self._book()

    async def _answer_rest(self) -> None:
        """The client sends no more, but may still read what it asked for."""
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
                return  # it was let go of, with its last frame
            # Only now: while start < end nobody may take the arena away (see Arena.unpin).
            arena.start = end if end < arena.end else start
            if not count % FRAMES_A_TURN:
                await trio.lowlevel.checkpoint()
        await self.receiver.make_room(arena, frames)

    def let_go(self, arena: Arena) -> None:
        """The request in hand is decoded: while its answer is waited for, others use its memory."""
        self.receiver.let_go(arena, self._frame_end)

    def check_patience(self, now: float, idle_seconds: float = inf) -> None:
        """Close if the client takes too long.  Call it every PATIENCE_STEP_SECONDS.

        idle_seconds: how long it may be idle, if that is less than its limit.
        """
        idle_seconds = min(idle_seconds, self._limits.idle_seconds)
        # Who reads a reply is not idle; who reads no more is up to SEND_TIMEOUT_SECONDS.
        is_idle = not (len(self._line) or self._line.unsent_bytes)
        reason = self.receiver.lost_patience(now, idle_seconds, is_idle=is_idle)
        if reason is not None:
            self.abort(reason)

    def _is_behind(self) -> bool:
        """Tell whether replies must go out before the next request is looked at."""
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
        """Take the next place in the line of replies."""
        return self._line.open_slot()

    def flush(self) -> None:
        """Send what is ready, without waiting."""
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
        """Say how much memory the replies take now."""
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
        try:
            while self._line.unsent_bytes:
                with trio.move_on_after(SEND_TIMEOUT_SECONDS) as waited:
                    await self._transport.wait_sendable()
                if waited.cancelled_caught:
                    raise CloseConnection("a reply could not be sent")
                self._send_some()
                self._book()
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
        """A slot of the connection was filled."""
        self._dirty[connection] = None

    def flush(self) -> None:
        """Send what is ready on all of them."""
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            try:
                connection.flush()
            except Exception:
                # A bug met by one client costs that client its connection, and no other anything.
                _log.exception("replies could not be sent")
                connection.abort("internal error")


def fill(slot: ReplySlot, header: bytes, body: list[Buffer] | bytearray) -> None:
    """Put a whole frame into a slot: length, response header, body."""
    parts: list[Buffer] = body if isinstance(body, list) else [body]
    size = len(header) + sum(map(len, parts))
    slot.fill([size.to_bytes(4, "big") + header, *parts])


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    # The element type of a group within a group is not known.
    return _first(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType]


def _name(peer: Peer) -> str:
    return f"{peer.host}:{peer.port}"
