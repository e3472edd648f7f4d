"""The receiving half of a connection: fills arenas, and limits how long a client may take.

The gateway parses requests in place, so received bytes stay where they are.  An incomplete frame
moves to an arena that can hold it; only large frames wait for memory (see arenas.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.frames import LENGTH_BYTES, Frames

from .arenas import LARGE_BYTES, SMALL_BYTES, Arena, ArenaPool
from .inflow import Inflow
from .transport import Transport

# After a receive of this size the receiver tries again without waiting, a few times.
FLOWING_BYTES = 32 * 1024
RECEIVES_IN_A_ROW = 4
PATIENCE_STEP_SECONDS = 1.0
QUIET_SECONDS = 0.25
LITTLE_BYTES = 4096
# How long a slow frame is tolerated while others wait for its memory; see _too_slow.
LAG_SECONDS = 2.0
_PRODUCE = ApiKey.PRODUCE
_SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE
NOTHING = memoryview(b"")
# A frame's first bytes: its length, then the API key.
KEY_END = LENGTH_BYTES + 2


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Frame sizes in bytes; times in seconds.

    max_frame_bytes: of a Produce request (Kafka's socket.request.max.bytes);
    max_control_frame_bytes: of any other.  is_strange: the client is not authenticated yet, so only
    its SaslAuthenticate requests may be large.
    """

    max_frame_bytes: int = 100 << 20
    max_control_frame_bytes: int = 8 << 20
    max_in_flight: int = 1000
    idle_seconds: float = 600.0
    frame_seconds: float = 60.0
    is_strange: bool = False


class CloseConnection(Exception):
    """The connection must be closed.  The text is the reason for the log; "" logs nothing."""


class Receiver:
    """Receives for one connection.  inflow: counts its produce requests under way.

    received_at: the time of the last receive, in seconds on Trio's clock.
    """

    def __init__(
        self, transport: Transport, pool: ArenaPool, limits: ConnectionLimits, inflow: Inflow
    ) -> None:
        self.received_at = 0.0
        self._inflow = inflow
        self._transport = transport
        self._pool = pool
        self._limits = limits
        self._arena: Arena | None = None
        self._wants_large = False
        self._partial_since: float | None = None
        self._is_produce_partial = False
        self._is_waiting = False
        self._is_flowing = False
        # The frame under way: its size, and where in the arena the next receive must end.
        self._frame_bytes = 0
        self._receive_upto: int | None = None
        self._received_in_a_row = 0
        # The idle time of a new connection starts as if it had just sent bytes.
        self._has_received = True
        self._has_asked = False  # in the interval before the last lost_patience()
        self._idle_since = 0.0

    async def receive(self) -> Arena | None:
        """Receive once; return the arena that holds the bytes, or None at the end of the stream.

        Raises:
          TransportBroken: the connection is gone.
        """
        while True:
            if not self._is_flowing:
                self._is_waiting = True
                await self._transport.wait_receivable()
                self._is_waiting = False
            arena = self._arena or self._take_arena()
            size = self._transport.receive_nowait(arena.data[arena.end : self._receive_upto])
            if size is not None:
                break
            self._is_flowing = False
            if not arena.end:
                self.drop_arena()  # a waiting connection holds no arena
        self._has_received = True
        self.received_at = trio.current_time()
        arena.end += size
        self._wants_large = arena.end == arena.size_bytes
        self._keep_flowing(size)
        return arena if size else None

    def _keep_flowing(self, size_bytes: int) -> None:
        """Decide whether the next receive first waits for the socket.

        After a large receive, more bytes have usually arrived, and a wait takes longer than an
        attempt.  After RECEIVES_IN_A_ROW it waits anyway, so that other tasks have a turn.
        """
        self._received_in_a_row += 1
        self._is_flowing = (
            size_bytes >= FLOWING_BYTES and self._received_in_a_row % RECEIVES_IN_A_ROW != 0
        )

    def lost_patience(self, now: float, idle_seconds: float, *, is_idle: bool) -> str | None:
        """Return the reason to close, or "" to close without a log line; None to keep it open.

        Call it every PATIENCE_STEP_SECONDS.  is_idle: the client waits for no answer.  Such a
        client may stay idle for idle_seconds.  A frame must be complete limits.frame_seconds after
        its begin, even if its bytes keep arriving, since it holds memory.
        """
        self._has_asked = self._has_received and self._received_in_a_row > 0
        if self._has_received or not (self._is_waiting and is_idle):
            self._has_received = False
            self._idle_since = now
        if not self._is_waiting:
            return None
        if self._partial_since is not None:
            return self._too_slow(now - self._partial_since)
        return "" if now - self._idle_since >= idle_seconds else None

    def is_between_requests(self) -> bool:
        """Return whether the client sent bytes before the last lost_patience(), but none since.

        Only the interval right before that call counts.

        A client that is reading a long answer sends nothing meanwhile.
        """
        is_quiet = self._is_waiting and self._partial_since is None and not self._has_received
        return self._has_asked and is_quiet

    def _too_slow(self, seconds: float) -> str | None:
        """Return the reason to close if a frame is too slow, as lost_patience() does.

        A few bytes can declare a frame of megabytes.  So while other frames wait for that memory, a
        frame must arrive at the rate that completes it in limits.frame_seconds.
        """
        if seconds >= self._limits.frame_seconds:
            return "a request was not sent to its end in time"
        arena = self._arena
        if arena is None or seconds < LAG_SECONDS or not self._pool.is_wanted(arena):
            return None
        expected_share = seconds / self._limits.frame_seconds
        if arena.end - arena.start >= expected_share * arena.size_bytes:
            return None
        return "a request came too slowly while others waited for its memory"

    def _take_arena(self) -> Arena:
        """Return an arena without a wait for memory: the next request may not be Produce."""
        arena = self._pool.large_nowait() if self._wants_large else None
        arena = arena or self._pool.small()
        arena.holder = self
        self._arena = arena
        return arena

    def drop_arena(self) -> None:
        """See arenas.Holder."""
        self._receive_upto = None
        if self._arena is not None:
            arena, self._arena = self._arena, None
            arena.release()

    def let_go(self, arena: Arena, frame_end: int) -> None:
        """Note that the frame up to frame_end is decoded, so its bytes are not needed any more.

        If it is the last received frame, others use its memory while the handler waits.
        """
        if self._arena is arena and frame_end == arena.end:
            arena.start = arena.end
            self._partial_since = None
            self._tell_of_partial(NOTHING)
            self.drop_arena()

    def produce_received(self) -> None:
        """Note that the last produce request was received to its end, and accepted."""
        self._inflow.whole_at = self.received_at

    def take_limits(self, limits: ConnectionLimits) -> None:
        """Replace the limits."""
        self._limits = limits

    def receive_little(self) -> bool:
        """Limit the next receive to the rest of the frame under way, or else to a few bytes.

        Returns whether a frame is under way.

        Call it after make_room().  In this way nearly every request is handled before the next one
        is received.
        """
        arena = self._arena
        if self._partial_since is None or arena is None:
            self._receive_upto = LITTLE_BYTES + (arena.end if arena is not None else 0)
            return False
        self._receive_upto = arena.start + self._frame_bytes
        return True

    def holds(self, arena: Arena) -> bool:
        """Return whether this receiver still receives into the arena."""
        return self._arena is arena

    def close(self) -> None:
        """Release the arena, and end a produce request under way."""
        self._tell_of_partial(NOTHING)
        self.drop_arena()

    async def make_room(self, arena: Arena, frames: Frames) -> None:
        """Make room for the rest of the incomplete frame before the next receive."""
        arena.start = frames.rest_position
        self._receive_upto = None
        if arena.start == arena.end:
            self._partial_since = None
            self._emptied(arena)
            if self._is_produce_partial:
                self._tell_of_partial(NOTHING)
            return
        self._frame_bytes = frames.missing_bytes
        if frames.whole or self._partial_since is None:
            self._partial_since = trio.current_time()
        self._tell_of_partial(arena.data[arena.start : arena.end])
        if arena.start + frames.missing_bytes <= arena.size_bytes and arena.end < arena.size_bytes:
            return
        rest = arena.data[arena.start : arena.end]
        larger = await self._other_or_own(arena, rest, frames.missing_bytes)
        # the wait for memory does not count against the client
        self._partial_since = trio.current_time()
        larger.data[: len(rest)] = rest
        larger.start, larger.end = 0, len(rest)
        if larger is arena:
            return
        larger.holder = self
        self._arena = larger
        arena.start = arena.end
        arena.release()

    async def _other_or_own(self, arena: Arena, rest: memoryview, frame_bytes: int) -> Arena:
        """Return an arena for the frame's rest: another one, or this arena once it is unpinned.

        If connections at the limit that each hold an arena waited only for other arenas, they would
        deadlock.
        """
        if arena.size_bytes < max(frame_bytes, LARGE_BYTES):
            return await self._arena_for(rest, frame_bytes)
        if not arena.is_pinned:
            return arena
        chosen: list[Arena] = []
        async with trio.open_nursery() as nursery:

            async def take_other() -> None:
                chosen.append(await self._arena_for(rest, frame_bytes))
                nursery.cancel_scope.cancel()

            nursery.start_soon(take_other)
            await arena.wait_until_free()
            nursery.cancel_scope.cancel()
        return chosen[0] if chosen else arena

    def _tell_of_partial(self, head: memoryview) -> None:
        """Update inflow.  head: the received part of an incomplete frame."""
        is_partial = len(head) >= KEY_END and _is_produce(head)
        if is_partial:
            self._inflow.partial_at = self.received_at
        if is_partial != self._is_produce_partial:
            self._is_produce_partial = is_partial
            (self._inflow.begin if is_partial else self._inflow.end)()

    def _emptied(self, arena: Arena) -> None:
        if not arena.is_pinned or arena.size_bytes - arena.end < arena.size_bytes // 4:
            self._arena = None
            arena.release()

    async def _arena_for(self, rest: memoryview, frame_bytes: int) -> Arena:
        if len(rest) < KEY_END:
            return self._pool.small()  # the API key is not received yet
        if self._limits.is_strange and frame_bytes > SMALL_BYTES and not _is_token(rest):
            raise CloseConnection(f"a request of {frame_bytes} bytes before authentication")
        if _is_produce(rest):
            if frame_bytes <= SMALL_BYTES // 2 and not self._wants_large:
                return self._pool.small()
            with trio.move_on_after(self._limits.frame_seconds):
                return await self._pool.large(max(frame_bytes, LARGE_BYTES))
            raise CloseConnection("there was no memory for its request in time")
        if frame_bytes > self._limits.max_control_frame_bytes:
            raise CloseConnection(f"a request of {frame_bytes} bytes that is not Produce")
        if frame_bytes <= SMALL_BYTES:
            return self._pool.small()
        with trio.move_on_after(self._limits.frame_seconds):
            return await self._pool.control(frame_bytes)
        raise CloseConnection("there was no memory for its request in time")


def _is_produce(head: memoryview) -> bool:
    return int.from_bytes(head[LENGTH_BYTES:KEY_END], "big") == _PRODUCE


def _is_token(head: memoryview) -> bool:
    return int.from_bytes(head[LENGTH_BYTES:KEY_END], "big") == _SASL_AUTHENTICATE
