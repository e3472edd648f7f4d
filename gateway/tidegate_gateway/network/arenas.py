"""Receive buffers, pooled and bounded.

The gateway parses requests in place.  Record batches stay in the receive buffer, an arena, until
their WAL object is sealed.  So each produce request in an arena *pins* it once.  The pool reuses an
arena when it is not pinned and no connection receives into it.

A connection that sends little gets small arenas, and holds at most a few of them.  A connection
that sends large or many produce requests gets large arenas.  There is a limit on the bytes of all
large arenas: at the limit the next produce request waits, and all other requests continue.  A frame
larger than a large arena gets an arena of the frame's size.  Such arenas have a share of the limit,
which always admits one of them.  Large frames of other requests have a separate limit, at which
only such frames wait.  Heartbeats are small, so they never wait for memory.
"""

from __future__ import annotations

from mmap import mmap
from typing import Protocol

import trio

from .byte_budget import ByteBudget

SMALL_BYTES = 64 * 1024
LARGE_BYTES = 4 << 20
# How many idle arenas the pool keeps; the memory of further ones goes back to the system.
KEPT_SMALL = 256
KEPT_LARGE = 8
JUMBO_SHARE = 0.25
# The limit on the sum of all large frames other than Produce: four frames of the largest size.
CONTROL_BYTES = 32 << 20


class Holder(Protocol):
    """A connection's receiver, which receives into an arena."""

    def drop_arena(self) -> None:
        """Release the arena, which is empty and no longer pinned, to the pool."""
        ...


class Arena:
    """A buffer with a filled part: bytes [start, end) are received and not yet consumed.

    size_bytes: of the whole buffer.  holder: the receiver that uses the arena; None after
    release().  budget: counts its bytes; None for a small arena.
    """

    __slots__ = (
        "_free",
        "_pins",
        "_pool",
        "budget",
        "data",
        "end",
        "holder",
        "size_bytes",
        "start",
    )

    def __init__(self, pool: ArenaPool, size_bytes: int) -> None:
        self._pool = pool
        self._pins = 0
        self._free: trio.Event | None = None
        self.holder: Holder | None = None
        self.budget: ByteBudget | None = None
        # Not a bytearray if large: its zeros would take memory at once, for a mere declared length.
        buffer = bytearray(size_bytes) if size_bytes <= SMALL_BYTES else mmap(-1, size_bytes)
        self.data = memoryview(buffer)
        self.size_bytes = size_bytes
        self.start = 0
        self.end = 0

    @property
    def is_pinned(self) -> bool:
        """Whether batches in this arena still wait for their WAL object to be sealed."""
        return self._pins > 0

    def pin(self) -> None:
        """Keep the bytes unchanged for a further produce request."""
        self._pins += 1

    def unpin(self) -> None:
        """Remove a produce request's pin.

        After the last pin, the connection releases an arena that is empty.  An arena that was
        released before goes back to the pool.
        """
        self._pins -= 1
        if self._pins:
            return
        if self._free is not None:
            self._free.set()
        if self.holder is None:
            self._pool.give_back(self)
        elif self.start == self.end:
            self.holder.drop_arena()

    async def wait_until_free(self) -> None:
        """Wait until the WAL objects of all batches in this arena are sealed."""
        while self.is_pinned:
            self._free = trio.Event()
            await self._free.wait()

    def release(self) -> None:
        """Detach the arena from its connection; without pins it goes back to the pool."""
        self.holder = None
        if not self._pins:
            self._pool.give_back(self)


class ArenaPool:
    """Hands out arenas.

    Args:
      max_large_bytes: limit on the sum of all Produce arenas above SMALL_BYTES.  The part
          JUMBO_SHARE of it is for frames larger than a large arena: if such frames stall, only
          other such frames wait.
    """

    def __init__(self, max_large_bytes: int) -> None:
        self._small: list[Arena] = []
        self._large: list[Arena] = []
        jumbo_bytes = int(max_large_bytes * JUMBO_SHARE)
        self._jumbo_budget = ByteBudget(jumbo_bytes)
        self._large_budget = ByteBudget(max_large_bytes - jumbo_bytes)
        self._control_budget = ByteBudget(CONTROL_BYTES)

    @property
    def large_bytes(self) -> int:
        """The bytes that count against max_large_bytes."""
        return self._large_budget.used_bytes + self._jumbo_budget.used_bytes

    @property
    def idle_small(self) -> int:
        """The number of small arenas that the pool keeps for reuse."""
        return len(self._small)

    def small(self) -> Arena:
        """Return an arena of SMALL_BYTES."""
        return self._reused(self._small) or Arena(self, SMALL_BYTES)

    async def control(self, size_bytes: int) -> Arena:
        """Return an arena for one frame that is not Produce; waits at CONTROL_BYTES.

        The client declares the size, but a page of the arena takes memory only when its bytes
        arrive.
        """
        await self._control_budget.take(size_bytes)
        arena = Arena(self, size_bytes)
        arena.budget = self._control_budget
        return arena

    async def large(self, size_bytes: int = LARGE_BYTES) -> Arena:
        """Return an arena of at least size_bytes; at the limit, wait in order of arrival."""
        size_bytes = max(size_bytes, LARGE_BYTES)
        await self._budget_of(size_bytes).take(size_bytes)
        return self._counted(size_bytes)

    def large_nowait(self) -> Arena | None:
        """Return an arena of LARGE_BYTES, or None at the limit."""
        if not self._large_budget.take_nowait(LARGE_BYTES):
            return None
        return self._counted(LARGE_BYTES)

    def is_wanted(self, arena: Arena) -> bool:
        """Return whether other frames that are not Produce wait for the arena's bytes."""
        return arena.budget is self._control_budget and self._control_budget.is_waited_for

    @property
    def control_bytes(self) -> int:
        """The bytes that large frames other than Produce take."""
        return self._control_budget.used_bytes

    def _budget_of(self, size_bytes: int) -> ByteBudget:
        return self._large_budget if size_bytes == LARGE_BYTES else self._jumbo_budget

    def _counted(self, size_bytes: int) -> Arena:
        arena = self._reused(self._large) if size_bytes == LARGE_BYTES else None
        arena = arena or Arena(self, size_bytes)
        arena.budget = self._budget_of(size_bytes)
        return arena

    @staticmethod
    def _reused(kept: list[Arena]) -> Arena | None:
        if not kept:
            return None
        arena = kept.pop()
        arena.start = arena.end = 0
        return arena

    def give_back(self, arena: Arena) -> None:
        """Take back an arena that is not pinned and that no connection receives into."""
        if arena.size_bytes == SMALL_BYTES:
            if len(self._small) < KEPT_SMALL:
                self._small.append(arena)
            return
        budget, arena.budget = arena.budget, None
        if budget is self._large_budget and len(self._large) < KEPT_LARGE:
            self._large.append(arena)
        if budget is not None:
            budget.give(arena.size_bytes)
