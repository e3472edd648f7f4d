"""Receive buffers: pinned ones stay, large ones are bounded."""

import pytest
import trio
import trio.testing

from tidegate_gateway.network.arenas import LARGE_BYTES, Arena, ArenaPool


class Holder:
    """A holder that releases its arena when it is asked to."""

    def __init__(self, arena: Arena) -> None:
        self.arena: Arena | None = arena
        arena.holder = self

    def drop_arena(self) -> None:
        assert self.arena is not None
        arena, self.arena = self.arena, None
        arena.release()


async def test_a_released_arena_comes_back_once_it_is_not_pinned() -> None:
    pool = ArenaPool(LARGE_BYTES)
    arena = pool.small()
    Holder(arena)
    arena.end = 10
    arena.pin()
    arena.pin()
    arena.release()
    assert pool.small() is not arena
    arena.unpin()
    assert pool.small() is not arena
    arena.unpin()
    again = pool.small()
    assert again is arena
    assert (again.start, again.end) == (0, 0)


async def test_an_idle_holder_drops_what_it_has_emptied_and_a_busy_one_keeps_it() -> None:
    pool = ArenaPool(LARGE_BYTES)
    arena = pool.small()
    holder = Holder(arena)
    arena.pin()
    arena.start, arena.end = 3, 10
    arena.unpin()
    assert holder.arena is arena
    arena.pin()
    arena.start = 10
    arena.unpin()
    assert holder.arena is None
    assert pool.small() is arena


async def test_large_arenas_are_bounded_and_first_come_first_served(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pool = ArenaPool(4 * LARGE_BYTES)
    held = [await pool.large() for _ in range(3)]
    order: list[int] = []

    async def take(number: int) -> None:
        arena = await pool.large()
        order.append(number)
        await trio.sleep(1)
        arena.release()

    async with trio.open_nursery() as nursery:
        for number in (1, 2):
            nursery.start_soon(take, number)
            await trio.testing.wait_all_tasks_blocked()
        assert order == []
        held[0].release()
        await trio.testing.wait_all_tasks_blocked()
        assert order == [1]
        held[1].release()
        held[2].release()
    assert order == [1, 2]
    assert pool.large_bytes == 0


async def test_a_frame_above_the_bound_enters_alone_and_delays_only_such_frames(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pool = ArenaPool(4 * LARGE_BYTES)
    stalled = await pool.large(10 * LARGE_BYTES)
    with trio.move_on_after(1):
        await pool.large(2 * LARGE_BYTES)
        pytest.fail("the bound did not hold")
    (await pool.large()).release()
    stalled.release()
    (await pool.large(2 * LARGE_BYTES)).release()
    assert pool.large_bytes == 0


async def test_a_cancelled_wait_for_an_arena_takes_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pool = ArenaPool(LARGE_BYTES)
    held = await pool.large()
    with trio.move_on_after(1):
        await pool.large()
        pytest.fail("the bound did not hold")
    held.release()
    assert pool.large_bytes == 0
    with trio.fail_after(1):
        (await pool.large()).release()
