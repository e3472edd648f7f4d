"""migration/fences.py: the task that looks after fences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.migration.test_fence_ages import FIRST, LINK, OTHER, ages_of
from tidegate_coordination.state.migration.switches import Fence
from tidegate_gateway.migration.fence_ages import TOPICS
from tidegate_gateway.migration.fences import FenceWatch

# Start times for which start + patience is, as a float, rounded down or not.
BEGINNINGS = (0.0, 20.7, 61.123, 70.123, 80.0)


class Kind:
    """A kind of fences that are never reached, and are given up once they may be."""

    def __init__(self, fence: Fence) -> None:
        self.table = SimpleNamespace(fences={fence.number: fence}, version=1)
        self.given_up_at: list[float] = []

    async def reached(self, fence: Fence) -> Any:
        await trio.sleep_forever()

    def gives_up(self, fence: Fence) -> bool:
        return True

    async def give_up(self, fence: Fence) -> None:
        self.given_up_at.append(trio.current_time())
        self.table.fences.clear()


@pytest.mark.parametrize(
    ("incarnation", "patience"), [(FIRST, TOPICS.own), (OTHER, TOPICS.others)], ids=["own", "other"]
)
@pytest.mark.parametrize("begins_at", BEGINNINGS)
async def test_a_late_fence_is_given_up_at_its_deadline(
    autojump_clock: MockClock, begins_at: float, incarnation: int, patience: float
) -> None:
    await trio.sleep(begins_at)
    seen_at = trio.current_time()
    kind = Kind(Fence(1, LINK, {}, set()))
    coordinator: Any = SimpleNamespace(incarnation=incarnation, listen=lambda *_: None)
    kinds: Any = [kind]
    watch = FenceWatch(coordinator, kinds, ages_of(incarnation), lambda _: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert kind.given_up_at == [seen_at + patience]
