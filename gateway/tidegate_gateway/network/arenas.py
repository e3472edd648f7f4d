"""Receive buffers, pooled and bounded.

The gateway parses requests in place, and record batches stay where they were received until their
WAL object is sealed.  So an arena is *pinned* once for each produce request in it.  The pool reuses
an arena that is not pinned and that no connection receives into.

A connection that sends little gets small arenas, and holds at most a few of them.  A connection
that sends large or many produce requests gets large arenas.  Large arenas are the gateway's bound
on buffered bytes: at the bound the next produce request waits, and all other requests continue.  A
frame larger than a large arena gets an arena of its own size, from a share of the bound that always
admits one.  Large frames of other requests have a bound of their own, at which only such frames
wait.  Heartbeats, which keep a client alive, are small.
"""

from __future__ import annotations

from mmap import mmap
from typing import Protocol

import trio

from .byte_budget import ByteBudget

SMALL_BYTES = 64 * 1024
LARGE_BYTES = 4 << 20
# Idle arenas that the pool keeps; the memory of further ones goes back to the system.
KEPT_SMALL = 256
KEPT_LARGE = 8
JUMBO_SHARE = 0.25
# The bound on all frames together that are neither Produce nor small: four of the largest.
CONTROL_BYTES = 32 << 20


class Holder(Protocol):
    """A connection's receiver, which receives into an arena."""

    def drop_arena(self) -> None:
        """Release the arena, which is empty and no longer pinned, to the pool."""
        ...


class Arena:
    """A buffer with a filled part: bytes [start, end) are received and not yet consumed.

    size_bytes: of the whole buffer.  holder: receives into it; None after release().
    budget: counts its bytes; None for a small one.
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
        # A large bytearray is filled with zeros: a frame's declared length alone would cost memory.
        buffer = bytearray(size_bytes) if size_bytes <= SMALL_BYTES else mmap(-1, size_bytes)
        self.data = memoryview(buffer)
        self.size_bytes = size_bytes
        self.start = 0
        self.end = 0

    @property
    def is_pinned(self) -> bool:
        """Whether batches in it still wait for their WAL object to be sealed."""
        return self._pins > 0

    def pin(self) -> None:
        """Keep the bytes unchanged for one more produce request."""
        self._pins += 1

    def unpin(self) -> None:
        """Remove one produce request's pin.  A connection releases an arena that it has emptied."""
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
        """Wait until the WAL objects of all batches in it are sealed."""
        while self.is_pinned:
            self._free = trio.Event()
            await self._free.wait()

    def release(self) -> None:
        """End the receiving connection's use of it."""
        self.holder = None
        if not self._pins:
            self._pool.give_back(self)


class ArenaPool:
    """Hands out arenas.

    Args:
      max_large_bytes: bound on all Produce arenas above SMALL_BYTES together.  A JUMBO_SHARE of it
          is for frames larger than a large arena: when such frames stall, only other such frames
          wait.
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
        """The bytes that count against the bound."""
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

        The client declares the size; a page of the arena takes memory when bytes arrive for it.
        """
        await self._control_budget.take(size_bytes)
        arena = Arena(self, size_bytes)
        arena.budget = self._control_budget
        return arena

    async def large(self, size_bytes: int = LARGE_BYTES) -> Arena:
        """Return an arena of at least size_bytes; waits, first come first served, at the bound."""
        size_bytes = max(size_bytes, LARGE_BYTES)
        await self._budget_of(size_bytes).take(size_bytes)
        return self._counted(size_bytes)

    def large_nowait(self) -> Arena | None:
        """Return an arena of LARGE_BYTES, or None at the bound."""
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
