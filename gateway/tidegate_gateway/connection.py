"""One client connection: frames in, replies out in the same order.

One task receives, parses and handles.  A produce request is handled in two stages: stage one gives
its batches their place in the log and returns, so that the next request is read at once; stage two
fills its reply slot when the commit is known.  All other requests are answered before the next is
read, as Kafka does it.

Replies leave in the order of requests.  Whoever fills a slot calls flush(), which sends what it can
without waiting; what the socket does not take is left to drain(), in the connection's own nursery.
A reply that cannot be sent for SEND_TIMEOUT_SECONDS closes the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import structlog
import trio

from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import LENGTH_BYTES, Frames, split_frames

from .arenas import LARGE_BYTES, SMALL_BYTES, Arena, ArenaPool
from .call import Peer
from .replies import ReplyLine, ReplySlot
from .transport import Buffer, Transport, TransportBroken

_log = structlog.get_logger("tidegate.connection")

SEND_TIMEOUT_SECONDS = 30.0
# Replies that the client does not read hold up its next request.
MAX_UNSENT_BYTES = 1 << 20
# So do replies that wait behind a produce request's, which other requests of the connection passed.
MAX_HELD_BYTES = 16 << 20
PRODUCE = 0
# A frame's first bytes: its length, then the API key.
KEY_END = LENGTH_BYTES + 2


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Frame sizes in bytes; times in seconds.

    max_frame_bytes: of a Produce request (Kafka's socket.request.max.bytes);
    max_control_frame_bytes: of any other.
    """

    max_frame_bytes: int = 100 << 20
    max_control_frame_bytes: int = 8 << 20
    max_in_flight: int = 1000
    idle_seconds: float = 600.0
    frame_seconds: float = 60.0


class FrameHandler(Protocol):
    """Handles the requests of all connections; see dispatch.py."""

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        """Handle one frame.  Returns when the next one may be read.

        Raises:
          CloseConnection: with the reason for the log.
        """
        ...


class CloseConnection(Exception):
    """The connection must be closed; the text is the reason, for the log.  "" for a quiet close."""


class Connection:
    """See the module's head."""

    def __init__(
        self,
        transport: Transport,
        peer: Peer,
        pool: ArenaPool,
        handler: FrameHandler,
        limits: ConnectionLimits,
    ) -> None:
        self.peer = peer
        self._transport = transport
        self._pool = pool
        self._handler = handler
        self._limits = limits
        self._arena: Arena | None = None
        self._wants_large = False
        self._partial_since: float | None = None
        self._line = ReplyLine()
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
        while await self._receive():
            await self._handle_frames()
        await self._answer_rest()

    def abort(self, reason: str = "") -> None:
        """Close from outside, at once."""
        if reason:
            _log.warning("closed a connection", peer=_name(self.peer), reason=reason)
        self._scope.cancel()

    def _close(self) -> None:
        self._transport.close()
        if self._arena is not None:
            arena, self._arena = self._arena, None
            arena.release()

    async def _answer_rest(self) -> None:
        """The client sends no more, but may still read what it asked for."""
        with trio.move_on_after(SEND_TIMEOUT_SECONDS):
            while len(self._line) or self._line.unsent_bytes:
                await self._sent.wait()

    # -- receiving --------------------------------------------------------------------------------

    async def _receive(self) -> bool:
        """Receive once; False at the end of the stream."""
        while True:
            with trio.move_on_after(self._patience_seconds()) as waited:
                await self._transport.wait_receivable()
            if waited.cancelled_caught:
                if self._partial_since is not None:
                    raise CloseConnection("a request was not sent to its end in time")
                if len(self._line):
                    continue
                raise CloseConnection("")
            arena = self._arena or self._take_arena()
            size = self._transport.receive_nowait(arena.data[arena.end :])
            if size is not None:
                break
        arena.end += size
        self._wants_large = arena.end == arena.size_bytes
        return size > 0

    def _patience_seconds(self) -> float:
        """A frame that has begun must end in time, however it trickles: it holds memory."""
        if self._partial_since is None:
            return self._limits.idle_seconds
        return self._partial_since + self._limits.frame_seconds - trio.current_time()

    def _take_arena(self) -> Arena:
        """Never waits: what comes next may be other than Produce."""
        arena = self._pool.large_nowait() if self._wants_large else None
        arena = arena or self._pool.small()
        arena.holder = self
        self._arena = arena
        return arena

    def drop_arena(self) -> None:
        """See arenas.Holder."""
        if self._arena is not None:
            arena, self._arena = self._arena, None
            arena.release()

    async def _handle_frames(self) -> None:
        arena = self._arena
        if arena is None:
            return
        data = arena.data[: arena.end]
        frames = split_frames(data, arena.start, max_frame_bytes=self._limits.max_frame_bytes)
        for start, end in frames.whole:
            await self._handler.handle(self, data[start:end], arena)
            await self._respect_limits()
            # Only now: while start < end nobody may take the arena away (see Arena.unpin).
            arena.start = end if end < arena.end else start
        await self._make_room(arena, frames)

    async def _respect_limits(self) -> None:
        if self._line.unsent_bytes > MAX_UNSENT_BYTES:
            await self._drain()
        while (
            len(self._line) >= self._limits.max_in_flight or self._line.held_bytes > MAX_HELD_BYTES
        ):
            await self._sent.wait()

    async def _make_room(self, arena: Arena, frames: Frames) -> None:
        """See that the next receive has space for the rest of the incomplete frame."""
        arena.start = frames.rest_position
        if arena.start == arena.end:
            self._partial_since = None
            self._emptied(arena)
            return
        if frames.whole or self._partial_since is None:
            self._partial_since = trio.current_time()
        if arena.start + frames.missing_bytes <= arena.size_bytes and arena.end < arena.size_bytes:
            return
        rest = arena.data[arena.start : arena.end]
        larger = await self._arena_for(rest, frames.missing_bytes)
        larger.data[: len(rest)] = rest
        larger.start, larger.end = 0, len(rest)
        larger.holder = self
        self._arena = larger
        arena.start = arena.end
        arena.release()

    def _emptied(self, arena: Arena) -> None:
        if not arena.is_pinned or arena.size_bytes - arena.end < arena.size_bytes // 4:
            self._arena = None
            arena.release()

    async def _arena_for(self, rest: memoryview, frame_bytes: int) -> Arena:
        if len(rest) < KEY_END:
            return self._pool.small()  # a few bytes more will tell what it is
        if int.from_bytes(rest[LENGTH_BYTES:KEY_END], "big") == PRODUCE:
            if frame_bytes <= SMALL_BYTES // 2 and not self._wants_large:
                return self._pool.small()
            with trio.move_on_after(self._limits.frame_seconds):
                return await self._pool.large(max(frame_bytes, LARGE_BYTES))
            raise CloseConnection("there was no memory for its request in time")
        if frame_bytes > self._limits.max_control_frame_bytes:
            raise CloseConnection(f"a request of {frame_bytes} bytes that is not Produce")
        if frame_bytes <= SMALL_BYTES:
            return self._pool.small()
        return self._pool.control(frame_bytes)

    # -- replying ---------------------------------------------------------------------------------

    def open_slot(self) -> ReplySlot:
        """Take the next place in the line of replies."""
        return self._line.open_slot()

    def flush(self) -> None:
        """Send what is ready, without waiting."""
        if self._nursery is None or not self._line.collect() or self._draining:
            return
        try:
            self._send_some()
        except TransportBroken:
            self._scope.cancel()
            return
        if self._line.unsent_bytes:
            self._draining = True
            self._nursery.start_soon(self._drain_in_background)
        self._notify_sent()

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
            connection.flush()


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
