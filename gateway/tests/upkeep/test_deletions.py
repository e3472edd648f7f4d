"""A deletion that the store refuses is repeated at intervals, and delays no other deletion."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tidegate_gateway.upkeep.deletions import LAST_PAUSE_SECONDS, MAX_FAILED, Deletions

AT_ONCE = 100
INTERVAL_SECONDS = 30.0


class World:
    """Dead objects, oldest first, and a store that refuses to delete those in `kept`."""

    def __init__(self) -> None:
        self.dead: dict[int, None] = {}
        self.kept: set[int] = set()
        self.failed = 0
        self.deletions = Deletions(self.delete)

    async def delete(self, numbers: list[int]) -> bool:
        await trio.lowlevel.checkpoint()
        assert numbers
        if self.kept.intersection(numbers):
            self.failed += 1
            return False
        for each in numbers:
            del self.dead[each]
        return True

    def due(
        self, *, left_out: set[int] | frozenset[int] = frozenset(), among: list[int] | None = None
    ) -> list[int]:
        numbers = self.dead if among is None else among
        return [each for each in numbers if each in self.dead and each not in left_out][:AT_ONCE]

    async def rounds(self, count: int) -> None:
        for _ in range(count):
            before = self.failed
            await self.deletions.run_once(self.due)
            assert self.failed - before <= MAX_FAILED
            await trio.sleep(INTERVAL_SECONDS)

    def add(self, first: int, count: int) -> None:
        self.dead.update(dict.fromkeys(range(first, first + count)))


@pytest.mark.parametrize("kept", [1, 3, 10, 150])
async def test_whatever_the_store_keeps_all_else_goes(kept: int, autojump_clock: MockClock) -> None:
    world = World()
    world.add(0, 500)
    world.kept = set(range(0, 3 * kept, 3))
    await world.rounds(250)
    assert set(world.dead) == world.kept
    for again in range(1, 300):
        world.add(1000 * again, 50)
        await world.rounds(1)
        assert set(world.dead) == world.kept
    # Each refused deletion was tried again, less and less often.
    assert world.failed > 3 * kept
    world.kept.clear()
    await world.rounds(int(LAST_PAUSE_SECONDS / INTERVAL_SECONDS) + 1)
    assert not world.dead


async def test_a_store_that_is_away_is_asked_seldom_and_all_goes_at_once_afterwards(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.add(0, 1000)
    world.kept = set(world.dead)
    await world.rounds(10)
    assert world.failed == 10 * MAX_FAILED
    world.kept.clear()
    await world.rounds(1)
    assert not world.dead


async def test_objects_that_others_deleted_are_not_deleted_again(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.add(0, 4)
    world.kept = {0, 1}
    await world.rounds(1)
    world.dead.clear()
    failed = world.failed
    await world.rounds(200)
    assert world.failed == failed


async def test_an_error_that_passes_delays_an_object_little(autojump_clock: MockClock) -> None:
    world = World()
    world.add(0, 1)
    world.kept = {0}
    await world.rounds(3)
    world.kept.clear()
    await world.rounds(3)
    assert not world.dead
