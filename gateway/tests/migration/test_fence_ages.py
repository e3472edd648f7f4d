"""migration/fence_ages.py: the turns and deadlines of fences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock

from tidegate_coordination.state.migration.source_groups import GroupFence
from tidegate_coordination.state.migration.switches import Fence
from tidegate_gateway.migration.assignment import looks_after
from tidegate_gateway.migration.fence_ages import GROUPS, TOPICS, FenceAges

LINK = "src"
GATEWAYS = (1, 2)
FIRST = next(each for each in GATEWAYS if looks_after(LINK, each, GATEWAYS))
OTHER = next(each for each in GATEWAYS if each != FIRST)


def ages_of(incarnation: int) -> FenceAges:
    brokers = [SimpleNamespace(incarnation=each, draining=False) for each in GATEWAYS]
    gateways = SimpleNamespace(brokers=lambda: brokers)
    stub: Any = SimpleNamespace(incarnation=incarnation, state=SimpleNamespace(gateways=gateways))
    return FenceAges(stub)


def topics_fence(**more: Any) -> Fence:
    return Fence(1, LINK, {}, set(), **more)


async def test_others_give_a_fence_up_later(autojump_clock: MockClock) -> None:
    first, other = ages_of(FIRST), ages_of(OTHER)
    for fence, patience in (
        (topics_fence(), TOPICS),
        (GroupFence(1, LINK, (), set()), GROUPS),
    ):
        for each in (first, other):
            each.look([fence])
        seen_at = trio.current_time()
        await trio.sleep(1)
        assert first.deadline(fence) == seen_at + patience.own
        assert other.deadline(fence) == seen_at + patience.others


async def test_a_fence_of_groups_has_an_age_of_its_own(autojump_clock: MockClock) -> None:
    ages, topics, groups = ages_of(FIRST), topics_fence(), GroupFence(1, LINK, (), set())
    ages.look([topics])
    await trio.sleep(1)
    ages.look([topics, groups])
    await trio.sleep(1)
    assert (ages.age(topics), ages.age(groups)) == (2, 1)


async def test_a_fence_that_is_gone_is_forgotten(autojump_clock: MockClock) -> None:
    ages, fence = ages_of(FIRST), topics_fence()
    ages.look([fence])
    await trio.sleep(1)
    ages.look([])
    ages.look([fence])
    assert ages.age(fence) == 0


async def test_its_lifter_goes_first_with_a_lifted_fence(autojump_clock: MockClock) -> None:
    ages, fence = ages_of(OTHER), topics_fence()
    ages.look([fence])
    await trio.sleep(1)
    assert not ages.is_mine(fence)
    fence.lifted, fence.lifter = "no", OTHER
    ages.look([fence])
    assert ages.is_mine(fence)
    assert ages.age(fence) == 0  # its age starts again
    assert not ages_of(FIRST).is_mine(fence)


async def test_others_help_after_half_of_the_time(autojump_clock: MockClock) -> None:
    ages, fence = ages_of(OTHER), topics_fence(is_back=True)
    ages.look([fence])
    assert ages_of(FIRST).is_my_turn(fence)
    assert not ages.is_my_turn(fence)
    await trio.sleep(TOPICS.own / 2 + 0.1)
    assert ages.is_my_turn(fence)
